/* Calls of this library's functions, told to libvgc for `vgc trace`. A function is not called by the step before it but
 * jumped to, whatever its arguments, and returns to a step behind it: the address where it should return to is kept
 * here, by thread. */
#include <stdlib.h>
#include <time.h>

#include "front.h"

enum { DEPTH = 32 };

struct call {
    size_t index;
    void *const *place; /* of the return address, on the stack */
    void *address;      /* that was there */
    uint64_t start_ns;
};

static _Thread_local struct call calls[DEPTH];
static _Thread_local size_t depth;
static vgc_trace_function *tell;
static void *const *targets;

bool vgc_is_traced(void)
{
    const char *folder = secure_getenv("VGC_TRACE");
    return folder != NULL && folder[0] != '\0';
}

bool vgc_trace_with(vgc_trace_function *function, void *const *functions)
{
    void **own = calloc(vgc_num_names, sizeof(*own));
    if (own == NULL)
        return false;
    for (size_t i = 0; i < vgc_num_names; i++)
        own[i] = functions[i];
    targets = own;
    tell = function;
    return true;
}

void *vgc_traced_form(void *function)
{
    for (size_t i = 0; targets != NULL && i < vgc_num_names; i++)
        if (targets[i] == function)
            return vgc_traced[i];
    return function;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void *vgc_trace_enter(size_t index, void **returns_to, void *left)
{
    while (depth > 0 && calls[depth - 1].place <= (void *const *)returns_to)
        depth--; /* longjmp() has left it */
    if (depth < DEPTH) {
        calls[depth++] = (struct call){index, returns_to, *returns_to, now_ns()};
        *returns_to = left;
    }
    return targets[index];
}

void *vgc_trace_leave(void *const *returned_from)
{
    while (calls[depth - 1].place < returned_from)
        depth--;
    const struct call *call = &calls[--depth];
    tell(vgc_names[call->index], call->start_ns);
    return call->address;
}
