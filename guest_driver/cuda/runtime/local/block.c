/* One block of a kernel's CPU version, in one thread of the process.
 *
 * Threads of the block that never wait for each other are calls in a loop. Others have stacks of their own, and the
 * thread of the process goes from one to the next where they wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "versions.h"

enum { MAX_THREADS = 1024, STACK_BYTES = 256 << 10, GUARD_BYTES = 4096, WARP = 32 };
/* Operations, as vgc_builtins.h numbers them. */
enum {
    BARRIER_COUNT = 2,
    BARRIER_AND,
    BARRIER_OR,
    SYNCWARP,
    SHFL_IDX,
    SHFL_UP,
    SHFL_DOWN,
    SHFL_XOR,
    BALLOT,
    MATCH_ANY,
    MATCH_ALL,
    ACTIVEMASK,
    BALLOT_ACTIVE
};

enum state { READY, AT_BARRIER, IN_WARP, YIELDED, ENDED };

struct fiber {
    void *stack_pointer; /* where it goes on */
    enum state state;
    int kind;
    int predicate;
    unsigned mask;
    unsigned arg;
    unsigned long long value; /* given, then the result */
};

struct rt_stacks {
    uint8_t *memory;
    void *scheduler; /* stack pointer */
    struct fiber fibers[MAX_THREADS];
    unsigned count;
    unsigned current;
    struct rt_grid *grid;
};

struct running {
    struct rt_grid *grid;
    struct rt_stacks *stacks; /* NULL: no thread waits */
    struct vgc_local_here here;
    sigjmp_buf end;
};

static _Thread_local struct running *running;

bool rt_local_is_running(void)
{
    return running != NULL;
}

void rt_local_abandon(cudaError_t error, void *address)
{
    cudaError_t none = cudaSuccess;
    struct running *ended = running;
    if (ended == NULL)
        return;
    if (atomic_compare_exchange_strong(&ended->grid->error, &none, error))
        atomic_store(&ended->grid->fault, address);
    running = NULL;
    siglongjmp(ended->end, 1);
}

/* ---- going from stack to stack ---------------------------------------------------------------- */

void rt_local_switch(void **saved, void *next);
void rt_local_begin_fiber(void);

/* Saves what a function must keep, and the modes of floating point, on the stack. */
#if defined(__x86_64__)
__asm__(".text\n.type rt_local_switch,@function\n.hidden rt_local_switch\n.globl rt_local_switch\nrt_local_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "sub $8, %rsp\nstmxcsr (%rsp)\nfnstcw 4(%rsp)\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "ldmxcsr (%rsp)\nfldcw 4(%rsp)\nadd $8, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size rt_local_switch, .-rt_local_switch\n");

static void *first_frame(uint8_t *top)
{
    uint64_t *frame = (uint64_t *)(void *)top;
    *--frame = 0; /* a return address that nobody takes; it aligns the stack as a call does */
    *--frame = (uint64_t)(uintptr_t)rt_local_begin_fiber;
    frame -= 6;
    memset(frame, 0, 6 * sizeof(*frame));
    *--frame = UINT64_C(0x037f00001f80); /* the usual modes */
    return frame;
}
#else /* mynvcc makes no CPU versions there */
void rt_local_switch(void **saved, void *next)
{
    (void)saved, (void)next;
    abort();
}

static void *first_frame(uint8_t *top)
{
    return top;
}
#endif

void rt_local_begin_fiber(void)
{
    struct rt_stacks *stacks = running->stacks;
    stacks->grid->kernel->run(stacks->grid->arguments);
    stacks->fibers[stacks->current].state = ENDED;
    rt_local_switch(&stacks->fibers[stacks->current].stack_pointer, stacks->scheduler);
    abort(); /* it has ended */
}

static struct rt_stacks *new_stacks(void)
{
    size_t bytes = (size_t)MAX_THREADS * STACK_BYTES;
    struct rt_stacks *stacks = calloc(1, sizeof(*stacks));
    if (stacks == NULL)
        return NULL;
    stacks->memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stacks->memory == MAP_FAILED) {
        free(stacks);
        return NULL;
    }
    for (size_t i = 0; i < MAX_THREADS; i++)
        (void)mprotect(stacks->memory + i * STACK_BYTES, GUARD_BYTES, PROT_NONE);
    return stacks;
}

/* ---- waiting ---------------------------------------------------------------------------------- */

static struct fiber *wait(enum state state)
{
    struct rt_stacks *stacks = running->stacks;
    struct fiber *fiber = &stacks->fibers[stacks->current];
    fiber->state = state;
    rt_local_switch(&fiber->stack_pointer, stacks->scheduler);
    return fiber;
}

static struct fiber *self(void)
{
    return &running->stacks->fibers[running->stacks->current];
}

static void barrier(void)
{
    self()->kind = self()->predicate = 0;
    (void)wait(AT_BARRIER);
}

