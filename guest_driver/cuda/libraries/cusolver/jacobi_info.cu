/* Parameters of gesvdj and syevj. */
#include <new>

#include "jacobi_info.h"

using namespace solver;

/* Values are sorted in any case. */
#define SOLVER_JACOBI_INFO(Name, name)                                                                                 \
    status cusolverDnCreate##Name##Info(name##Info_t *made)                                                            \
    {                                                                                                                  \
        SOLVER_CHECK(made);                                                                                            \
        *made = new (std::nothrow) name##Info{{-1, 100, 1, 0, 0}};                                                     \
        return *made ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;                                         \
    }                                                                                                                  \
    status cusolverDnDestroy##Name##Info(name##Info_t info)                                                            \
    {                                                                                                                  \
        delete info;                                                                                                   \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDnX##name##SetTolerance(name##Info_t info, double tolerance)                                        \
    {                                                                                                                  \
        SOLVER_CHECK(info &&tolerance >= 0);                                                                           \
        info->tolerance = tolerance;                                                                                   \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDnX##name##SetMaxSweeps(name##Info_t info, int sweeps)                                              \
    {                                                                                                                  \
        SOLVER_CHECK(info &&sweeps >= 0);                                                                              \
        info->max_sweeps = sweeps;                                                                                     \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDnX##name##SetSortEig(name##Info_t info, int sorts)                                                 \
    {                                                                                                                  \
        SOLVER_CHECK(info && (sorts == 0 || sorts == 1));                                                              \
        info->sorts = sorts;                                                                                           \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDnX##name##GetResidual(handle h, name##Info_t info, double *residual)                               \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(info &&residual);                                                                                 \
        *residual = info->residual;                                                                                    \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    status cusolverDnX##name##GetSweeps(handle h, name##Info_t info, int *sweeps)                                      \
    {                                                                                                                  \
        SOLVER_CHECK_HANDLE(h);                                                                                        \
        SOLVER_CHECK(info &&sweeps);                                                                                   \
        *sweeps = info->sweeps;                                                                                        \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }
SOLVER_JACOBI_INFO(Gesvdj, gesvdj)
SOLVER_JACOBI_INFO(Syevj, syevj)
