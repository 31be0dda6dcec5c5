/* Loads an image: a position-independent ELF object whose only imports are the symbols of vgc_cpu_symbols.h.
 *
 * The worker has no file system, hence no dlopen(). An image is guest code in any case: the checks only recognise
 * broken images, the sandbox confines the code. */
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

enum { PAGE = 4096, MAX_IMAGE = 256 << 20 };

#define MAX_SPAN (UINT64_C(1) << 46)

struct loader {
    struct cpu_engine *engine;
    uint64_t at; /* 0: anywhere */
    bool outside;
    const uint8_t *file;
    uint64_t file_size;
    uint8_t *base;
    size_t mapped;
    bool imports_only; /* applies only relocations of imports */
    const Elf64_Sym *symbols;
    const char *strings;
    const uint32_t *hash;
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

/* Address of a relocation's symbol: in the image if it is defined there, else in the runtime. */
static int resolve(struct loader *loader, uint32_t index, uintptr_t *address)
{
    const Elf64_Sym *symbol = &loader->symbols[index];
    if (symbol->st_shndx != SHN_UNDEF) {
        *address = (uintptr_t)loader->base + symbol->st_value;
        return 0;
    }
    *address = find_import(loader->strings + symbol->st_name);
    return *address != 0 ? 0 : refuse(loader, "imports", loader->strings + symbol->st_name);
}

static int resolve_tls(struct loader *loader, uint32_t index, int64_t *offset)
{
    const char *name = loader->strings + loader->symbols[index].st_name;
    if (strcmp(name, "vgc_cpu_current") != 0)
        return refuse(loader, "has the thread-local variable", name);
    *offset = (int64_t)((uintptr_t)&vgc_cpu_current - (uintptr_t)__builtin_thread_pointer());
    return 0;
}

/* ---- relocation --------------------------------------------------------------------------------------------- */

/* True if the relocation depends on the runtime's addresses in this process. */
static bool is_import(const struct loader *loader, const Elf64_Rela *entry)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(entry->r_info);
    return type == R_X86_64_TPOFF64 ||
           (type != R_X86_64_RELATIVE && loader->symbols[ELF64_R_SYM(entry->r_info)].st_shndx == SHN_UNDEF);
}

/* Writes an address, which packed structures have at any place. */
static void put(uint8_t *place, uint64_t value)
{
    memcpy(place, &value, sizeof(value));
}

static int relocate_one(struct loader *loader, const Elf64_Rela *entry)
{
    uint32_t symbol = (uint32_t)ELF64_R_SYM(entry->r_info);
    uint8_t *place = loader->base + entry->r_offset;
    uintptr_t address = 0;
    int64_t offset = 0;
    if (entry->r_offset > loader->mapped - sizeof(uint64_t))
        return refuse(loader, "has a relocation outside of it", "");
    if (loader->imports_only && !is_import(loader, entry))
        return 0;
    switch (ELF64_R_TYPE(entry->r_info)) {
    case R_X86_64_RELATIVE:
        put(place, (uint64_t)(uintptr_t)loader->base + (uint64_t)entry->r_addend);
        return 0;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        if (resolve(loader, symbol, &address) != 0)
            return -1;
        put(place, (uint64_t)address + (uint64_t)entry->r_addend);
        return 0;
    case R_X86_64_TPOFF64:
        if (resolve_tls(loader, symbol, &offset) != 0)
            return -1;
        put(place, (uint64_t)(offset + entry->r_addend));
        return 0;
    default:
        return refuse(loader, "has a relocation of an unknown kind", "");
    }
}

static int relocate_table(struct loader *loader, uint64_t offset, uint64_t size)
{
    if (size > loader->mapped || offset > loader->mapped - size)
        return refuse(loader, "has a relocation table outside of it", "");
    const Elf64_Rela *entries = (const Elf64_Rela *)(loader->base + offset);
    for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++)
        if (relocate_one(loader, &entries[i]) != 0)
            return -1;
    return 0;
}

static int relocate(struct loader *loader, const Elf64_Dyn *dynamic)
{
    uint64_t value[DT_NUM] = {0};
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag >= 0 && dynamic->d_tag < DT_NUM)
            value[dynamic->d_tag] = dynamic->d_un.d_val;
    if (value[DT_SYMTAB] == 0 || value[DT_STRTAB] == 0 || value[DT_HASH] == 0)
        return refuse(loader, "has no symbols", "");
    loader->symbols = (const Elf64_Sym *)(loader->base + value[DT_SYMTAB]);
    loader->strings = (const char *)(loader->base + value[DT_STRTAB]);
    loader->hash = (const uint32_t *)(loader->base + value[DT_HASH]);
    if (relocate_table(loader, value[DT_RELA], value[DT_RELASZ]) != 0)
        return -1;
    return relocate_table(loader, value[DT_JMPREL], value[DT_PLTRELSZ]);
}

static const struct vgc_cpu_image *find_table(const struct loader *loader)
{
    uint32_t num_symbols = loader->hash[1]; /* nchain */
    for (uint32_t i = 1; i < num_symbols; i++)
        if (strcmp(loader->strings + loader->symbols[i].st_name, "vgc_cpu_image") == 0)
            return (const struct vgc_cpu_image *)(loader->base + loader->symbols[i].st_value);
    return NULL;
}

/* ---- segments ----------------------------------------------------------------------------------------------- */

