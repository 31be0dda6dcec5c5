/* Programs: kernels and variables of loaded images, for the data plane. */
#include "cpu_control.h"
#include "cpu_profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct vgc_cpu_program {
    struct cpu_engine *engine;
    struct vgc_cpu_program *next;
    struct cpu_elf elf; /* its file is mapped by this program */
    const struct vgc_cpu_image *image;
    size_t frame_bytes;         /* largest frame that a kernel needs on a PE */
    int trackers;               /* 1 if reads of memory that was never written are looked for, else 0 */
    bool finds_leaks, launches; /* as all of its kernels, or none */
    uint32_t num_kernels;       /* guest code may have changed the image since */
    struct vgc_kernel kernels[];
};

_Static_assert(sizeof(struct vgc_cpu_param) == sizeof(struct vgc_param_entry), "the same struct on the wire");
_Static_assert(offsetof(struct vgc_cpu_param, kind) == offsetof(struct vgc_param_entry, kind), "vgc_cpu_param.kind");
_Static_assert((int)VGC_CPU_MAX_PARAMS == (int)VGC_MAX_PARAM_BYTES, "bytes of parameters");
_Static_assert((int)VGC_CPU_PARAM_UNKNOWN == (int)VGC_PARAM_KIND_UNKNOWN, "enum vgc_cpu_param_kind");
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
        .local_bytes = desc->local_bytes,
        .context = context,
        .num_params = desc->num_params,
        .params = (const struct vgc_param_entry *)desc->params,
        .engine_private = (void *)desc,
    };
}

static void unmap_file(const struct cpu_elf *elf)
{
    munmap((void *)(uintptr_t)elf->file, elf->file_size);
}

static size_t frame_of(const struct vgc_cpu_kernel_desc *desc)
{
    size_t threads = desc->max_threads < VGC_CPU_MAX_THREADS ? desc->max_threads : VGC_CPU_MAX_THREADS;
    return desc->frame_bytes * ((threads + 63) & ~(size_t)63);
}

/* Bounds the PEs' frames to what loaded programs need. Only the main thread changes the list. */
static void bound_frames(struct cpu_engine *engine)
{
    size_t most = 0;
    for (const struct vgc_cpu_program *program = engine->programs; program != NULL; program = program->next)
        most = program->frame_bytes > most ? program->frame_bytes : most;
    cpu_pes_bound_frames(engine, most);
}

/* 1 if a kernel is checked for reads of memory that was never written, else 0. */
static int tracks(const struct vgc_cpu_program *program)
{
    for (uint32_t i = 0; i < program->image->num_kernels; i++)
        if ((program->image->kernels[i].flags & VGC_CPU_KERNEL_INITCHECK) != 0)
            return 1;
    return 0;
}

static void add(struct vgc_cpu_program *program)
{
    struct cpu_engine *engine = program->engine;
    (void)cpu_bounds_add(&engine->bounds, (uintptr_t)program->elf.base, program->elf.mapped, false);
    program->trackers = tracks(program);
    cpu_bounds_track(&engine->bounds, program->trackers);
    cpu_bounds_track(&engine->blocks, program->trackers);
    pthread_mutex_lock(&engine->programs_lock);
    program->next = engine->programs;
    engine->programs = program;
    program->elf.next = engine->images;
    engine->images = &program->elf;
    pthread_mutex_unlock(&engine->programs_lock);
    bound_frames(engine);
}

static void take_out(struct vgc_cpu_program *program)
{
    struct cpu_engine *engine = program->engine;
    cpu_bounds_remove(&engine->bounds, (uintptr_t)program->elf.base);
    cpu_bounds_track(&engine->bounds, -program->trackers);
    cpu_bounds_track(&engine->blocks, -program->trackers);
    if (program->num_kernels != 0)
        cpu_blocks_end(engine, &(struct cpu_extent){(uintptr_t)program->elf.base, program->elf.mapped},
                       program->finds_leaks, program->kernels[0].context);
    pthread_mutex_lock(&engine->programs_lock);
    struct vgc_cpu_program **link = &engine->programs;
    while (*link != program)
        link = &(*link)->next;
    *link = program->next;
    struct cpu_elf **image = &engine->images;
    while (*image != &program->elf)
        image = &(*image)->next;
    *image = program->elf.next;
    pthread_mutex_unlock(&engine->programs_lock);
    bound_frames(engine);
}

