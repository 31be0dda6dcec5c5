/* Images of the CPU engine, as a compiler that guest code has taken over, a cache or another host's worker may give
 * them: loading, tables of kernels and variables, names and lines, contents from another process, firmware.
 *
 * The input is a byte that says how the image is loaded, seven that stand for what its code has written, and the image.
 * Promises: no access outside the file and the memory that was mapped for it (AddressSanitizer watches), each table and
 * text that others read lies in the image, memory is charged before it is mapped, and all is given back.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "cpu_control.h"
#include "cpu_profile.h"
#include "input.h"
#include "poison.h"

#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function) /* of the loader alone */

enum { PAGE = 4096, MAX_FILE = 1 << 20, MAX_SPAN = 1 << 20, FD = 1000000, CODES = 8, MAX_FIXED = 64, CONTEXT = 3 };
enum { AT = 1, FIRMWARE = 2 }; /* how the image is loaded */

/* Memory that stands in for a mapping. What lies beyond its end is poisoned. */
struct place {
    uint8_t *memory;
    size_t room;
    size_t size; /* 0: nothing is mapped */
};

static struct cpu_engine engine = {.base = {.num_pes = 2}, .programs_lock = PTHREAD_MUTEX_INITIALIZER};
static struct place file = {.room = MAX_FILE}, span = {.room = MAX_SPAN};
static struct place fixed[MAX_FIXED]; /* parts of `span` that are not writable any more */
static uint32_t num_fixed;
static const uint8_t *given; /* image that the file of FD has */

/* ---- what stands in for the system and for the rest of the engine ------------------------------------------------ */

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);
int __wrap_mprotect(void *at, size_t size, int protection);
int __real_mprotect(void *at, size_t size, int protection);

