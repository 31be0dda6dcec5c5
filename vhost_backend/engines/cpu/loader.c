/* Loads an image: a position-independent ELF object whose only imports are the symbols of vgc_cpu_symbols.h.
 *
 * The worker has no file system, hence no dlopen(). An image is guest code in any case, which the sandbox confines. A
 * broken one is refused all the same: nothing here reads or writes outside of the file and of the memory that was
 * mapped for it, and tables and texts that the engine reads lie in that memory. */
#define _GNU_SOURCE
#include "cpu_check.h"
#include "cpu_control.h"

#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MAX_IMAGE = 256 << 20, MAX_SEGMENTS = 64, SHOWN_NAME = 128 };

#define MAX_SPAN (UINT64_C(1) << 46)

struct loader {
    struct cpu_engine *engine;
    uint64_t at; /* 0: anywhere */
    bool outside;
    const uint8_t *file;
    uint64_t file_size;
    const Elf64_Phdr *segments; /* in the file */
    uint32_t num_segments;
    uint8_t *base;
    size_t mapped;
    bool imports_only; /* applies only relocations of imports */
    const Elf64_Sym *symbols;
    uint32_t num_symbols;
    uint64_t strings; /* from the image's begin on */
    char *why;
};

static uint64_t pages_of(uint64_t size)
{
    return (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static int refuse(struct loader *loader, const char *reason, const char *what)
{
    snprintf(loader->why, VGC_CPU_WHY, "the image %s%s%s", reason, what[0] != '\0' ? " " : "", what);
    return -1;
}

void cpu_copy_name(char *to, size_t size, const char *name)
{
    size_t length = 0;
    for (; name[length] != '\0' && length < size - 1; length++)
        to[length] = name[length] >= ' ' && name[length] <= '~' ? name[length] : '?';
    to[length] = '\0';
}

/* ---- bounds -------------------------------------------------------------------------------------------------- */

/* `size` bytes at an offset, 0 in the image; NULL if they are not all in it, or not aligned. */
static const void *part(const struct loader *loader, uint64_t offset, uint64_t size, uint64_t align)
{
    bool good = offset % align == 0 && size <= loader->mapped && offset <= loader->mapped - size;
    return good ? loader->base + offset : NULL;
}

/* The text of at most `most` bytes at an offset; NULL if it does not end in the image. */
static const char *text(const struct loader *loader, uint64_t offset, uint64_t most)
{
    const char *first = part(loader, offset, 1, 1);
    uint64_t left = first != NULL ? loader->mapped - offset : 0;
    return left != 0 && memchr(first, '\0', left < most ? left : most) != NULL ? first : NULL;
}

/* True if an array that the image's table points to is in the image; one without elements may be anywhere. */
static bool has(const struct loader *loader, const void *first, uint64_t count, uint64_t size, uint64_t align)
{
    return count == 0 || part(loader, (uintptr_t)first - (uintptr_t)loader->base, count * size, align) != NULL;
}

static bool has_text(const struct loader *loader, const char *first)
{
    return text(loader, (uintptr_t)first - (uintptr_t)loader->base, UINT64_MAX) != NULL;
}

static bool is_writable(const struct loader *loader, uint64_t offset, uint64_t size)
{
    for (uint32_t i = 0; i < loader->num_segments; i++) {
        const Elf64_Phdr *segment = &loader->segments[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_W) != 0 && offset >= segment->p_vaddr &&
            size <= segment->p_memsz && offset - segment->p_vaddr <= segment->p_memsz - size)
            return true;
    }
    return false;
}

/* ---- symbols ------------------------------------------------------------------------------------------------ */

struct import {
    const char *name;
    uintptr_t address;
};

static uintptr_t find_import(const char *name)
{
#define VGC_CPU_SYMBOL(symbol) {#symbol, (uintptr_t)&symbol},
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
    static const struct import imports[] = {
#define vgc_cpu_current memcpy /* thread-local: see resolve_tls */
#include "vgc_cpu_symbols.h"
#undef vgc_cpu_current
    };
#pragma GCC diagnostic pop
#undef VGC_CPU_SYMBOL
    for (size_t i = 0; i < sizeof(imports) / sizeof(imports[0]); i++)
        if (strcmp(imports[i].name, name) == 0)
            return imports[i].address;
    return 0;
}

/* Name of a symbol; NULL if it does not end in the image, or is longer than any that is imported. */
static const char *name_of(const struct loader *loader, const Elf64_Sym *symbol)
{
    return text(loader, loader->strings + symbol->st_name, SHOWN_NAME);
}

/* Address of a relocation's symbol: in the image if it is defined there, else in the runtime. */
static int resolve(struct loader *loader, const Elf64_Sym *symbol, uint64_t *address)
{
    char shown[SHOWN_NAME];
    if (symbol->st_shndx != SHN_UNDEF) {
        *address = (uintptr_t)loader->base + symbol->st_value;
        return 0;
    }
    const char *name = name_of(loader, symbol);
    if (name == NULL)
        return refuse(loader, "has a name that does not end", "");
    *address = find_import(name);
    if (*address != 0)
        return 0;
    cpu_copy_name(shown, sizeof(shown), name);
    return refuse(loader, "imports", shown);
}

static int resolve_tls(struct loader *loader, const Elf64_Sym *symbol, uint64_t *offset)
{
    char shown[SHOWN_NAME];
    const char *name = name_of(loader, symbol);
    if (name == NULL)
        return refuse(loader, "has a name that does not end", "");
    *offset = (uintptr_t)&vgc_cpu_current - (uintptr_t)__builtin_thread_pointer();
    if (strcmp(name, "vgc_cpu_current") == 0)
        return 0;
    cpu_copy_name(shown, sizeof(shown), name);
    return refuse(loader, "has the thread-local variable", shown);
}

/* ---- relocation --------------------------------------------------------------------------------------------- */

/* True if the relocation depends on the runtime's addresses in this process. */
static bool is_import(uint32_t type, const Elf64_Sym *symbol)
{
    return type == R_X86_64_TPOFF64 || (type != R_X86_64_RELATIVE && symbol->st_shndx == SHN_UNDEF);
}

/* Writes an address, which packed structures have at any place. */
static void put(uint8_t *place, uint64_t value)
{
    memcpy(place, &value, sizeof(value));
}

static int relocate_one(struct loader *loader, const Elf64_Rela *entry)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(entry->r_info), index = (uint32_t)ELF64_R_SYM(entry->r_info);
    uint64_t value = (uintptr_t)loader->base;
    if (!is_writable(loader, entry->r_offset, sizeof(uint64_t)))
        return refuse(loader, "has a relocation outside of what is writable", "");
    if (index >= loader->num_symbols)
        return refuse(loader, "has a relocation without a symbol", "");
    const Elf64_Sym *symbol = &loader->symbols[index];
    if (loader->imports_only && !is_import(type, symbol))
        return 0;
    switch (type) {
    case R_X86_64_RELATIVE:
        break;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        if (resolve(loader, symbol, &value) != 0)
            return -1;
        break;
    case R_X86_64_TPOFF64:
        if (resolve_tls(loader, symbol, &value) != 0)
            return -1;
        break;
    default:
        return refuse(loader, "has a relocation of an unknown kind", "");
    }
    put(loader->base + entry->r_offset, value + (uint64_t)entry->r_addend);
    return 0;
}

