/* Functions of the fake driver for fakes of libraries that compute on it. */
#ifndef FAKE_CUDA_LIBRARY_H
#define FAKE_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

enum { FAKE_LIBRARY_RANGES = 8, FAKE_LIBRARY_DATA = 512 };

/* Device memory that work uses. */
struct fake_library_range {
    CUdeviceptr address;
    size_t size;
};

/* Does the work, on a thread of the fake; `bytes` are those of the ranges. */
typedef void (*fake_library_run)(void *data, char *const *bytes);

CUresult cuCtxGetCurrent(CUcontext *context);
/* Records a call, which needs a current context; an error if one is injected for this name, or of the context. */
int fake_cuda_library_call(const char *name);
void fake_cuda_library_misuse(const char *text);
/* Counts objects of libraries that live. */
void fake_cuda_library_count(int change);
/* Submits work to a stream; `data` is copied. An error of the driver if a range may not be used now. */
int fake_cuda_library_submit(CUstream stream, fake_library_run run, const void *data, size_t size,
                             const struct fake_library_range *ranges, size_t num_ranges);

#endif
