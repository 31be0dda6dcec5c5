/* Tiles of products of matrices. */
#include "tiles.h"

enum {
    LEAST_PIECE = 256, /* terms */
    BLOCKS_PER_SM = 2, /* that an SM is to have */
};

static uint64_t tiles_of(uint64_t m, uint64_t n, uint64_t batch, uint32_t side)
{
    return plan_divide_up(m, side) * plan_divide_up(n, side) * batch;
}

struct tile_shape plan_tiles(struct plan *plan, uint64_t m, uint64_t n, uint64_t k, uint64_t batch, uint32_t side,
                             uint32_t sum_bytes)
{
    struct tile_shape shape = {.m = m, .n = n, .k = k, .batch = batch, .pieces = 1, .piece = plan_max(k, 1)};
    shape.row_tiles = plan_divide_up(m, side);
    shape.column_tiles = plan_divide_up(n, side);
    uint64_t wanted = (uint64_t)plan->num_sms * BLOCKS_PER_SM / tiles_of(m, n, batch, side);
    uint64_t pieces = plan_min(wanted, k / LEAST_PIECE);
    if (pieces > 1) {
        shape.piece = plan_divide_up(k, pieces);
        shape.pieces = plan_divide_up(k, shape.piece);
        shape.parts = plan_take(plan, shape.pieces * batch * m * n * sum_bytes);
    }
    return shape;
}

bool plan_has_large_tiles(const struct plan *plan, uint64_t m, uint64_t n, uint64_t batch)
{
    return m > TILE && n > TILE && tiles_of(m, n, batch, LARGE_TILE) >= plan->num_sms;
}

uint64_t plan_tile_blocks(const struct tile_shape *shape)
{
    return plan_min(shape->row_tiles * shape->column_tiles * shape->batch * shape->pieces, INT32_MAX);
}
