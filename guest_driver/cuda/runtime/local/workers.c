/* Threads that share the blocks of a grid with the thread that runs it. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "versions.h"

enum { MAX_HELPERS = 15 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct rt_grid *shared; /* NULL: nothing to help with */
static uint64_t generation;
static unsigned helping; /* helpers that are at work */
static unsigned num_helpers;
static bool is_taken; /* by a grid; a second one runs in its own thread alone */

static void *help(void *unused)
{
    struct rt_stacks *stacks = NULL;
    uint64_t seen = 0;
    (void)unused;
    (void)pthread_mutex_lock(&lock);
    for (;;) {
        while (shared == NULL || generation == seen)
            (void)pthread_cond_wait(&changed, &lock);
        struct rt_grid *grid = shared;
        seen = generation;
        helping++;
        (void)pthread_mutex_unlock(&lock);
        rt_local_run_blocks(grid, &stacks);
        (void)pthread_mutex_lock(&lock);
        helping--;
        (void)pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* With the lock. Signals are the program's own threads', but for those that an instruction causes. */
static void start_helpers(void)
{
    sigset_t most;
    sigset_t before;
    pthread_t thread;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    (void)sigfillset(&most);
    (void)sigdelset(&most, SIGSEGV);
    (void)sigdelset(&most, SIGBUS);
    (void)sigdelset(&most, SIGFPE);
    (void)sigdelset(&most, SIGILL);
    (void)pthread_sigmask(SIG_SETMASK, &most, &before);
    while (num_helpers < MAX_HELPERS && (long)num_helpers + 1 < processors &&
           pthread_create(&thread, NULL, help, NULL) == 0) {
        (void)pthread_detach(thread);
        num_helpers++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct sigaction earlier;

/* A division of integers by zero, which a GPU gives some result. */
static void on_exception(int signal, siginfo_t *info, void *context)
{
    rt_local_abandon(cudaErrorLaunchFailure, info->si_addr);
    if ((earlier.sa_flags & SA_SIGINFO) != 0)
        earlier.sa_sigaction(signal, info, context);
    else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN)
        earlier.sa_handler(signal);
    else
        (void)sigaction(SIGFPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static void watch_exceptions(void)
{
    struct sigaction ours = {.sa_sigaction = on_exception, .sa_flags = SA_SIGINFO};
    (void)sigemptyset(&ours.sa_mask);
    (void)sigaction(SIGFPE, &ours, &earlier);
}

cudaError_t rt_local_run_grid(struct rt_grid *grid)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local struct rt_stacks *stacks;
    uint64_t blocks = (uint64_t)grid->shape.grid[0] * grid->shape.grid[1] * grid->shape.grid[2];
    bool is_shared = false;
    (void)pthread_once(&once, watch_exceptions);
    if (blocks > 1) {
        (void)pthread_mutex_lock(&lock);
        if (num_helpers == 0)
            start_helpers();
        is_shared = !is_taken && num_helpers > 0;
        if (is_shared) {
            is_taken = true;
            shared = grid;
            generation++;
            (void)pthread_cond_broadcast(&changed);
        }
        (void)pthread_mutex_unlock(&lock);
    }
    rt_local_run_blocks(grid, &stacks);
    if (is_shared) {
        (void)pthread_mutex_lock(&lock);
        shared = NULL;
        while (helping > 0)
            rt_wait(&changed, &lock);
        is_taken = false;
        (void)pthread_mutex_unlock(&lock);
    }
    return atomic_load(&grid->error);
}
