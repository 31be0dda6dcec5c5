/* Functions that engines call: finished operations, and fatal errors. */
#include "internal.h"

#include <unistd.h>

void vgc_engine_enter(struct vgc_engine *engine)
{
    if (engine->dp != NULL)
        vgc_dp_lock(engine->dp);
    else if (engine->ops->enter != NULL)
        engine->ops->enter(engine);
}

void vgc_engine_leave(struct vgc_engine *engine)
{
    if (engine->dp != NULL)
        vgc_dp_unlock(engine->dp);
    else if (engine->ops->leave != NULL)
        engine->ops->leave(engine);
}

static void wake_sleeper(struct vgc_engine *engine)
{
    uint64_t one = 1;
    if (!atomic_load(&engine->sleeping) || engine->wake_fd < 0)
        return;
    ssize_t written = write(engine->wake_fd, &one, sizeof(one));
    (void)written; /* EAGAIN: readable already */
}

void vgc_engine_finish(struct vgc_engine *engine, struct vgc_op *op)
{
    struct vgc_op *first = atomic_load_explicit(&engine->finished, memory_order_relaxed);
    do
        op->next = first;
    while (!atomic_compare_exchange_weak(&engine->finished, &first, op)); /* seq_cst: before `sleeping` is read */
    wake_sleeper(engine);
}

void vgc_engine_wake(struct vgc_engine *engine)
{
    atomic_store(&engine->poll_wanted, true); /* seq_cst: before `sleeping` is read */
    wake_sleeper(engine);
}

void vgc_engine_ask(struct vgc_engine *engine)
{
    if (engine->dp != NULL)
        vgc_notify(engine->dp);
}

struct vgc_op *vgc_engine_take_finished(struct vgc_engine *engine)
{
    struct vgc_op *newest = atomic_exchange_explicit(&engine->finished, NULL, memory_order_acquire);
    struct vgc_op *oldest = NULL;
    while (newest != NULL) {
        struct vgc_op *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

void vgc_op_load_node(struct vgc_op *op, uint32_t index)
{
    const struct vgc_node *node = &op->nodes[index];
    op->node = index;
    op->kind = node->kind;
    op->dst = node->dst;
    op->src = node->src;
    op->size = node->size;
    op->value = node->value;
    op->unit = node->unit;
    op->box = node->box;
    if (node->kind == VGC_OPK_LAUNCH)
        op->kernel = node->kernel; /* else that of an earlier node, which a deadline's text may name */
    memcpy(op->grid, node->grid, sizeof(op->grid));
    memcpy(op->block, node->block, sizeof(op->block));
    op->shared_bytes = node->shared_bytes;
    op->param_len = node->param_len;
    op->params = node->params;
    op->flags = node->flags;
    op->progress = 0;
    op->engine_private = NULL;
    __atomic_store_n(&op->start_ns, 0, __ATOMIC_RELAXED);
}

bool vgc_op_next_node(struct vgc_op *op)
{
    if (op->nodes == NULL || op->status != VGC_STATUS_OK || op->node + 1 == op->num_nodes)
        return false;
    vgc_op_load_node(op, op->node + 1);
    return true;
}

static void write_black_box(struct vgc_black_box *box, const struct vgc_op *op, enum vgc_status status, uint32_t detail,
                            const char *text)
{
    uint32_t len = 0;
    box->queue = op == NULL ? 0 : op->queue;
    box->head = op == NULL ? 0 : op->head;
    box->status = status;
    box->detail = detail;
    for (; len < VGC_BLACK_BOX_TEXT && text[len] != '\0'; len++)
        box->text[len] = (uint8_t)text[len];
    box->text_len = len;
    atomic_thread_fence(memory_order_seq_cst);
    *(volatile uint32_t *)&box->valid = op == NULL ? VGC_BLACK_BOX_NO_REQUEST : VGC_BLACK_BOX_REQUEST;
}

void vgc_engine_fatal(struct vgc_engine *engine, const struct vgc_op *op, enum vgc_status status, uint32_t detail,
                      const char *text)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&taken))
        pause(); /* the first caller is about to end the process */
    if (engine->black_box != NULL && (op != NULL || text[0] != '\0'))
        write_black_box(engine->black_box, op, status, detail, text);
    _exit(VGC_EXIT_FATAL);
}
