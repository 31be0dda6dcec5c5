/* Bytes of device memory that a cubin takes at least: for the check before it is sent. */
#include "cubin.h"
#include "vgc_endian.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

struct cubin {
    const uint8_t *bytes;
    uint64_t size;
    Elf64_Ehdr header;
};

/* Copies the header; of its fields, those that are used here are converted: cubins are little-endian. */
static void read_header(struct cubin *cubin)
{
    Elf64_Ehdr *header = &cubin->header;
    memcpy(header, cubin->bytes, sizeof(*header));
    header->e_shoff = vgc_le64(header->e_shoff);
    header->e_shentsize = vgc_le16(header->e_shentsize);
    header->e_shnum = vgc_le16(header->e_shnum);
    header->e_shstrndx = vgc_le16(header->e_shstrndx);
}

static bool section_at(const struct cubin *cubin, uint32_t index, Elf64_Shdr *section)
{
    uint64_t at = (uint64_t)index * sizeof(*section);
    if (index >= cubin->header.e_shnum || cubin->header.e_shoff > cubin->size ||
        at + sizeof(*section) > cubin->size - cubin->header.e_shoff)
        return false;
    memcpy(section, cubin->bytes + cubin->header.e_shoff + at, sizeof(*section));
    section->sh_name = vgc_le32(section->sh_name);
    section->sh_flags = vgc_le64(section->sh_flags);
    section->sh_offset = vgc_le64(section->sh_offset);
    section->sh_size = vgc_le64(section->sh_size);
    return true;
}

/* Sections of memory per block and per thread are not loaded with the program. */
static bool is_loaded(const struct cubin *cubin, const Elf64_Shdr *section, const Elf64_Shdr *names)
{
    static const char *const per_thread[] = {".nv.shared", ".nv.local"};
    if ((section->sh_flags & SHF_ALLOC) == 0)
        return false;
    if (names->sh_offset > cubin->size || names->sh_size > cubin->size - names->sh_offset ||
        section->sh_name > names->sh_size)
        return false;
    const char *name = (const char *)cubin->bytes + names->sh_offset + section->sh_name;
    for (uint32_t i = 0; i < sizeof(per_thread) / sizeof(per_thread[0]); i++) {
        size_t len = strlen(per_thread[i]);
        if (len <= names->sh_size - section->sh_name && memcmp(name, per_thread[i], len) == 0)
            return false;
    }
    return true;
}

uint64_t vgc_cubin_bytes(const void *image, uint64_t size)
{
    struct cubin cubin = {.bytes = image, .size = size};
    Elf64_Shdr names, section;
    uint64_t bytes = 0;
    if (size < sizeof(cubin.header))
        return 0;
    read_header(&cubin);
    if (memcmp(cubin.header.e_ident, ELFMAG, SELFMAG) != 0 || cubin.header.e_shentsize != sizeof(section) ||
        !section_at(&cubin, cubin.header.e_shstrndx, &names))
        return 0;
    for (uint32_t i = 0; section_at(&cubin, i, &section); i++)
        if (is_loaded(&cubin, &section, &names) && __builtin_add_overflow(bytes, section.sh_size, &bytes))
            return UINT64_MAX;
    return bytes;
}
