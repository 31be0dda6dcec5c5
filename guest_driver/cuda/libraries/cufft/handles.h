// Handles of cuFFT's plans, for the files that have its functions.
#pragma once
#include <memory>

#include "cufftXt.h"
#include "plan.h"

#define API extern "C" __attribute__((visibility("default")))

namespace vgc_fft
{

struct Shape {
    int rank;
    const long long *n, *inembed, *onembed;
    long long istride, idist, ostride, odist, batch;
    cufftType type;
    Storage storage;
};

std::shared_ptr<Plan> plan_of(cufftHandle handle);
cufftResult make(cufftHandle handle, const Shape &shape, size_t *work_size);
cufftResult estimate(const Shape &shape, size_t *work_size);
cufftResult run(const Plan &plan, void *input, void *output, int direction);

} // namespace vgc_fft
