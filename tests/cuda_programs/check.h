/* Common words of the programs: each compares what the device did with what the CPU computes, and ends with finish().
 */
#pragma once
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

static int failures;

/* A call that must succeed: everything behind it depends on it. */
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            printf("FAIL %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_));                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #condition);                                                \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

/* A call that must end with this error, which is then no longer the last one. */
#define EXPECT_ERROR(call, wanted)                                                                                     \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != (wanted)) {                                                                                      \
            printf("FAIL %s:%d: %s: %s instead of %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_),          \
                   cudaGetErrorName(wanted));                                                                          \
            failures++;                                                                                                \
        }                                                                                                              \
        (void)cudaGetLastError();                                                                                      \
    } while (0)

#define EXPECT_EQUAL(found, wanted)                                                                                    \
    do {                                                                                                               \
        double found_ = (double)(found), wanted_ = (double)(wanted);                                                   \
        if (found_ != wanted_) {                                                                                       \
            printf("FAIL %s:%d: %s is %.9g instead of %.9g\n", __FILE__, __LINE__, #found, found_, wanted_);           \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

#define EXPECT_NEAR(found, wanted, tolerance)                                                                          \
    do {                                                                                                               \
        double found_ = (double)(found), wanted_ = (double)(wanted), off_ = found_ - wanted_;                          \
        if (!(off_ <= (tolerance) && -off_ <= (tolerance))) {                                                          \
            printf("FAIL %s:%d: %s is %.9g instead of %.9g\n", __FILE__, __LINE__, #found, found_, wanted_);           \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

static inline int finish(void)
{
    puts(failures ? "FAIL" : "PASS");
    return failures != 0;
}
