/* Waits of the runtime's, which pthread_cancel() does not end: the thread would leave with a lock, for which all others
 * would wait then. */
#include "runtime.h"

void rt_wait(pthread_cond_t *changed, pthread_mutex_t *mutex)
{
    int before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    (void)pthread_cond_wait(changed, mutex);
    (void)pthread_setcancelstate(before, &before);
}
