/* Plans of calls: the table of groups, and texts. */
#include "cuda_builtins.h"

#include "calls.h"
#include "planners.h"

#include <string.h>

static const struct group {
    const char *name;
    void (*plan)(struct plan *plan, const void *params);
} GROUPS[] = {
    {"blas", plan_blas},     {"conv", plan_conv},     {"count", plan_count},   {"fft", plan_fft},
    {"math", plan_math},     {"random", plan_random}, {"reduce", plan_reduce}, {"scan", plan_scan},
    {"select", plan_select}, {"sort", plan_sort},     {"sparse", plan_sparse},
};

enum { NUM_GROUPS = sizeof(GROUPS) / sizeof(GROUPS[0]) };
_Static_assert((int)NUM_GROUPS == (int)CUDA_BUILTIN_MODULES, "each group has a module");

const char *cuda_builtin_module(uint32_t number)
{
    return number < NUM_GROUPS ? GROUPS[number].name : NULL;
}

uint32_t cuda_builtin_module_of(const struct vgc_builtin *builtin)
{
    uint32_t i = 0;
    while (i + 1 < NUM_GROUPS && strncmp(builtin->name, GROUPS[i].name, strcspn(builtin->name, ".")) != 0)
        i++;
    return i;
}

static struct plan make(const struct vgc_builtin *builtin, const void *params, uint32_t num_sms, uint64_t workspace,
                        struct cuda_builtin_launch *launches)
{
    if (vgc_is_library_function(builtin)) /* there are no kernels for it */
        return (struct plan){builtin, "", num_sms, workspace, 0, 0, launches, 0};
    const struct group *group = &GROUPS[cuda_builtin_module_of(builtin)];
    struct plan plan = {builtin, group->name, num_sms, workspace, 0, 0, launches, 0};
    group->plan(&plan, params);
    return plan;
}

uint64_t cuda_builtin_workspace(const struct vgc_builtin *builtin, const void *params, uint32_t num_sms)
{
    return make(builtin, params, num_sms, 0, NULL).most_bytes;
}

uint32_t cuda_builtin_plan(const struct vgc_builtin *builtin, const void *params, uint32_t num_sms, uint64_t workspace,
                           struct cuda_builtin_launch *launches)
{
    return make(builtin, params, num_sms, workspace, launches).num_launches;
}

bool cuda_builtin_may_fail(const struct vgc_builtin *builtin)
{
    return builtin->function == VGC_FN_BINCOUNT || builtin->function == VGC_FN_SPMV_I32 ||
           builtin->function == VGC_FN_SPMV_I64 || builtin->function == VGC_FN_TAKE;
}

const char *cuda_builtin_failed(uint32_t status)
{
    switch (status) {
    case 0:
        return NULL;
    case NO_BIN:
        return "an element of in is negative, or bins or more";
    case WRONG_ROW:
        return "row_starts fall, or leave the elements of the matrix";
    case WRONG_COLUMN:
        return "an index is not a column of the matrix";
    default:
        return "an index is less than -n, or n or more";
    }
}
