/* SIGSEGV: a touch of managed memory that is on the device brings it to the host; all others are the program's. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

#include "local/versions.h"

static rt_fault_function *resolve_fault;
static struct sigaction earlier; /* the program's */

static bool is_write(const void *context)
{
#if defined(__x86_64__)
    return (((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    (void)context; /* not told here: a store faults once more, as the page is only readable */
    return false;
#endif
}

/* The program's own handler; or the default action, which ends it when the instruction faults again. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    struct sigaction next = earlier;
    if ((next.sa_flags & SA_SIGINFO) != 0 && next.sa_sigaction != NULL) {
        sigset_t old;
        (void)pthread_sigmask(SIG_BLOCK, &next.sa_mask, &old);
        next.sa_sigaction(signal, info, context);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    } else if ((next.sa_flags & SA_SIGINFO) == 0 && next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
        sigset_t old;
        (void)pthread_sigmask(SIG_BLOCK, &next.sa_mask, &old);
        next.sa_handler(signal);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    } else {
        bool was_sent = info->si_code <= 0; /* by kill(): no instruction will fault again */
        if (was_sent && (next.sa_flags & SA_SIGINFO) == 0 && next.sa_handler == SIG_IGN)
            return;
        (void)sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        if (was_sent)
            (void)raise(SIGSEGV);
    }
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    bool resolved = info->si_code > 0 && resolve_fault(info->si_addr, is_write(context));
    if (!resolved && rt_local_is_running()) {
        resolved =
            info->si_code > 0 && rt_local_fault(info->si_addr) && resolve_fault(info->si_addr, is_write(context));
        if (!resolved)
            rt_local_abandon(cudaErrorIllegalAddress, info->si_addr);
    }
    errno = saved;
    if (!resolved)
        pass_on(signal, info, context);
}

void rt_faults_install(rt_fault_function *resolve)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction now;
    sigset_t faults;
    (void)sigemptyset(&faults);
    (void)sigaddset(&faults, SIGSEGV);
    (void)pthread_sigmask(SIG_UNBLOCK, &faults, NULL); /* or the kernel ends a thread that touches such memory */
    (void)pthread_mutex_lock(&mutex);
    resolve_fault = resolve;
    if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction != on_fault) {
        /* A stack that overflowed can only be handled on another; our own handler asks for more room than such have. */
        struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | (now.sa_flags & SA_ONSTACK)};
        (void)sigemptyset(&ours.sa_mask);
        earlier = now;
        (void)sigaction(SIGSEGV, &ours, NULL);
    }
    (void)pthread_mutex_unlock(&mutex);
}
