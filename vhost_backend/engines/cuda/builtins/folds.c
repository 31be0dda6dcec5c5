/* Shapes of reductions. */
#include "folds.h"

/* Columns that blocks take side by side, so that they read whole sectors of memory. */
enum { MOST_COLUMNS = 32 };
/* Blocks that an SM is to have. */
enum { BLOCKS_PER_SM = 4 };
/* Least terms of a thread where an axis is cut into pieces. */
enum { LEAST_TERMS = 16 };

/* The least power of two from `number` on, up to `most`, which is one, too. */
static uint32_t power_from(uint64_t number, uint32_t most)
{
    uint32_t power = 1;
    while (power < number && power < most)
        power *= 2;
    return power;
}

/* Lays out the threads of a block. */
static struct fold_shape lay_out(uint64_t outer, uint64_t n, uint64_t inner)
{
    struct fold_shape shape = {.outer = outer, .n = n, .inner = inner, .pieces = 1, .piece = plan_max(n, 1)};
    shape.columns = power_from(inner, MOST_COLUMNS);
    shape.lanes = power_from(plan_divide_up(n, 4), THREADS / shape.columns);
    shape.rows = THREADS / shape.columns / shape.lanes;
    shape.tiles = plan_divide_up(outer, shape.rows) * plan_divide_up(inner, shape.columns);
    return shape;
}

struct fold_shape plan_fold(const struct plan *plan, uint64_t outer, uint64_t n, uint64_t inner)
{
    struct fold_shape shape = lay_out(outer, n, inner);
    uint64_t wanted = plan_divide_up((uint64_t)plan->num_sms * BLOCKS_PER_SM, plan_max(shape.tiles, 1));
    uint64_t most = plan_max(n / (shape.lanes * LEAST_TERMS), 1);
    shape.piece = plan_max(plan_divide_up(n, plan_min(wanted, most)), 1);
    shape.pieces = (uint32_t)plan_max(plan_divide_up(n, shape.piece), 1);
    return shape;
}

struct fold_shape plan_fold_parts(const struct fold_shape *shape)
{
    return lay_out(1, shape->pieces, shape->outer * shape->inner);
}

uint64_t plan_fold_blocks(const struct fold_shape *shape)
{
    return plan_min(shape->tiles * shape->pieces, INT32_MAX);
}
