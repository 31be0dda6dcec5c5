/* Word to the person at the terminal while the host compiles a program for long. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

static const double SECONDS = 10; /* until the first word; each later one takes three times as long */

/* Seconds until the first word; 0: none is wanted. */
static double patience(void)
{
    const char *wanted = getenv("VGC_PROGRESS");
    if (wanted == NULL)
        return isatty(STDERR_FILENO) ? SECONDS : 0;
    double seconds = strtod(wanted, NULL);
    return seconds > 0 && seconds < 1e6 ? seconds : 0;
}

static struct timespec behind(struct timespec from, double seconds)
{
    from.tv_sec += (time_t)seconds;
    from.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (from.tv_nsec >= 1000000000) {
        from.tv_sec++;
        from.tv_nsec -= 1000000000;
    }
    return from;
}

static void *watch(void *data)
{
    struct rt_progress *progress = data;
    struct timespec begin;
    (void)clock_gettime(CLOCK_REALTIME, &begin);
    (void)pthread_mutex_lock(&progress->mutex);
    for (double seconds = progress->patience; !progress->has_ended; seconds *= 3) {
        struct timespec until = behind(begin, seconds);
        int result = 0;
        while (!progress->has_ended && result != ETIMEDOUT)
            result = pthread_cond_timedwait(&progress->changed, &progress->mutex, &until);
        if (!progress->has_ended)
            fprintf(stderr,
                    "virtio-gpu-compute: the host has been compiling device code of this program for %.3g s; it keeps "
                    "the result for later runs\n",
                    seconds);
    }
    (void)pthread_mutex_unlock(&progress->mutex);
    return NULL;
}

void rt_progress_begin(struct rt_progress *progress)
{
    *progress = (struct rt_progress){.patience = patience()};
    if (progress->patience == 0)
        return;
    (void)pthread_mutex_init(&progress->mutex, NULL);
    (void)pthread_cond_init(&progress->changed, NULL);
    progress->is_watched = pthread_create(&progress->thread, NULL, watch, progress) == 0;
}

void rt_progress_end(struct rt_progress *progress)
{
    if (!progress->is_watched)
        return;
    (void)pthread_mutex_lock(&progress->mutex);
    progress->has_ended = true;
    (void)pthread_cond_signal(&progress->changed);
    (void)pthread_mutex_unlock(&progress->mutex);
    (void)pthread_join(progress->thread, NULL);
    (void)pthread_cond_destroy(&progress->changed);
    (void)pthread_mutex_destroy(&progress->mutex);
}
