/* The gate: launches wait for their VM's turn while other VMs of the GPU have work.
 *
 * Each VM is a process, and the GPU runs one process at a time; its driver knows no weights. The daemon
 * (vhost_backend/daemon/gpu_gate.py) therefore gives VMs that have work at the same time turns. It decides by the time
 * for which launches of each have run, which workers tell in their accounts, and says in each worker's grant up to
 * which time that worker may begin launches. A launch beyond that is *held*: it stays pending, so it has no start time
 * for its deadline, and can be cancelled. What was submitted runs to its end.
 *
 * While a VM has the GPU to itself, the gate is open: a launch costs one load of the grant, and a store to the account
 * where the first launch begins to run and the last one ends. Otherwise few launches are submitted ahead, so that a
 * turn ends soon after its time.
 *
 * The worker rings its bell when it has something to say that the daemon waits for: a launch is held; the last one
 * after the end of a turn has ended; or launches run again, if the daemon has armed the bell for that.
 *
 * If the daemon has not looked for STALE_NS, as it is stopped or overloaded, held launches go on: the gate is for
 * fairness, and never a reason for a guest to hang. */
#include "cuda_engine.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AHEAD = 2, SHORT_AHEAD = 8 }; /* most launches that are submitted in a turn, if they are long or short */
#define STALE_NS UINT64_C(250000000) /* the daemon looks every few ms while a launch is held */

void vgc_cuda_engine_set_gate(struct vgc_engine *base, const struct vgc_gate_grant *grant,
                              struct vgc_gate_account *account, int32_t bell)
{
    struct cuda_gate *gate = &cuda_engine_of(base)->gate;
    gate->grant = grant;
    gate->account = account;
    gate->bell = bell;
}