static uint8_t *open_place(struct place *place, size_t size)
{
    PROMISE(place->size == 0 && size != 0);
    if (size > place->room)
        return NULL;
    if (place->memory == NULL)
        place->memory = __real_mmap(NULL, place->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    PROMISE(place->memory != MAP_FAILED);
    place->size = size;
    ASAN_POISON_MEMORY_REGION(place->memory, place->room);
    ASAN_UNPOISON_MEMORY_REGION(place->memory, size);
    return place->memory;
}

static void close_place(struct place *place, const uint8_t *memory, size_t size)
{
    PROMISE(place->size != 0 && memory == place->memory && size == place->size);
    ASAN_POISON_MEMORY_REGION(place->memory, place->room);
    place->size = 0;
}

static bool lies_in(const struct place *place, const void *address, size_t size)
{
    uint64_t offset = (uintptr_t)address - (uintptr_t)place->memory;
    return offset <= place->size && size <= place->size - offset;
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    PROMISE(at == NULL && offset == 0 && (fd == FD || (flags & MAP_ANONYMOUS) != 0));
    uint8_t *memory = open_place(&file, size);
    if (memory == NULL)
        return MAP_FAILED;
    if (fd == FD)
        memcpy(memory, given, size);
    PROMISE(fd != FD || protection == PROT_READ);
    return memory;
}

int __wrap_munmap(void *at, size_t size)
{
    close_place(&file, at, size);
    return 0;
}

int __wrap_mprotect(void *at, size_t size, int protection)
{
    PROMISE((protection & PROT_WRITE) == 0);
    if (at == file.memory)
        return 0;
    size = (size + PAGE - 1) / PAGE * PAGE;
    PROMISE((uintptr_t)at % PAGE == 0 && lies_in(&span, at, size) && num_fixed < MAX_FIXED);
    fixed[num_fixed++] = (struct place){.memory = at, .size = size};
    return 0;
}

static uint8_t *map(size_t size)
{
    PROMISE(size % PAGE == 0);
    uint8_t *memory = open_place(&span, size);
    num_fixed = 0;
    if (memory != NULL)
        memset(memory, 0, size);
    return memory;
}

uint8_t *cpu_map_device(struct cpu_engine *of, uint64_t at, size_t size)
{
    (void)of, (void)at;
    return map(size);
}

void cpu_unmap_device(struct cpu_engine *of, uint8_t *base, size_t size)
{
    (void)of;
    close_place(&span, base, size);
}

uint8_t *cpu_map_guarded(size_t size, size_t guard)
{
    (void)guard;
    return map(size);
}

void cpu_unmap_guarded(uint8_t *base, size_t size, size_t guard)
{
    (void)guard;
    close_place(&span, base, size);
}

void cpu_blocks_end(struct cpu_engine *of, const struct cpu_extent *image, bool is_checked, uint32_t context)
{
    (void)of, (void)is_checked;
    PROMISE(lies_in(&span, (const void *)(uintptr_t)image->first, image->size) && context == CONTEXT);
}

void cpu_pes_bound_frames(struct cpu_engine *of, size_t most)
{
    of->frame_most = most;
}

const char *cpu_builtin_name_at(const struct cpu_engine *of, uint64_t address)
{
    (void)of, (void)address;
    return NULL;
}

uint64_t cpu_children_bytes(size_t frame_bytes)
{
    return frame_bytes;
}

/* ---- a life of an image ------------------------------------------------------------------------------------------ */

static uint64_t sum; /* of what was read, so that it is read */

static void read_text(const char *text)
{
    sum += strlen(text);
}

static void read_bytes(const void *memory, size_t size)
{
    const uint8_t *bytes = memory;
    for (size_t i = 0; i < size; i++)
        sum += bytes[i];
}

static void read_kernels(const struct vgc_cpu_program *program)
{
    for (uint32_t i = 0; i < vgc_cpu_program_num_kernels(program); i++) {
        const struct vgc_kernel *kernel = vgc_cpu_program_kernel(program, i);
        const struct vgc_cpu_kernel_desc *desc = kernel->engine_private;
        read_text(kernel->name);
        read_text(vgc_cpu_program_short_name(program, i));
        read_bytes(kernel->params, kernel->num_params * sizeof(*kernel->params));
        read_bytes(desc->sites, desc->num_sites * sizeof(*desc->sites));
        PROMISE(desc->num_sites != 0 && kernel->context == CONTEXT);
        PROMISE(desc->cluster[0] * desc->cluster[1] * desc->cluster[2] - 1 < VGC_CPU_MAX_CLUSTER);
    }
}

static void read_globals(const struct vgc_cpu_program *program)
{
    uint64_t address, size;
    for (uint32_t i = 0; i < vgc_cpu_program_num_globals(program); i++) {
        read_text(vgc_cpu_program_global(program, i, &address, &size));
        PROMISE(lies_in(&span, (const void *)(uintptr_t)address, size));
    }
}

static void read_names(const struct vgc_cpu_program *program)
{
    char name[VGC_CPU_FUNCTION_NAME];
    uint64_t address, size;
    int found;
    for (uint32_t i = 0; (found = vgc_cpu_program_function(program, i, &address, &size, name)) >= 0; i++) {
        if (found == 0)
            continue;
        PROMISE(name[0] != '\0' && size != 0 && lies_in(&span, (const void *)(uintptr_t)address, size));
        for (const char *at = name; *at != '\0'; at++)
            PROMISE(*at >= ' ' && *at <= '~');
    }
}

static void read_lines(uint64_t base)
{
    struct cpu_elf elf;
    struct cpu_code codes[CODES];
    uint64_t first, last;
    PROMISE(cpu_find_image(&engine, base, false, &elf) && elf.base == (uint8_t *)(uintptr_t)base);
    if (!cpu_code_range(&elf, &first, &last))
        return;
    PROMISE(lies_in(&span, (const void *)(uintptr_t)first, last - first));
    for (uint32_t i = 0; i < CODES; i++)
        codes[i] = (struct cpu_code){.address = first - base + (last - first) * i / CODES};
    cpu_find_lines(&elf, codes, CODES);
    for (uint32_t i = 0; i < CODES; i++)
        if (codes[i].file != NULL)
            read_text(codes[i].file);
}

/* Stores that the code of an image has made in another process, whose contents a worker gets by migration. */
static void scribble(struct vgc_cpu_program *program, struct input marks)
{
    uint64_t address, size;
    for (uint32_t i = 0; vgc_cpu_program_writable(program, i, &address, &size); i++) {
        PROMISE(lies_in(&span, (const void *)(uintptr_t)address, size));
        uint64_t at = take16(&marks);
        if (at < size)
            *(uint8_t *)(uintptr_t)(address + at) = take8(&marks);
    }
}

/* Protects what the loader has protected, so that a store there is a fault as it would be in a worker; or ends that. */
static void protect_fixed(int protection)
{
    for (uint32_t i = 0; i < num_fixed; i++)
        PROMISE(__real_mprotect(fixed[i].memory, fixed[i].size, protection) == 0);
}

static void use(struct vgc_cpu_program *program, uint64_t measured, struct input marks)
{
    char text[64], why[VGC_CPU_WHY];
    uint64_t base = vgc_cpu_program_base(program), size;
    PROMISE(vgc_cpu_program_bytes(program) >= measured && measured >= span.size + file.size);
    PROMISE(vgc_cpu_program_image(program, &size) == file.memory && size == file.size);
    read_kernels(program);
    read_globals(program);
    read_names(program);
    read_lines(base);
    for (uint64_t at = 0; at < span.size; at += span.size / CODES)
        PROMISE(cpu_control_text(&engine.base, base + at, text, sizeof(text)) >= 0);
    PROMISE(cpu_control_text(&engine.base, base + span.size, text, sizeof(text)) < 0);
    scribble(program, marks);
    protect_fixed(PROT_READ);
    why[0] = '\0';
    PROMISE(vgc_cpu_program_settle(program, why) == 0 || why[0] != '\0');
    protect_fixed(PROT_READ | PROT_WRITE);
}

static void load_program(const uint8_t *image, size_t size, uint64_t measured, bool at, struct input marks)
{
    char why[VGC_CPU_WHY] = "";
    struct vgc_cpu_program *program = at ? vgc_cpu_program_load_at(&engine.base, image, size, CONTEXT, PAGE, why)
                                         : vgc_cpu_program_load(&engine.base, FD, size, CONTEXT, why);
    PROMISE((program == NULL) == (why[0] != '\0'));
    if (program == NULL)
        return;
    use(program, measured, marks);
    vgc_cpu_program_unload(program);
    PROMISE(engine.programs == NULL && engine.images == NULL && engine.frame_most == 0);
}

static void load_firmware(size_t size)
{
    char why[VGC_CPU_WHY] = "";
    bool is_loaded = vgc_cpu_firmware_load(&engine.base, FD, size, 0, 1, why) == 0;
    PROMISE(is_loaded == (why[0] == '\0'));
    if (!is_loaded)
        return;
    read_bytes(engine.slots[0].modules, sizeof(*engine.slots[0].modules));
    PROMISE(vgc_cpu_firmware_unload(&engine.base, 0, why) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _Alignas(8) static uint8_t image[MAX_FILE];
    struct input input = {data, size}, marks = {data, size < 8 ? size : 8};
    char why[VGC_CPU_WHY] = "";
    uint64_t control = take64(&input);
    uint8_t how = (uint8_t)control;
    size = input.size;
    if (size > sizeof(image))
        return 0;
    take_bytes(&input, image, size);
    ASAN_POISON_MEMORY_REGION(image, sizeof(image));
    ASAN_UNPOISON_MEMORY_REGION(image, size);
    given = image;
    uint64_t measured = vgc_cpu_image_bytes_of(image, size, why);
    PROMISE((measured == 0) == (why[0] != '\0'));
    (void)take8(&marks);
    if ((how & FIRMWARE) != 0)
        load_firmware(size);
    else
        load_program(image, size, measured, (how & AT) != 0, marks);
    PROMISE(file.size == 0 && span.size == 0);
    ASAN_UNPOISON_MEMORY_REGION(image, sizeof(image));
    return 0;
}

#pragma clang attribute pop
