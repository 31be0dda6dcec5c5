/* Structures of ELF files that libvgc reads [System V ABI, chapter 4], for systems without this header. */
#ifndef VGC_ELF_H
#define VGC_ELF_H

#include <stdint.h>

#define ELFMAG "\177ELF"
#define SELFMAG 4
#define SHF_ALLOC 2

typedef struct {
    unsigned char e_ident[16];
    uint16_t e_type;
    uint16_t e_machine;
    uint32_t e_version;
    uint64_t e_entry;
    uint64_t e_phoff;
    uint64_t e_shoff;
    uint32_t e_flags;
    uint16_t e_ehsize;
    uint16_t e_phentsize;
    uint16_t e_phnum;
    uint16_t e_shentsize;
    uint16_t e_shnum;
    uint16_t e_shstrndx;
} Elf64_Ehdr;

typedef struct {
    uint32_t sh_name;
    uint32_t sh_type;
    uint64_t sh_flags;
    uint64_t sh_addr;
    uint64_t sh_offset;
    uint64_t sh_size;
    uint32_t sh_link;
    uint32_t sh_info;
    uint64_t sh_addralign;
    uint64_t sh_entsize;
} Elf64_Shdr;

_Static_assert(sizeof(Elf64_Ehdr) == 64 && sizeof(Elf64_Shdr) == 64, "sizes of the System V ABI");

#endif
