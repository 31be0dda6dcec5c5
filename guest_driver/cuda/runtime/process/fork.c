/* Children of a process that has used CUDA: they get an error from every call, and leave the parent's device alone.
 * A child of a process that has not opened a device yet may use CUDA. */
#include "runtime.h"

bool rt_is_forked;

static void note_fork(void)
{
    rt_is_forked = true;
}

static void watch(void)
{
    (void)pthread_atfork(NULL, NULL, note_fork);
}

void rt_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch);
}