static int relocate_table(struct loader *loader, uint64_t offset, uint64_t size)
{
    const Elf64_Rela *entries = part(loader, offset, size, _Alignof(Elf64_Rela));
    if (entries == NULL)
        return refuse(loader, "has a relocation table outside of it", "");
    for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++)
        if (relocate_one(loader, &entries[i]) != 0)
            return -1;
    return 0;
}

/* Reads the dynamic section from the file. */
static int relocate(struct loader *loader, const Elf64_Phdr *segment)
{
    uint64_t value[DT_NUM] = {0};
    const Elf64_Dyn *dynamic = (const Elf64_Dyn *)(loader->file + segment->p_offset);
    for (uint64_t left = segment->p_filesz / sizeof(*dynamic); left != 0 && dynamic->d_tag != DT_NULL; left--) {
        if (dynamic->d_tag >= 0 && dynamic->d_tag < DT_NUM)
            value[dynamic->d_tag] = dynamic->d_un.d_val;
        dynamic++;
    }
    const uint32_t *hash = part(loader, value[DT_HASH], 2 * sizeof(*hash), sizeof(*hash)); /* nbucket, nchain */
    if (value[DT_SYMTAB] == 0 || value[DT_STRTAB] == 0 || value[DT_HASH] == 0 || hash == NULL)
        return refuse(loader, "has no symbols", "");
    loader->num_symbols = hash[1];
    loader->symbols = part(loader, value[DT_SYMTAB], hash[1] * (uint64_t)sizeof(Elf64_Sym), _Alignof(Elf64_Sym));
    loader->strings = value[DT_STRTAB];
    if (loader->symbols == NULL || part(loader, loader->strings, 1, 1) == NULL)
        return refuse(loader, "has symbols outside of it", "");
    if (relocate_table(loader, value[DT_RELA], value[DT_RELASZ]) != 0)
        return -1;
    return relocate_table(loader, value[DT_JMPREL], value[DT_PLTRELSZ]);
}

