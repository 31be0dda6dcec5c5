/* Programs: a loaded image's kernels and variables as the data plane knows them. */
#include "cpu_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vgc_cpu_program {
    uint8_t *base;
    size_t mapped;
    const struct vgc_cpu_image *image;
    struct vgc_kernel kernels[]; /* image->num_kernels */
};

_Static_assert(sizeof(struct vgc_cpu_param) == sizeof(struct vgc_param_entry), "the same struct on the wire");
_Static_assert(offsetof(struct vgc_cpu_param, kind) == offsetof(struct vgc_param_entry, kind), "vgc_cpu_param.kind");
_Static_assert((int)VGC_CPU_PARAM_INTEGER == (int)VGC_PARAM_KIND_INTEGER, "enum vgc_cpu_param_kind");
_Static_assert((int)VGC_CPU_PARAM_FLOAT == (int)VGC_PARAM_KIND_FLOAT, "enum vgc_cpu_param_kind");
_Static_assert((int)VGC_CPU_PARAM_POINTER == (int)VGC_PARAM_KIND_POINTER, "enum vgc_cpu_param_kind");
_Static_assert((int)VGC_CPU_PARAM_OTHER == (int)VGC_PARAM_KIND_OTHER, "enum vgc_cpu_param_kind");

static void describe_kernel(struct vgc_kernel *kernel, const struct vgc_cpu_kernel_desc *desc, uint32_t context)
{
    *kernel = (struct vgc_kernel){
        .name = desc->name,
        .param_bytes = desc->param_bytes,
        .shared_bytes = desc->shared_bytes,
        .max_threads = desc->max_threads,
        .context = context,
        .num_params = desc->num_params,
        .params = (const struct vgc_param_entry *)desc->params,
        .engine_private = (void *)desc,
    };
}

struct vgc_cpu_program *vgc_cpu_program_load(struct vgc_engine *engine, int fd, uint64_t size, uint32_t context,
                                             char *why)
{
    uint8_t *base = NULL;
    size_t mapped = 0;
    const struct vgc_cpu_image *image = NULL;
    (void)engine;
    if (cpu_elf_load(fd, size, &base, &mapped, &image, why) != 0)
        return NULL;
    struct vgc_cpu_program *program = calloc(1, sizeof(*program) + image->num_kernels * sizeof(struct vgc_kernel));
    if (program == NULL) {
        cpu_elf_unload(base, mapped);
        snprintf(why, VGC_CPU_WHY, "no memory for the program's table");
        return NULL;
    }
    program->base = base;
    program->mapped = mapped;
    program->image = image;
    for (uint32_t i = 0; i < image->num_kernels; i++)
        describe_kernel(&program->kernels[i], &image->kernels[i], context);
    return program;
}

void vgc_cpu_program_unload(struct vgc_cpu_program *program)
{
    cpu_elf_unload(program->base, program->mapped);
    free(program);
}

uint32_t vgc_cpu_program_num_kernels(const struct vgc_cpu_program *program)
{
    return program->image->num_kernels;
}

const struct vgc_kernel *vgc_cpu_program_kernel(const struct vgc_cpu_program *program, uint32_t index)
{
    return &program->kernels[index];
}

const char *vgc_cpu_program_short_name(const struct vgc_cpu_program *program, uint32_t index)
{
    return program->image->kernels[index].short_name;
}

uint32_t vgc_cpu_program_num_globals(const struct vgc_cpu_program *program)
{
    return program->image->num_globals;
}

const char *vgc_cpu_program_global(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address,
                                   uint64_t *size)
{
    const struct vgc_cpu_global_desc *global = &program->image->globals[index];
    *address = (uint64_t)(uintptr_t)global->address;
    *size = global->size;
    return global->name;
}
