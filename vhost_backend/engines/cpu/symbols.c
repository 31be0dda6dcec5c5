/* Names of a program's functions, by the symbols in its image's file (.symtab), which the compiler leaves there for the
 * operator's tools. An image may come from another host's worker: nothing in it is trusted. */
#include "cpu_profile.h"

#include <string.h>

static bool is_in_file(const struct cpu_elf *elf, const Elf64_Shdr *section)
{
    return section->sh_offset <= elf->file_size && section->sh_size <= elf->file_size - section->sh_offset;
}

/* The table of symbols with the section of their names; false: the image has none. */
static bool find_symbols(const struct cpu_elf *elf, const Elf64_Shdr **symbols, const Elf64_Shdr **names)
{
    uint32_t count;
    const Elf64_Shdr *sections = cpu_elf_sections(elf, &count);
    for (uint32_t i = 0; sections != NULL && i < count; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= count)
            continue;
        *symbols = &sections[i];
        *names = &sections[sections[i].sh_link];
        return sections[i].sh_offset % 8 == 0 && is_in_file(elf, *symbols) && is_in_file(elf, *names);
    }
    return false;
}

int cpu_elf_function(const struct cpu_elf *elf, uint32_t index, uint64_t *address, uint64_t *size,
                     char name[VGC_CPU_FUNCTION_NAME])
{
    const Elf64_Shdr *symbols, *names;
    char text[VGC_CPU_FUNCTION_NAME];
    if (!find_symbols(elf, &symbols, &names) || index >= symbols->sh_size / sizeof(Elf64_Sym))
        return -1;
    const Elf64_Sym *symbol = (const Elf64_Sym *)(elf->file + symbols->sh_offset) + index;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF || symbol->st_size == 0 ||
        symbol->st_value >= elf->mapped || symbol->st_size > elf->mapped - symbol->st_value ||
        symbol->st_name >= names->sh_size)
        return 0;
    size_t room =
        names->sh_size - symbol->st_name < sizeof(text) - 1 ? names->sh_size - symbol->st_name : sizeof(text) - 1;
    memcpy(text, elf->file + names->sh_offset + symbol->st_name, room);
    text[room] = '\0';
    cpu_copy_name(name, VGC_CPU_FUNCTION_NAME, text);
    *address = (uint64_t)(uintptr_t)elf->base + symbol->st_value;
    *size = symbol->st_size;
    return name[0] != '\0';
}
