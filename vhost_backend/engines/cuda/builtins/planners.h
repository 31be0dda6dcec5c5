/* Planners of the groups of functions, each in the file of its name. */
#ifndef CUDA_BUILTINS_PLANNERS_H
#define CUDA_BUILTINS_PLANNERS_H

#include "plan.h"

void plan_blas(struct plan *plan, const void *params);
void plan_conv(struct plan *plan, const void *params);
void plan_count(struct plan *plan, const void *params);
void plan_fft(struct plan *plan, const void *params);
void plan_math(struct plan *plan, const void *params);
void plan_random(struct plan *plan, const void *params);
void plan_reduce(struct plan *plan, const void *params);
void plan_scan(struct plan *plan, const void *params);
void plan_select(struct plan *plan, const void *params);
void plan_sort(struct plan *plan, const void *params);
void plan_sparse(struct plan *plan, const void *params);

#endif