static int reduce(int kind, int predicate)
{
    self()->kind = kind;
    self()->predicate = predicate != 0;
    return (int)wait(AT_BARRIER)->value;
}

static unsigned long long warp(int kind, unsigned mask, unsigned long long value, unsigned arg)
{
    struct fiber *fiber = self();
    fiber->kind = kind;
    fiber->mask = mask;
    fiber->value = value;
    fiber->arg = arg;
    return wait(IN_WARP)->value;
}

static void yield(void)
{
    (void)wait(YIELDED);
}

static void fail(int failure)
{
    rt_local_abandon(failure == VGC_LOCAL_ASSERT ? cudaErrorAssert : cudaErrorLaunchFailure, NULL);
    abort(); /* nothing runs */
}

/* All threads that have not ended are at a barrier. */
static void release_barrier(struct rt_stacks *stacks)
{
    int votes = 0;
    int all = 0;
    for (unsigned i = 0; i < stacks->count; i++)
        if (stacks->fibers[i].state == AT_BARRIER) {
            votes += stacks->fibers[i].predicate;
            all++;
        }
    for (unsigned i = 0; i < stacks->count; i++) {
        struct fiber *fiber = &stacks->fibers[i];
        if (fiber->state != AT_BARRIER)
            continue;
        fiber->value = (unsigned long long)(fiber->kind == BARRIER_COUNT ? votes
                                            : fiber->kind == BARRIER_AND ? votes == all
                                                                         : votes > 0);
        fiber->state = READY;
    }
}

/* ---- operations of warps ------------------------------------------------------------------------ */

static unsigned long long shuffled(const struct fiber *warp, const unsigned long long *values, unsigned lane,
                                   unsigned members)
{
    unsigned width = (warp[lane].arg >> 8 & 31) + 1;
    unsigned first = lane & ~(width - 1);
    unsigned by = warp[lane].arg & 255;
    unsigned from = lane;
    switch (warp[lane].kind) {
    case SHFL_IDX:
        from = first + (by & (width - 1));
        break;
    case SHFL_UP:
        from = lane >= first + by ? lane - by : lane;
        break;
    case SHFL_DOWN:
        from = lane + by < first + width ? lane + by : lane;
        break;
    default:
        from = (lane ^ by) < first + width ? lane ^ by : lane;
    }
    return (members >> from & 1) != 0 ? values[from] : values[lane];
}

static unsigned votes_of(const struct fiber *warp, const unsigned long long *values, unsigned lane, unsigned members)
{
    unsigned votes = 0;
    for (unsigned i = 0; i < WARP; i++)
        if ((members >> i & 1) != 0) {
            bool equal = values[i] == values[lane];
            bool is_match = warp[lane].kind == MATCH_ANY || warp[lane].kind == MATCH_ALL;
            votes |= (is_match ? equal : values[i] != 0) ? 1u << i : 0;
        }
    if (warp[lane].kind == MATCH_ALL)
        return votes == members ? members : 0;
    return votes;
}

/* The members' operation is complete. */
static void release_warp(struct fiber *warp, unsigned members)
{
    unsigned long long values[WARP];
    for (unsigned i = 0; i < WARP; i++)
        values[i] = (members >> i & 1) != 0 ? warp[i].value : 0;
    for (unsigned i = 0; i < WARP; i++) {
        if ((members >> i & 1) == 0)
            continue;
        int kind = warp[i].kind;
        warp[i].value = kind == ACTIVEMASK                     ? members
                        : kind >= SHFL_IDX && kind <= SHFL_XOR ? shuffled(warp, values, i, members)
                        : kind == SYNCWARP                     ? 0
                                                               : votes_of(warp, values, i, members);
        warp[i].state = READY;
    }
}

static bool is_of_active(const struct fiber *fiber)
{
    return fiber->kind == ACTIVEMASK || fiber->kind == BALLOT_ACTIVE;
}

/* Releases lanes that wait for others of their mask, which have all come or have ended. With `active`, those that wait
 * for whoever comes. */
static bool advance_warp(struct fiber *warp, unsigned lanes, bool active)
{
    for (unsigned lane = 0; lane < lanes; lane++) {
        unsigned members = 0;
        bool complete = true;
        if (warp[lane].state != IN_WARP || is_of_active(&warp[lane]) != active)
            continue;
        for (unsigned i = 0; i < lanes && complete; i++) {
            bool wanted = active || (warp[lane].mask >> i & 1) != 0;
            bool is_here = warp[i].state == IN_WARP && warp[i].kind == warp[lane].kind &&
                           (active || warp[i].mask == warp[lane].mask);
            if (wanted && is_here)
                members |= 1u << i;
            else if (wanted && !active && warp[i].state != ENDED)
                complete = false;
        }
        if (complete) {
            release_warp(warp, members);
            return true;
        }
    }
    return false;
}

