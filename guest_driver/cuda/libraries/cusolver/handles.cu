/* Handles of the dense functions. */
#include <stdlib.h>

#include "context.h"

using namespace solver;

status cusolverDnCreate(handle *made)
{
    SOLVER_CHECK(made);
    *made = nullptr;
    cusolverDnContext context{MAGIC, nullptr, nullptr, CUSOLVER_DETERMINISTIC_RESULTS};
    const cublasStatus_t error = cublasCreate(&context.blas);
    if (error)
        return error == CUBLAS_STATUS_ALLOC_FAILED ? CUSOLVER_STATUS_ALLOC_FAILED : CUSOLVER_STATUS_NOT_INITIALIZED;
    handle const kept = (handle)malloc(sizeof context);
    if (!kept) {
        cublasDestroy(context.blas);
        return CUSOLVER_STATUS_ALLOC_FAILED;
    }
    *kept = context;
    *made = kept;
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverDnDestroy(handle h)
{
    SOLVER_CHECK_HANDLE(h);
    const status result = status_of(cublasDestroy(h->blas));
    h->magic = 0;
    free(h);
    return result;
}
status cusolverDnSetStream(handle h, cudaStream_t stream)
{
    SOLVER_CHECK_HANDLE(h);
    h->stream = stream;
    return status_of(cublasSetStream(h->blas, stream));
}
status cusolverDnGetStream(handle h, cudaStream_t *stream)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(stream);
    *stream = h->stream;
    return CUSOLVER_STATUS_SUCCESS;
}
/* All functions give the same results each time. */
status cusolverDnSetDeterministicMode(handle h, cusolverDeterministicMode_t mode)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(mode == CUSOLVER_DETERMINISTIC_RESULTS || mode == CUSOLVER_ALLOW_NON_DETERMINISTIC_RESULTS);
    h->mode = mode;
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverDnGetDeterministicMode(handle h, cusolverDeterministicMode_t *mode)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(mode);
    *mode = h->mode;
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverGetProperty(libraryPropertyType type, int *value)
{
    SOLVER_CHECK(value && type >= MAJOR_VERSION && type <= PATCH_LEVEL);
    const int parts[] = {CUSOLVER_VER_MAJOR, CUSOLVER_VER_MINOR, CUSOLVER_VER_PATCH};
    *value = parts[type];
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverGetVersion(int *version)
{
    SOLVER_CHECK(version);
    *version = CUSOLVER_VERSION;
    return CUSOLVER_STATUS_SUCCESS;
}