int vgc_cuda_engine_renew_grant(struct vgc_engine *base, int fd)
{
    struct cuda_gate *gate = &cuda_engine_of(base)->gate;
    if (gate->grant == NULL)
        return -ENOTSUP;
    void *place = (void *)(uintptr_t)gate->grant; /* the beginning of a page */
    if (mmap(place, sizeof(*gate->grant), PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        return -errno;
    return 0;
}

/* Never blocks: the counter of an eventfd that nobody reads becomes full only after 2^64 rings. */
static void ring(const struct cuda_gate *gate)
{
    uint64_t one = 1;
    ssize_t written = write(gate->bell, &one, sizeof(one));
    (void)written;
}

static uint64_t until_ns(const struct cuda_gate *gate)
{
    return __atomic_load_n(&gate->grant->until_ns, __ATOMIC_RELAXED);
}

/* ---- launches of an operation -------------------------------------------------------------------------------- */

uint32_t cuda_launches_of(const struct vgc_op *op)
{
    uint32_t count = 0;
    if (op->nodes == NULL)
        return op->kind == VGC_OPK_LAUNCH;
    for (uint32_t i = op->first_node; i <= op->node; i++)
        count += op->nodes[i].kind == VGC_OPK_LAUNCH;
    return count;
}

/* True if a kernel of the pending operation may run when it is submitted: of a graph, one of its next batch. */
static bool will_launch(const struct vgc_op *op)
{
    if (op->nodes == NULL)
        return op->kind == VGC_OPK_LAUNCH;
    uint32_t end = op->num_nodes - op->node < CUDA_BATCH ? op->num_nodes : op->node + CUDA_BATCH;
    for (uint32_t i = op->node; i < end; i++)
        if (op->nodes[i].kind == VGC_OPK_LAUNCH)
            return true;
    return false;
}

/* True if the operation may be submitted behind others: their turn is not known to be over before it begins. A graph
 * counts as its next node. */
static bool may_follow(const struct cuda_gate *gate, const struct vgc_op *op, uint64_t left_ns)
{
    const struct cuda_kernel *kernel = op->kind == VGC_OPK_LAUNCH ? cuda_kernel_of(op) : NULL;
    if (kernel != NULL && kernel->is_short)
        return gate->launches < SHORT_AHEAD;
    return kernel != NULL && kernel->took_ns != 0 && kernel->took_ns < left_ns && gate->launches < AHEAD;
}

/* ---- the account -------------------------------------------------------------------------------------------- */

static void begin_running(struct cuda_gate *gate)
{
    gate->since_ns = cuda_now_ns();
    /* In this order: the daemon arms the bell before it looks whether launches run. */
    __atomic_store_n(&gate->account->since_ns, gate->since_ns, __ATOMIC_SEQ_CST);
    uint64_t armed = __atomic_load_n(&gate->grant->armed, __ATOMIC_SEQ_CST);
    if (armed != 0 && armed != gate->rung) {
        gate->rung = armed;
        ring(gate);
    }
}

static void end_running(struct cuda_gate *gate)
{
    gate->ran_ns += cuda_now_ns() - gate->since_ns;
    __atomic_store_n(&gate->account->ran_ns, gate->ran_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&gate->account->since_ns, 0, __ATOMIC_RELEASE);
    if (gate->ran_ns >= until_ns(gate))
        ring(gate);
}

/* Notes whether launches of a lane run. */
static void note_running(struct cuda_gate *gate, struct cuda_lane *lane, bool runs)
{
    if (runs == lane->runs)
        return;
    lane->runs = runs;
    if (runs && gate->running++ == 0)
        begin_running(gate);
    else if (!runs && --gate->running == 0)
        end_running(gate);
}

void cuda_gate_submitted(struct cuda_engine *engine, struct cuda_lane *lane, const struct vgc_op *op)
{
    struct cuda_gate *gate = &engine->gate;
    if (gate->grant == NULL || cuda_launches_of(op) == 0)
        return;
    gate->launches++;
    if (op->progress == lane->head->progress)
        note_running(gate, lane, true);
}

void cuda_gate_finished(struct cuda_engine *engine, const struct vgc_op *op)
{
    if (engine->gate.grant != NULL)
        engine->gate.launches -= cuda_launches_of(op) != 0;
}

void cuda_gate_moved(struct cuda_engine *engine, struct cuda_lane *lane)
{
    bool runs = false;
    if (engine->gate.grant == NULL)
        return;
    for (const struct vgc_op *op = lane->head; !runs && op != lane->pending && op->progress == lane->head->progress;
         op = op->next)
        runs = cuda_launches_of(op) != 0;
    note_running(&engine->gate, lane, runs);
}

/* ---- held launches ------------------------------------------------------------------------------------------ */

/* True if the daemon does not look any more, though a gate that is not open makes it look often. */
static bool is_forgotten(struct cuda_gate *gate, uint64_t now_ns)
{
    uint64_t beat = __atomic_load_n(&gate->grant->beat, __ATOMIC_RELAXED);
    if (beat != gate->beat) {
        gate->beat = beat;
        gate->beat_ns = now_ns;
    }
    return now_ns - gate->beat_ns >= STALE_NS;
}

/* True if the turn allows one more launch, which is that of `op`. */
static bool has_room(struct cuda_gate *gate, const struct vgc_op *op)
{
    uint64_t now_ns = cuda_now_ns();
    uint64_t ran_ns = gate->ran_ns + (gate->running != 0 ? now_ns - gate->since_ns : 0);
    uint64_t end_ns = until_ns(gate);
    if (ran_ns >= end_ns && !is_forgotten(gate, now_ns)) {
        gate->refused = true;
        return false;
    }
    return gate->launches == 0 || may_follow(gate, op, end_ns > ran_ns ? end_ns - ran_ns : 0);
}

bool cuda_gate_admits(struct cuda_engine *engine, const struct cuda_lane *lane)
{
    struct cuda_gate *gate = &engine->gate;
    if (!will_launch(lane->pending))
        return true;
    if ((gate->took && gate->last == lane) || !has_room(gate, lane->pending))
        return false;
    gate->last = lane;
    gate->took = true;
    return true;
}

struct cuda_lane *cuda_gate_begin_round(struct cuda_engine *engine)
{
    struct cuda_gate *gate = &engine->gate;
    gate->refused = gate->took = false;
    bool is_active = gate->last != NULL && gate->last->head != NULL;
    return is_active && gate->last->next != NULL ? gate->last->next : engine->active;
}

void cuda_gate_end_round(struct cuda_engine *engine)
{
    struct cuda_gate *gate = &engine->gate;
    if (gate->refused == gate->held)
        return;
    gate->held = gate->refused;
    __atomic_store_n(&gate->account->held, gate->held, __ATOMIC_RELEASE);
    if (!gate->held)
        return;
    gate->held_ns = cuda_now_ns();
    ring(gate);
}

uint64_t cuda_gate_nap_ns(const struct cuda_engine *engine, uint64_t now_ns)
{
    const struct cuda_gate *gate = &engine->gate;
    if (!gate->held)
        return UINT64_MAX;
    uint64_t waited_ns = now_ns > gate->held_ns ? now_ns - gate->held_ns : 0;
    return waited_ns / CUDA_NAP_SHARE < CUDA_GATE_NAP_NS ? waited_ns / CUDA_NAP_SHARE : CUDA_GATE_NAP_NS;
}
