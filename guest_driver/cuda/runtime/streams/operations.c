/* Copies of operations, for graphs and for work that is put off. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static size_t argument_bytes(const struct rt_launch *launch)
{
    struct vgc_function_info info;
    vgc_function_info(launch->loaded, &info);
    return info.num_params * sizeof(void *) + info.param_bytes + sizeof(uint64_t);
}

static void keep_arguments(struct rt_launch *launch, void *room)
{
    struct vgc_function_info info;
    struct vgc_param param;
    void **pointers = room;
    vgc_function_info(launch->loaded, &info);
    char *block = memset(pointers + info.num_params, 0, info.param_bytes); /* graphs/segments.c sends it as it is */
    for (uint32_t i = 0; i < info.num_params; i++) {
        (void)vgc_function_param(launch->loaded, i, &param);
        pointers[i] = block + param.offset;
        memcpy(pointers[i], launch->arguments[i], param.size);
    }
    launch->arguments = pointers;
}

struct rt_operation *rt_keep(const struct rt_operation *operation)
{
    size_t size = operation->kind == RT_LAUNCH    ? argument_bytes(&operation->launch)
                  : operation->kind == RT_COPY_3D ? sizeof(*operation->copy_3d)
                  : operation->kind == RT_CALL    ? operation->call.size
                                                  : 0;
    struct rt_operation *kept = malloc(sizeof(*kept) + size);
    if (kept == NULL)
        return NULL;
    *kept = *operation;
    void *room = kept + 1;
    if (operation->kind == RT_LAUNCH)
        keep_arguments(&kept->launch, room);
    if (operation->kind == RT_COPY_3D)
        kept->copy_3d = memcpy(room, operation->copy_3d, size);
    if (operation->kind == RT_CALL && size > 0)
        kept->call.data = memcpy(room, operation->call.data, size);
    return kept;
}
