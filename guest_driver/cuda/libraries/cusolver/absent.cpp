/* Functions that frameworks link and that nothing here computes: eigenvalues of general matrices, bidiagonal forms, and
 * solutions by LDL factors. Calls say so by name, once, and end as not supported. Their parameters do not matter. */
#include <atomic>
#include <stdio.h>

#include <cusolver_common.h> /* nothing of the functions' own declarations */

static cusolverStatus_t refuse(const char *name, std::atomic<bool> &is_told)
{
    if (!is_told.exchange(true))
        (void)fprintf(stderr, "virtio-gpu-compute: this program uses %s(), which this cuSOLVER does not have\n", name);
    return CUSOLVER_STATUS_NOT_SUPPORTED;
}

#define ABSENT(name)                                                                                                   \
    extern "C" cusolverStatus_t name(void);                                                                            \
    extern "C" __attribute__((visibility("default"))) cusolverStatus_t name(void)                                      \
    {                                                                                                                  \
        static std::atomic<bool> is_told;                                                                              \
        return refuse(#name, is_told);                                                                                 \
    }
ABSENT(cusolverDnXgeev)
ABSENT(cusolverDnXgeev_bufferSize)
ABSENT(cusolverDnXsytrs)
ABSENT(cusolverDnXsytrs_bufferSize)
ABSENT(cusolverDnSgebrd)
ABSENT(cusolverDnDgebrd)
ABSENT(cusolverDnCgebrd)
ABSENT(cusolverDnZgebrd)
ABSENT(cusolverDnSgebrd_bufferSize)
ABSENT(cusolverDnDgebrd_bufferSize)
ABSENT(cusolverDnCgebrd_bufferSize)
ABSENT(cusolverDnZgebrd_bufferSize)
