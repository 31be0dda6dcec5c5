/* Signals that guest code raises: reports kernel, block, thread and address, and ends the worker.
 *
 * Loops over threads are vectorised, so the faulting instruction does not tell its thread. To find it, the threads of
 * the region are run again one by one, until one faults. The instruction tells its line of the source, if the program
 * was compiled with -lineinfo. */
#define _GNU_SOURCE
#include "cpu_control.h"
#include "cpu_profile.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct sigaction previous[NSIG];

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

/* The first fault, kept while its thread is searched. */
struct fault {
    int signal;
    uintptr_t address;
    uintptr_t code; /* the instruction */
};

static __thread struct fault first_fault;

static bool is_stack(const struct cpu_pe *pe, uintptr_t address)
{
    uintptr_t low = (uintptr_t)pe->stack_low;
    return address >= low - 65536 && address < low + 65536;
}

static const char *what_happened(const struct cpu_pe *pe, const struct fault *fault)
{
    switch (fault->signal) {
    case SIGFPE:
        return "integer division by zero";
    case SIGILL:
        return "illegal instruction";
    case SIGBUS:
        return "bus error";
    default:
        return is_stack(pe, fault->address) ? "stack overflow" : "invalid address";
    }
}

static __attribute__((noreturn)) void report(struct cpu_pe *pe, const struct fault *fault)
{
    char where[256], place[CPU_PLACE_TEXT], text[VGC_MAX_ERROR_TEXT];
    const struct cpu_launch *launch = atomic_load(&pe->launch);
    cpu_describe(pe, where, sizeof(where));
    cpu_describe_place(pe, fault->code, place);
    if (fault->signal == SIGSEGV || fault->signal == SIGBUS)
        snprintf(text, sizeof(text), "%s 0x%lx%s in %s", what_happened(pe, fault), (unsigned long)fault->address, place,
                 where);
    else
        snprintf(text, sizeof(text), "%s%s in %s", what_happened(pe, fault), place, where);
    cpu_hook_fault(pe, VGC_CTL_FAULT_KERNEL, text);
    vgc_engine_fatal(&pe->engine->base, launch->op, VGC_STATUS_FAULT, (uint32_t)fault->signal, text);
}

/* Runs the threads one by one, on the PE's own stack, until one faults again. */
static __attribute__((noreturn)) void locate(struct cpu_pe *pe)
{
    for (; pe->located < pe->last; pe->located++)
        pe->site->resume(&pe->ctx, pe->located, pe->located + 1, pe->site->table);
    pe->locating = false;
    report(pe, &first_fault);
}

/* Makes the signal handler return to a function (that does not return), on the PE's own stack below the interrupted
 * frame's red zone. */
static void go_on_at(ucontext_t *back, uintptr_t function, struct cpu_pe *pe)
{
    uintptr_t stack = ((uintptr_t)back->uc_mcontext.gregs[REG_RSP] - 1024) & ~(uintptr_t)15;
    back->uc_mcontext.gregs[REG_RSP] = (greg_t)(stack - 8);
    back->uc_mcontext.gregs[REG_RIP] = (greg_t)function;
    back->uc_mcontext.gregs[REG_RDI] = (greg_t)(uintptr_t)pe;
}

static __attribute__((noreturn)) void leave_hook(struct cpu_pe *pe)
{
    _longjmp(pe->leave_hook, pe->hook_signal);
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
    const struct sigaction *before = &previous[signal];
    if ((before->sa_flags & SA_SIGINFO) != 0) {
        before->sa_sigaction(signal, info, context);
    } else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
        before->sa_handler(signal);
    } else {
        sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL},
                  NULL); /* the instruction faults again and ends the process */
    }
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    struct cpu_pe *pe = cpu_current_pe();
    if (pe != NULL && pe->in_hook) { /* loaded firmware: the hook ends, the kernel goes on */
        pe->in_hook = false;
        pe->hook_signal = signal;
        go_on_at(context, (uintptr_t)leave_hook, pe);
        return;
    }
    if (pe == NULL || !pe->in_kernel || atomic_load(&pe->launch) == NULL) {
        pass_on(signal, info, context);
        return;
    }
    uintptr_t code = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    struct fault fault = {signal, (uintptr_t)info->si_addr, code};
    if (pe->locating)
        report(pe, &fault);
    first_fault = fault;
    if ((pe->site->flags & VGC_SITE_KEEPS_POSITION) != 0)
        report(pe, &fault);
    pe->locating = true; /* a fault right there is the last */
    pe->located = pe->first;
    greg_t *stack = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
    if (is_stack(pe, fault.address) || (uint64_t)*stack - (uintptr_t)pe->stack_low >= CPU_STACK_BYTES)
        *stack = (greg_t)pe->region_stack; /* it is used up, or lost */
    go_on_at(context, (uintptr_t)locate, pe);
}

int cpu_faults_install(void)
{
    static bool installed;
    if (installed)
        return 0;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (size_t i = 0; i < sizeof(SIGNALS) / sizeof(SIGNALS[0]); i++)
        if (sigaction(SIGNALS[i], &action, &previous[SIGNALS[i]]) != 0)
            return -1;
    installed = true;
    return 0;
}
