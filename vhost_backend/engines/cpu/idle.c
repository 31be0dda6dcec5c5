/* Processing elements (PEs) without work: they spin for a short while, then sleep, until they are called.
 *
 * A launch calls as many spinning PEs as it has blocks; that costs no system call. Waking a sleeping one takes longer
 * than many a launch: a launch wakes one, which wakes others if there is still work when it comes. So few PEs are woken
 * for nothing by small grids. Calls are counted, so that two launches never rely on the same PE. */
#include "cpu_engine.h"

#include <sched.h>

enum {
    SPIN_NS = 20000,
    LOOKS = 4,  /* for a call, between two readings of the clock */
    PAUSES = 8, /* between two looks */
};

/* Takes a call, if there is one that no other PE has taken. */
static bool take_call(struct cpu_engine *engine)
{
    unsigned calls = atomic_load_explicit(&engine->calls, memory_order_relaxed);
    while (calls != 0)
        if (atomic_compare_exchange_weak(&engine->calls, &calls, calls - 1))
            return true;
    return false;
}

/* Spins without the lock; true if a call was taken. */
static bool spin(struct cpu_engine *engine, unsigned round)
{
    uint64_t end = cpu_now_ns() + SPIN_NS;
    while (atomic_load_explicit(&engine->call_round, memory_order_relaxed) == round && cpu_now_ns() < end) {
        for (int look = 0; look < LOOKS; look++) {
            if (take_call(engine))
                return true;
            for (int i = 0; i < PAUSES; i++)
                __builtin_ia32_pause();
        }
        sched_yield(); /* there may be fewer CPUs than threads that spin or work */
    }
    return false;
}

bool cpu_spin_for_call(struct cpu_engine *engine)
{
    unsigned round = atomic_load(&engine->call_round);
    engine->spinning_pes++;
    pthread_mutex_unlock(&engine->lock);
    bool called = spin(engine, round);
    pthread_mutex_lock(&engine->lock);
    called = called || take_call(engine);
    if (!called)
        engine->spinning_pes--; /* else its caller has counted it out */
    return called;
}

void cpu_sleep_for_call(struct cpu_engine *engine)
{
    engine->sleeping_pes++;
    pthread_cond_wait(&engine->work, &engine->lock);
    engine->sleeping_pes--;
    if (engine->waking_pes != 0)
        engine->waking_pes--;
}

/* Returns how many PEs were called. */
static uint64_t call_spinning(struct cpu_engine *engine, uint64_t wanted)
{
    uint32_t called = wanted < engine->spinning_pes ? (uint32_t)wanted : engine->spinning_pes;
    if (called != 0) {
        engine->spinning_pes -= called;
        atomic_fetch_add(&engine->calls, called);
    }
    return called;
}

void cpu_wake_one(struct cpu_engine *engine)
{
    if (engine->sleeping_pes == 0)
        return;
    if (engine->waking_pes < engine->sleeping_pes)
        engine->waking_pes++;
    /* also when all have been signalled: condition variables of glibc before 2.41 may lose one */
    pthread_cond_signal(&engine->work);
}

void cpu_call_pes(struct cpu_engine *engine, uint64_t blocks)
{
    if (engine->num_confined != 0) { /* those that come may be the ones that take no blocks */
        cpu_call_all(engine);
        return;
    }
    bool is_there = cpu_current_pe() != NULL; /* the caller, who looks for work next */
    uint64_t called = call_spinning(engine, blocks - is_there);
    if (called == 0 && !is_there)
        cpu_wake_one(engine);
}

void cpu_call_all(struct cpu_engine *engine)
{
    atomic_fetch_add(&engine->call_round, 1);
    if (engine->sleeping_pes != 0)
        pthread_cond_broadcast(&engine->work);
}
