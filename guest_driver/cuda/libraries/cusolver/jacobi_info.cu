/* Parameters of gesvdj. */
#include <new>

#include "jacobi_info.h"

using namespace solver;

status cusolverDnCreateGesvdjInfo(gesvdjInfo_t *made)
{
    SOLVER_CHECK(made);
    *made = new (std::nothrow) gesvdjInfo{-1, 100, 1, 0, 0};
    return *made ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}
status cusolverDnDestroyGesvdjInfo(gesvdjInfo_t info)
{
    delete info;
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverDnXgesvdjSetTolerance(gesvdjInfo_t info, double tolerance)
{
    SOLVER_CHECK(info && tolerance >= 0);
    info->tolerance = tolerance;
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverDnXgesvdjSetMaxSweeps(gesvdjInfo_t info, int sweeps)
{
    SOLVER_CHECK(info && sweeps >= 0);
    info->max_sweeps = sweeps;
    return CUSOLVER_STATUS_SUCCESS;
}
/* Values are sorted in any case. */
status cusolverDnXgesvdjSetSortEig(gesvdjInfo_t info, int sorts)
{
    SOLVER_CHECK(info && (sorts == 0 || sorts == 1));
    info->sorts = sorts;
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverDnXgesvdjGetResidual(handle h, gesvdjInfo_t info, double *residual)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(info && residual);
    *residual = info->residual;
    return CUSOLVER_STATUS_SUCCESS;
}
status cusolverDnXgesvdjGetSweeps(handle h, gesvdjInfo_t info, int *sweeps)
{
    SOLVER_CHECK_HANDLE(h);
    SOLVER_CHECK(info && sweeps);
    *sweeps = info->sweeps;
    return CUSOLVER_STATUS_SUCCESS;
}
