/* Tiles of products of matrices, for the planners of groups that have some. */
#ifndef CUDA_BUILTINS_TILES_H
#define CUDA_BUILTINS_TILES_H

#include "calls.h"
#include "plan.h"

/* Cuts products, of which none is empty, into tiles of `side` rows and columns. If these are too few for all SMs, sums
 * are cut into pieces, which take memory of the workspace: `sum_bytes` for each. */
struct tile_shape plan_tiles(struct plan *plan, uint64_t m, uint64_t n, uint64_t k, uint64_t batch, uint32_t side,
                             uint32_t sum_bytes);

/* Whether large tiles are enough to keep all SMs busy. */
bool plan_has_large_tiles(const struct plan *plan, uint64_t m, uint64_t n, uint64_t batch);

/* Blocks of a launch. */
uint64_t plan_tile_blocks(const struct tile_shape *shape);

#endif