/* True if kernels of the image have clusters that can be: they are divided by where no fault is expected. */
static bool has_sound_clusters(const struct vgc_cpu_image *image)
{
    for (uint32_t i = 0; i < image->num_kernels; i++) {
        const uint32_t *cluster = image->kernels[i].cluster;
        uint64_t blocks = 1;
        for (int axis = 0; axis < 3; axis++)
            blocks *= cluster[axis] <= VGC_CPU_MAX_CLUSTER ? cluster[axis] : 0;
        if (blocks == 0 || blocks > VGC_CPU_MAX_CLUSTER)
            return false;
    }
    return true;
}

/* Loads an image; takes ownership of the file's mapping. */
static struct vgc_cpu_program *load(struct cpu_engine *engine, struct cpu_elf *elf, uint64_t at, uint32_t context,
                                    char *why)
{
    const struct vgc_cpu_image *image = NULL;
    if (cpu_elf_load(engine, elf, at, &image, why) != 0) {
        unmap_file(elf);
        return NULL;
    }
    struct vgc_cpu_program *program = calloc(1, sizeof(*program) + image->num_kernels * sizeof(struct vgc_kernel));
    bool is_sound = has_sound_clusters(image);
    if (program == NULL || !is_sound) {
        cpu_elf_unload(engine, elf);
        unmap_file(elf);
        free(program);
        snprintf(why, VGC_CPU_WHY, is_sound ? "no memory for the program's table" : "a kernel has impossible clusters");
        return NULL;
    }
    program->engine = engine;
    program->elf = *elf;
    program->image = image;
    program->num_kernels = image->num_kernels;
    if (image->num_kernels != 0) {
        program->finds_leaks = (image->kernels[0].flags & VGC_CPU_KERNEL_LEAKCHECK) != 0;
        program->launches = (image->kernels[0].flags & VGC_CPU_KERNEL_LAUNCHES) != 0;
    }
    for (uint32_t i = 0; i < image->num_kernels; i++) {
        size_t frame = frame_of(&image->kernels[i]);
        program->frame_bytes = frame > program->frame_bytes ? frame : program->frame_bytes;
        describe_kernel(&program->kernels[i], &image->kernels[i], context);
    }
    add(program);
    return program;
}

static bool map_file(struct cpu_elf *elf, int fd, uint64_t size, char *why)
{
    const uint8_t *file = size == 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    *elf = (struct cpu_elf){.file = file, .file_size = size};
    if (file != MAP_FAILED)
        return true;
    snprintf(why, VGC_CPU_WHY, "the image of %lu bytes cannot be mapped", (unsigned long)size);
    return false;
}

uint64_t vgc_cpu_image_bytes(int fd, uint64_t size, char *why)
{
    struct cpu_elf elf;
    if (!map_file(&elf, fd, size, why))
        return 0;
    uint64_t bytes = cpu_elf_measure(&elf, why) == 0 ? cpu_elf_bytes(&elf) : 0;
    unmap_file(&elf);
    return bytes;
}

uint64_t vgc_cpu_image_bytes_of(const uint8_t *image, uint64_t size, char *why)
{
    struct cpu_elf elf = {.file = image, .file_size = size};
    return cpu_elf_measure(&elf, why) == 0 ? cpu_elf_bytes(&elf) : 0;
}

struct vgc_cpu_program *vgc_cpu_program_load(struct vgc_engine *engine, int fd, uint64_t size, uint32_t context,
                                             char *why)
{
    struct cpu_elf elf;
    if (!map_file(&elf, fd, size, why))
        return NULL;
    return load(cpu_engine_of(engine), &elf, 0, context, why);
}