static const Elf64_Ehdr *check_header(struct loader *loader)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)loader->file;
    bool good = loader->file_size >= sizeof(*header) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
                header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_type == ET_DYN && header->e_machine == EM_X86_64 &&
                header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phoff % 8 == 0 &&
                header->e_phoff <= loader->file_size &&
                header->e_phnum <= (loader->file_size - header->e_phoff) / sizeof(Elf64_Phdr);
    if (!good)
        refuse(loader, "is not an x86-64 shared object", "");
    return good ? header : NULL;
}

static int check_segments(struct loader *loader, const Elf64_Phdr *segments, uint32_t count)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Elf64_Phdr *segment = &segments[i];
        if (segment->p_type != PT_LOAD && segment->p_type != PT_DYNAMIC)
            continue;
        if (segment->p_offset > loader->file_size || segment->p_filesz > loader->file_size - segment->p_offset ||
            segment->p_vaddr > MAX_SPAN || segment->p_memsz > MAX_SPAN || segment->p_filesz > segment->p_memsz)
            return refuse(loader, "has a segment outside of it", "");
        if (segment->p_vaddr + segment->p_memsz > end)
            end = segment->p_vaddr + segment->p_memsz;
    }
    loader->mapped = pages_of(end);
    return end >= sizeof(uint64_t) ? 0 : refuse(loader, "is empty", "");
}

static void copy_segments(struct loader *loader, const Elf64_Phdr *segments, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_LOAD)
            memcpy(loader->base + segments[i].p_vaddr, loader->file + segments[i].p_offset, segments[i].p_filesz);
}

static int protect_segments(struct loader *loader, const Elf64_Phdr *segments, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const Elf64_Phdr *segment = &segments[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0)
            continue;
        uint64_t first = segment->p_vaddr & ~(uint64_t)(PAGE - 1);
        int protection = (segment->p_flags & PF_X) != 0 ? PROT_READ | PROT_EXEC : PROT_READ;
        if (mprotect(loader->base + first, segment->p_vaddr + segment->p_memsz - first, protection) != 0)
            return refuse(loader, "cannot be made executable", "");
    }
    return 0;
}

static const Elf64_Dyn *find_dynamic(const struct loader *loader, const Elf64_Phdr *segments, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            return (const Elf64_Dyn *)(loader->base + segments[i].p_vaddr);
    return NULL;
}

/* Checks everything that is read before memory is mapped; NULL: the image was refused. */
static const Elf64_Ehdr *check(struct loader *loader)
{
    if (loader->file_size == 0 || loader->file_size > MAX_IMAGE) {
        refuse(loader, "has an impossible size", "");
        return NULL;
    }
    const Elf64_Ehdr *header = check_header(loader);
    if (header == NULL)
        return NULL;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(loader->file + header->e_phoff);
    return check_segments(loader, segments, header->e_phnum) == 0 ? header : NULL;
}

int cpu_elf_measure(struct cpu_elf *elf, char *why)
{
    struct loader loader = {.file = elf->file, .file_size = elf->file_size, .why = why};
    if (check(&loader) == NULL)
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
    const Elf64_Ehdr *header = check(loader);
    if (header == NULL)
        return -1;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(loader->file + header->e_phoff);
    loader->base = loader->outside ? cpu_map_guarded(loader->mapped, CPU_GUARD)
                                   : cpu_map_device(loader->engine, loader->at, loader->mapped);
    if (loader->base == NULL)
        return refuse(loader, loader->at != 0 ? "does not fit at the address that it had" : "does not fit into memory",
                      "");
    copy_segments(loader, segments, header->e_phnum);
    const Elf64_Dyn *dynamic = find_dynamic(loader, segments, header->e_phnum);
    if (dynamic == NULL)
        return refuse(loader, "has no dynamic section", "");
    if (relocate(loader, dynamic) != 0)
        return -1;
    *image = find_table(loader);
    if (*image == NULL || (*image)->magic != VGC_CPU_IMAGE_MAGIC || (*image)->abi != VGC_CPU_ABI)
        return refuse(loader, "was made by another version of the compiler", "");
    return protect_segments(loader, segments, header->e_phnum);
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

static const Elf64_Phdr *segments_of(const struct cpu_elf *elf, uint32_t *count)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)elf->file;
    *count = header->e_phnum;
    return (const Elf64_Phdr *)(elf->file + header->e_phoff);
}

bool cpu_elf_writable(const struct cpu_elf *elf, uint32_t index, uint64_t *address, uint64_t *size)
{
    uint32_t count, found = 0;
    const Elf64_Phdr *segments = segments_of(elf, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (segments[i].p_type != PT_LOAD || (segments[i].p_flags & PF_W) == 0 || found++ != index)
            continue;
        *address = (uint64_t)(uintptr_t)elf->base + segments[i].p_vaddr;
        *size = segments[i].p_memsz;
        return true;
    }
    return false;
}

/* Reads all positions from the file: contents that came from the other process are written to, but not trusted. */
int cpu_elf_settle(const struct cpu_elf *elf, char *why)
{
    struct loader loader = {.file = elf->file,
                            .file_size = elf->file_size,
                            .base = elf->base,
                            .mapped = elf->mapped,
                            .imports_only = true,
                            .why = why};
    uint32_t count;
    const Elf64_Phdr *segments = segments_of(elf, &count);
    for (uint32_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            return relocate(&loader, (const Elf64_Dyn *)(elf->file + segments[i].p_offset));
    return refuse(&loader, "has no dynamic section", "");
}