/* The image's table; NULL if it is missing, or not all in the image. */
static const struct vgc_cpu_image *find_table(const struct loader *loader)
{
    for (uint32_t i = 1; i < loader->num_symbols; i++) {
        const char *name = name_of(loader, &loader->symbols[i]);
        if (name != NULL && strcmp(name, "vgc_cpu_image") == 0)
            return part(loader, loader->symbols[i].st_value, sizeof(struct vgc_cpu_image),
                        _Alignof(struct vgc_cpu_image));
    }
    return NULL;
}

static bool is_sound_kernel(const struct loader *loader, const struct vgc_cpu_kernel_desc *kernel)
{
    return has_text(loader, kernel->name) && has_text(loader, kernel->short_name) && kernel->num_sites != 0 &&
           has(loader, kernel->sites, kernel->num_sites, sizeof(*kernel->sites), _Alignof(struct vgc_cpu_site)) &&
           has(loader, kernel->params, kernel->num_params, sizeof(*kernel->params), _Alignof(struct vgc_cpu_param));
}

static bool is_sound_global(const struct loader *loader, const struct vgc_cpu_global_desc *global)
{
    return has_text(loader, global->name) &&
           part(loader, (uintptr_t)global->address - (uintptr_t)loader->base, global->size, 1) != NULL;
}

/* True if all that the engine reads of the image's table lies in the image. */
static bool is_sound(const struct loader *loader, const struct vgc_cpu_image *image)
{
    bool good =
        has(loader, image->kernels, image->num_kernels, sizeof(*image->kernels),
            _Alignof(struct vgc_cpu_kernel_desc)) &&
        has(loader, image->globals, image->num_globals, sizeof(*image->globals), _Alignof(struct vgc_cpu_global_desc));
    for (uint32_t i = 0; good && i < image->num_kernels; i++)
        good = is_sound_kernel(loader, &image->kernels[i]);
    for (uint32_t i = 0; good && i < image->num_globals; i++)
        good = is_sound_global(loader, &image->globals[i]);
    return good;
}

/* ---- segments ----------------------------------------------------------------------------------------------- */

static bool has_header(const struct loader *loader)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)loader->file;
    return loader->file_size >= sizeof(*header) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_type == ET_DYN && header->e_machine == EM_X86_64 &&
           header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phoff % 8 == 0 &&
           header->e_phoff <= loader->file_size && header->e_phnum <= MAX_SEGMENTS &&
           header->e_phnum <= (loader->file_size - header->e_phoff) / sizeof(Elf64_Phdr);
}

static bool is_in_file(const struct loader *loader, const Elf64_Phdr *segment)
{
    return segment->p_offset <= loader->file_size && segment->p_filesz <= loader->file_size - segment->p_offset &&
           segment->p_vaddr <= MAX_SPAN && segment->p_memsz <= MAX_SPAN && segment->p_filesz <= segment->p_memsz;
}

/* Segments lie in ascending order, and no two in one page: what one may write to is not another's code. */
static int check_segments(struct loader *loader)
{
    for (uint32_t i = 0; i < loader->num_segments; i++) {
        const Elf64_Phdr *segment = &loader->segments[i];
        if (segment->p_type != PT_LOAD && segment->p_type != PT_DYNAMIC)
            continue;
        if (!is_in_file(loader, segment) ||
            (segment->p_type == PT_DYNAMIC && segment->p_offset % _Alignof(Elf64_Dyn) != 0))
            return refuse(loader, "has a segment outside of it", "");
        if (segment->p_type == PT_DYNAMIC)
            continue;
        if (segment->p_vaddr < loader->mapped)
            return refuse(loader, "has segments that overlap", "");
        loader->mapped = pages_of(segment->p_vaddr + segment->p_memsz);
    }
    return loader->mapped != 0 ? 0 : refuse(loader, "is empty", "");
}

static void copy_segments(struct loader *loader)
{
    for (uint32_t i = 0; i < loader->num_segments; i++) {
        const Elf64_Phdr *segment = &loader->segments[i];
        if (segment->p_type == PT_LOAD)
            memcpy(loader->base + segment->p_vaddr, loader->file + segment->p_offset, segment->p_filesz);
    }
}

static int protect_segments(struct loader *loader)
{
    for (uint32_t i = 0; i < loader->num_segments; i++) {
        const Elf64_Phdr *segment = &loader->segments[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0)
            continue;
        uint64_t first = segment->p_vaddr & ~(uint64_t)(PAGE - 1);
        int protection = (segment->p_flags & PF_X) != 0 ? PROT_READ | PROT_EXEC : PROT_READ;
        if (mprotect(loader->base + first, segment->p_vaddr + segment->p_memsz - first, protection) != 0)
            return refuse(loader, "cannot be made executable", "");
    }
    return 0;
}