static bool advance_warps(struct rt_stacks *stacks, bool active)
{
    bool any = false;
    for (unsigned first = 0; first < stacks->count; first += WARP)
        while (advance_warp(&stacks->fibers[first], RT_MIN((unsigned)WARP, stacks->count - first), active))
            any = true;
    return any;
}

/* ---- a block ---------------------------------------------------------------------------------- */

static void place_thread(struct vgc_local_here *here, unsigned linear)
{
    here->linear = linear;
    here->tid[0] = linear % here->ntid[0];
    here->tid[1] = linear / here->ntid[0] % here->ntid[1];
    here->tid[2] = linear / here->ntid[0] / here->ntid[1];
}

/* Lets each thread that can go on do so until it waits. False: none could. */
static bool run_ready(struct rt_stacks *stacks, struct vgc_local_here *here)
{
    bool any = false;
    for (unsigned i = 0; i < stacks->count; i++) {
        if (stacks->fibers[i].state != READY)
            continue;
        any = true;
        stacks->current = i;
        place_thread(here, i);
        rt_local_switch(&stacks->scheduler, stacks->fibers[i].stack_pointer);
    }
    return any;
}

static unsigned count_in(const struct rt_stacks *stacks, enum state state)
{
    unsigned count = 0;
    for (unsigned i = 0; i < stacks->count; i++)
        count += stacks->fibers[i].state == state;
    return count;
}

static bool wake_yielded(struct rt_stacks *stacks)
{
    bool any = false;
    for (unsigned i = 0; i < stacks->count; i++)
        if (stacks->fibers[i].state == YIELDED) {
            stacks->fibers[i].state = READY;
            any = true;
        }
    return any;
}

static void run_fibers(struct rt_stacks *stacks, struct vgc_local_here *here, unsigned threads)
{
    stacks->count = threads;
    for (unsigned i = 0; i < threads; i++) {
        stacks->fibers[i].state = READY;
        stacks->fibers[i].stack_pointer = first_frame(stacks->memory + (i + 1) * (size_t)STACK_BYTES);
    }
    for (;;) {
        unsigned ended;
        while (run_ready(stacks, here) || advance_warps(stacks, false))
            continue;
        ended = count_in(stacks, ENDED);
        if (ended == threads)
            return;
        if (advance_warps(stacks, true) || wake_yielded(stacks))
            continue;
        if (count_in(stacks, AT_BARRIER) + ended < threads)
            rt_local_abandon(cudaErrorLaunchTimeout, NULL); /* they wait for one another for ever */
        release_barrier(stacks);
    }
}

static void run_loop(const struct rt_grid *grid, struct vgc_local_here *here, unsigned threads)
{
    for (unsigned i = 0; i < threads; i++) {
        place_thread(here, i);
        grid->kernel->run(grid->arguments);
    }
}

static const struct vgc_local_calls CALLS = {barrier, reduce, warp, yield, fail};

static void run_blocks(struct rt_grid *grid, struct running *own)
{
    const uint64_t blocks = (uint64_t)grid->shape.grid[0] * grid->shape.grid[1] * grid->shape.grid[2];
    const unsigned threads = grid->shape.block[0] * grid->shape.block[1] * grid->shape.block[2];
    for (;;) {
        uint64_t number = atomic_fetch_add(&grid->next, 1);
        if (number >= blocks || atomic_load(&grid->error) != cudaSuccess)
            return;
        own->here.ctaid[0] = (unsigned)(number % grid->shape.grid[0]);
        own->here.ctaid[1] = (unsigned)(number / grid->shape.grid[0] % grid->shape.grid[1]);
        own->here.ctaid[2] = (unsigned)(number / grid->shape.grid[0] / grid->shape.grid[1]);
        if (own->stacks != NULL)
            run_fibers(own->stacks, &own->here, threads);
        else
            run_loop(grid, &own->here, threads);
    }
}

void rt_local_run_blocks(struct rt_grid *grid, struct rt_stacks **stacks)
{
    struct running own = {.grid = grid, .here = {.calls = &CALLS}};
    memcpy(own.here.ntid, grid->shape.block, sizeof(own.here.ntid));
    memcpy(own.here.nctaid, grid->shape.grid, sizeof(own.here.nctaid));
    if ((grid->kernel->flags & VGC_LOCAL_WAITS) != 0) {
        if (*stacks == NULL)
            *stacks = new_stacks();
        if (*stacks == NULL) {
            atomic_store(&grid->error, rt_explain(cudaErrorLaunchOutOfResources, "no memory for a block's stacks"));
            return;
        }
        own.stacks = *stacks;
        own.stacks->grid = grid;
    }
    grid->table->enter(&own.here);
    if (sigsetjmp(own.end, 1) == 0) {
        running = &own;
        run_blocks(grid, &own);
    }
    running = NULL;
    grid->table->enter(NULL);
}