struct vgc_cpu_program *vgc_cpu_program_load_at(struct vgc_engine *engine, const uint8_t *image, uint64_t size,
                                                uint32_t context, uint64_t base, char *why)
{
    uint8_t *file = base == 0 || size == 0
                        ? MAP_FAILED
                        : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file == MAP_FAILED) {
        snprintf(why, VGC_CPU_WHY, "no memory for an image of %lu bytes at %#lx", (unsigned long)size,
                 (unsigned long)base);
        return NULL;
    }
    memcpy(file, image, size);
    mprotect(file, size, PROT_READ);
    struct cpu_elf elf = {.file = file, .file_size = size};
    return load(cpu_engine_of(engine), &elf, base, context, why);
}

void vgc_cpu_program_unload(struct vgc_cpu_program *program)
{
    take_out(program); /* no text of it is read from here on */
    cpu_elf_unload(program->engine, &program->elf);
    unmap_file(&program->elf);
    free(program);
}

/* Programs stay loaded while the lock is held. */
int cpu_control_text(struct vgc_engine *base, uint64_t address, char *text, uint32_t size)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    int length = -EFAULT;
    if (size == 0)
        return -EINVAL;
    const char *builtin = cpu_builtin_name_at(engine, address);
    if (builtin != NULL) {
        snprintf(text, size, "%s", builtin);
        return (int)strlen(text);
    }
    pthread_mutex_lock(&engine->programs_lock);
    for (const struct vgc_cpu_program *program = engine->programs; program != NULL; program = program->next) {
        uint64_t offset = address - (uint64_t)(uintptr_t)program->elf.base;
        if (offset >= program->elf.mapped)
            continue;
        uint64_t left = program->elf.mapped - offset;
        size_t room = left < size - 1 ? left : size - 1;
        length = (int)strnlen((const char *)program->elf.base + offset, room);
        memcpy(text, program->elf.base + offset, (size_t)length);
        text[length] = '\0';
    }
    pthread_mutex_unlock(&engine->programs_lock);
    return length;
}

const uint8_t *vgc_cpu_program_image(const struct vgc_cpu_program *program, uint64_t *size)
{
    *size = program->elf.file_size;
    return program->elf.file;
}

uint64_t vgc_cpu_program_bytes(const struct vgc_cpu_program *program)
{
    size_t frame = program->frame_bytes > CPU_FRAME_BYTES ? (program->frame_bytes + 4095) & ~(size_t)4095 : 0;
    uint64_t children = program->launches ? cpu_children_bytes(program->frame_bytes) : 0;
    return cpu_elf_bytes(&program->elf) + (frame + children) * program->engine->base.num_pes;
}

uint64_t vgc_cpu_program_base(const struct vgc_cpu_program *program)
{
    return (uint64_t)(uintptr_t)program->elf.base;
}

bool vgc_cpu_program_writable(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address, uint64_t *size)
{
    return cpu_elf_writable(&program->elf, index, address, size);
}

int vgc_cpu_program_settle(struct vgc_cpu_program *program, char *why)
{
    return cpu_elf_settle(&program->elf, why);
}

uint32_t vgc_cpu_program_num_kernels(const struct vgc_cpu_program *program)
{
    return program->num_kernels;
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

uint32_t vgc_cpu_program_constant_bytes(const struct vgc_cpu_program *program)
{
    return program->image->constant_bytes;
}

const char *vgc_cpu_program_global(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address,
                                   uint64_t *size)
{
    const struct vgc_cpu_global_desc *global = &program->image->globals[index];
    *address = (uint64_t)(uintptr_t)global->address;
    *size = global->size;
    return global->name;
}

int vgc_cpu_program_function(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address, uint64_t *size,
                             char *name)
{
    return cpu_elf_function(&program->elf, index, address, size, name);
}
