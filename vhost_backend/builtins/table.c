/* The table of all built-in functions. */
#include "vgc_builtins.h"

#include "groups.h"

#include <stdbool.h>
#include <string.h>

static const struct vgc_builtin_group *const GROUPS[] = {
    &vgc_builtin_blas,   &vgc_builtin_reduce, &vgc_builtin_scan,   &vgc_builtin_sort,
    &vgc_builtin_count,  &vgc_builtin_fft,    &vgc_builtin_conv,   &vgc_builtin_random,
    &vgc_builtin_sparse, &vgc_builtin_math,   &vgc_builtin_select,
};

_Static_assert(VGC_NUM_TYPES <= 8, "requests name a function by function << 3 | type");

static const struct vgc_builtin_group *const LIBRARIES[] = {&vgc_library_cublas, &vgc_library_cudnn,
                                                            &vgc_library_cudnn_norms, &vgc_library_cufft};

enum {
    NUM_GROUPS = sizeof(GROUPS) / sizeof(GROUPS[0]),
    NUM_LIBRARIES = sizeof(LIBRARIES) / sizeof(LIBRARIES[0]),
};

const struct vgc_builtin_group *vgc_builtin_group_at(uint32_t index)
{
    return index < NUM_GROUPS ? GROUPS[index] : NULL;
}

static const struct vgc_builtin *at(const struct vgc_builtin_group *const *groups, uint32_t count, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++) {
        if (index < groups[i]->num_builtins)
            return &groups[i]->builtins[index];
        index -= groups[i]->num_builtins;
    }
    return NULL;
}

const struct vgc_builtin *vgc_builtin_at(uint32_t index)
{
    return at(GROUPS, NUM_GROUPS, index);
}

const struct vgc_builtin *vgc_library_function_at(uint32_t index)
{
    return at(LIBRARIES, NUM_LIBRARIES, index);
}

bool vgc_is_library_function(const struct vgc_builtin *builtin)
{
    return builtin->function >= VGC_FN_CUBLAS_GEMM;
}

static bool is_named(const char *have, const char *name, size_t len)
{
    return strlen(have) == len && memcmp(have, name, len) == 0;
}

static const struct vgc_builtin *find(const struct vgc_builtin_group *const *groups, uint32_t count, const char *name,
                                      size_t len)
{
    const char *dot = memchr(name, '.', len);
    for (uint32_t i = 0; dot != NULL && i < count; i++)
        for (uint32_t j = 0; is_named(groups[i]->name, name, (size_t)(dot - name)) && j < groups[i]->num_builtins; j++)
            if (is_named(groups[i]->builtins[j].name, name, len))
                return &groups[i]->builtins[j];
    return NULL;
}

const struct vgc_builtin *vgc_builtin_named(const char *name, size_t len)
{
    const struct vgc_builtin *found = find(GROUPS, NUM_GROUPS, name, len);
    return found != NULL ? found : find(LIBRARIES, NUM_LIBRARIES, name, len);
}

int vgc_builtin_check(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    return builtin->check(builtin, params, need, why);
}
