/* Parameters of the functions that work by Jacobi rotations, and what they tell about their last call. */
#pragma once
#include "context.h"

struct jacobi_info {
    double tolerance; /* negative: as exact as the type of numbers is */
    int max_sweeps, sorts;
    double residual;
    int sweeps;
};
struct gesvdjInfo : jacobi_info {
};
struct syevjInfo : jacobi_info {
};