static int relocate_all(struct loader *loader)
{
    for (uint32_t i = 0; i < loader->num_segments; i++)
        if (loader->segments[i].p_type == PT_DYNAMIC)
            return relocate(loader, &loader->segments[i]);
    return refuse(loader, "has no dynamic section", "");
}

static void set_segments(struct loader *loader)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)loader->file;
    loader->segments = (const Elf64_Phdr *)(loader->file + header->e_phoff);
    loader->num_segments = header->e_phnum;
}

/* Checks everything that is read before memory is mapped, and how much is to be. */
static int check(struct loader *loader)
{
    if (loader->file_size == 0 || loader->file_size > MAX_IMAGE)
        return refuse(loader, "has an impossible size", "");
    if (!has_header(loader))
        return refuse(loader, "is not an x86-64 shared object", "");
    set_segments(loader);
    return check_segments(loader);
}

int cpu_elf_measure(struct cpu_elf *elf, char *why)
{
    struct loader loader = {.file = elf->file, .file_size = elf->file_size, .why = why};
    if (check(&loader) != 0)
        return -1;
    elf->mapped = loader.mapped;
    return 0;
}

uint64_t cpu_elf_bytes(const struct cpu_elf *elf)
{
    return elf->mapped + pages_of(elf->file_size);
}

static int load(struct loader *loader, const struct vgc_cpu_image **image)
{
    if (check(loader) != 0)
        return -1;
    loader->base = loader->outside ? cpu_map_guarded(loader->mapped, CPU_GUARD)
                                   : cpu_map_device(loader->engine, loader->at, loader->mapped);
    if (loader->base == NULL)
        return refuse(loader, loader->at != 0 ? "does not fit at the address that it had" : "does not fit into memory",
                      "");
    copy_segments(loader);
    if (relocate_all(loader) != 0)
        return -1;
    *image = find_table(loader);
    if (*image == NULL || (*image)->magic != VGC_CPU_IMAGE_MAGIC || (*image)->abi != VGC_CPU_ABI)
        return refuse(loader, "was made by another version of the compiler", "");
    if (!is_sound(loader, *image))
        return refuse(loader, "has a table that points out of it", "");
    return protect_segments(loader);
}

int cpu_elf_load(struct cpu_engine *engine, struct cpu_elf *elf, uint64_t at, const struct vgc_cpu_image **image,
                 char *why)
{
    struct loader loader = {.engine = engine,
                            .at = at,
                            .outside = elf->outside,
                            .file = elf->file,
                            .file_size = elf->file_size,
                            .why = why};
    int result = load(&loader, image);
    elf->base = loader.base;
    elf->mapped = loader.mapped;
    if (result != 0 && loader.base != NULL)
        cpu_elf_unload(engine, elf);
    return result;
}

void cpu_elf_unload(struct cpu_engine *engine, const struct cpu_elf *elf)
{
    if (elf->outside)
        cpu_unmap_guarded(elf->base, elf->mapped, CPU_GUARD);
    else
        cpu_unmap_device(engine, elf->base, elf->mapped);
}

bool cpu_find_image(struct cpu_engine *engine, uint64_t address, bool is_signal, struct cpu_elf *elf)
{
    const struct cpu_elf *image;
    if ((is_signal ? pthread_mutex_trylock(&engine->programs_lock) : pthread_mutex_lock(&engine->programs_lock)) != 0)
        return false;
    for (image = engine->images; image != NULL; image = image->next)
        if (address - (uint64_t)(uintptr_t)image->base < image->mapped)
            break;
    if (image != NULL)
        *elf = *image;
    pthread_mutex_unlock(&engine->programs_lock);
    return image != NULL;
}

/* ---- migration ---------------------------------------------------------------------------------------------- */

bool cpu_elf_writable(const struct cpu_elf *elf, uint32_t index, uint64_t *address, uint64_t *size)
{
    struct loader loader = {.file = elf->file};
    uint32_t found = 0;
    set_segments(&loader);
    for (uint32_t i = 0; i < loader.num_segments; i++) {
        const Elf64_Phdr *segment = &loader.segments[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) == 0 || found++ != index)
            continue;
        *address = (uint64_t)(uintptr_t)elf->base + segment->p_vaddr;
        *size = segment->p_memsz;
        return true;
    }
    return false;
}

/* Contents that came from the other process are written to, but not trusted. */
int cpu_elf_settle(const struct cpu_elf *elf, char *why)
{
    struct loader loader = {.file = elf->file,
                            .file_size = elf->file_size,
                            .base = elf->base,
                            .mapped = elf->mapped,
                            .imports_only = true,
                            .why = why};
    set_segments(&loader);
    return relocate_all(&loader);
}
