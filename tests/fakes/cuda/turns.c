/* Time slices: processes take turns on the GPU, unless NVIDIA's MPS merges them.
 *
 * A process requests turns while it has running operations. A turn ends with the slice, or when nothing runs; an
 * endless kernel is interrupted and continues in the next turn [compute preemption, since sm_60]. Kernels that compute
 * in C cannot be interrupted here and make their turn longer. Copies take no turns, as the copy engines have their own
 * run lists. The order of processes' turns is not documented; here no process gets two turns while a second one waits.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

static struct {
    bool ours, asking;
    unsigned int wanting; /* running operations, interrupted or not */
    unsigned int inside;  /* of them, not interrupted */
    unsigned int waiting; /* of them, waiting for a turn */
} turn;

static bool off(void)
{
    return fake.settings.hardware.slice_ms == 0;
}

static void take_turn(void)
{
    pthread_mutex_unlock(&fake.lock);
    fake_node_lock(FAKE_NODE_QUEUE);
    fake_node_lock(FAKE_NODE_TURN);
    fake_node_unlock(FAKE_NODE_QUEUE);
    pthread_mutex_lock(&fake.lock);
    turn.ours = true;
    fake.settings.hardware.turns++;
    fake_log_note("turn of %d begins", (int)getpid());
    pthread_cond_broadcast(&fake.progress);
}

/* Waits for the end of a slice, which begins when all waiting operations are on the GPU, even if the host is slow. */
static void wait_slice(void)
{
    struct timespec end;
    while (turn.waiting)
        fake_wait();
    clock_gettime(CLOCK_REALTIME, &end);
    int64_t ns = end.tv_nsec + fake.settings.hardware.slice_ms * INT64_C(1000000);
    end.tv_sec += ns / 1000000000;
    end.tv_nsec = ns % 1000000000;
    while (turn.wanting && pthread_cond_timedwait(&fake.progress, &fake.lock, &end) == 0)
        ;
}

static void give_turn(void)
{
    turn.ours = false;
    while (turn.inside)
        fake_wait();
    fake_log_note("turn of %d ends", (int)getpid());
    fake_node_unlock(FAKE_NODE_TURN);
}

static void *ask(void *unused)
{
    pthread_mutex_lock(&fake.lock);
    while (turn.wanting) {
        take_turn();
        wait_slice();
        give_turn();
    }
    turn.asking = false;
    pthread_cond_broadcast(&fake.progress);
    pthread_mutex_unlock(&fake.lock);
    return unused;
}

static void ask_for_turns(void)
{
    pthread_t thread;
    if (turn.asking)
        return;
    turn.asking = true;
    if (pthread_create(&thread, NULL, ask, NULL))
        abort();
    pthread_detach(thread);
}

void fake_turn_enter(void)
{
    if (off())
        return;
    turn.waiting++;
    while (!turn.ours)
        fake_wait();
    turn.waiting--;
    turn.inside++;
    pthread_cond_broadcast(&fake.progress);
}

void fake_turn_leave(void)
{
    if (off())
        return;
    turn.inside--;
    pthread_cond_broadcast(&fake.progress);
}

void fake_turn_begin(void)
{
    if (off())
        return;
    turn.wanting++;
    ask_for_turns();
    fake_turn_enter();
}

void fake_turn_end(void)
{
    if (off())
        return;
    turn.wanting--;
    fake_turn_leave();
}

void fake_turns_end(void)
{
    while (turn.asking)
        fake_wait();
}
