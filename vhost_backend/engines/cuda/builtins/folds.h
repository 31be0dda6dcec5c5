/* Shapes of reductions, for the planners of groups that have some. */
#ifndef CUDA_BUILTINS_FOLDS_H
#define CUDA_BUILTINS_FOLDS_H

#include "calls.h"
#include "plan.h"

/* Shape of a reduction of (outer, n, inner) along n. The axis is cut into pieces if there are too few results for all
 * SMs; folds of several pieces are (pieces, outer, inner), which a second reduction folds: its outer is 1. */
struct fold_shape plan_fold(const struct plan *plan, uint64_t outer, uint64_t n, uint64_t inner);

/* Shape of that second reduction, in one piece. */
struct fold_shape plan_fold_parts(const struct fold_shape *shape);

/* Blocks of a launch. */
uint64_t plan_fold_blocks(const struct fold_shape *shape);

#endif
