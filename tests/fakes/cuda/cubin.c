/* Reads cubins, the ELF images that ptxas makes. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum {
    MACHINE_CUDA = 190,
    ENTRY = 0x10, /* in st_other: the symbol is a kernel */
    ATTR_MAX_THREADS = 0x05,
    ATTR_FRAME_SIZE = 0x11,
    ATTR_MIN_STACK_SIZE = 0x12,
    ATTR_KPARAM_INFO = 0x17,
    ATTR_CBANK_PARAM_SIZE = 0x19,
    ATTR_REGCOUNT = 0x2f,
    FORMAT_SIZED = 4,
    SYSTEM_SHARED = 1024, /* since sm_90, part of a kernel's section of shared memory */
};

/* ptxas aligns its tables to four bytes. */
typedef Elf64_Shdr section_header __attribute__((aligned(4)));
typedef Elf64_Sym symbol_entry __attribute__((aligned(4)));

struct image {
    const char *bytes;
    const Elf64_Ehdr *header;
    const section_header *sections;
    const char *names;
    const symbol_entry *symbols;
    size_t num_symbols;
    const char *strings;
};

static const section_header *section(const struct image *image, const char *prefix, const char *name)
{
    size_t len = strlen(prefix);
    for (int i = 0; i < image->header->e_shnum; i++) {
        const char *found = image->names + image->sections[i].sh_name;
        if (strncmp(found, prefix, len) == 0 && strcmp(found + len, name) == 0)
            return &image->sections[i];
    }
    return NULL;
}

static uint32_t word_at(const char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static void add_param(struct fake_function *function, const char *payload)
{
    uint32_t ordinal = word_at(payload + 4) & 0xffff, offset = word_at(payload + 4) >> 16;
    if (ordinal >= function->num_params) {
        function->params = realloc(function->params, (ordinal + 1) * sizeof *function->params);
        if (!function->params)
            abort();
        memset(function->params + function->num_params, 0,
               (ordinal + 1 - function->num_params) * sizeof(struct fake_param));
        function->num_params = ordinal + 1;
    }
    function->params[ordinal] = (struct fake_param){offset, word_at(payload + 8) >> 18};
}

/* Reads an attribute; `symbol`: the function's index. */
static void take(struct fake_function *function, unsigned int attribute, const char *payload, unsigned int size,
                 uint32_t symbol, unsigned int value)
{
    if (attribute == ATTR_CBANK_PARAM_SIZE)
        function->param_bytes = value;
    else if (attribute == ATTR_KPARAM_INFO && size >= 12)
        add_param(function, payload);
    else if (attribute == ATTR_MAX_THREADS && size >= 12)
        function->max_threads = (int)(word_at(payload) * word_at(payload + 4) * word_at(payload + 8));
    else if (size < 8 || word_at(payload) != symbol)
        return;
    else if (attribute == ATTR_FRAME_SIZE || attribute == ATTR_MIN_STACK_SIZE)
        function->local_bytes =
            (int)word_at(payload + 4) > function->local_bytes ? (int)word_at(payload + 4) : function->local_bytes;
    else if (attribute == ATTR_REGCOUNT)
        function->num_regs = (int)word_at(payload + 4);
}

static void read_info(const struct image *image, const section_header *info, struct fake_function *function,
                      uint32_t symbol)
{
    const char *at = image->bytes + info->sh_offset, *end = at + info->sh_size;
    while (end - at >= 4) {
        unsigned int format = (unsigned char)at[0], attribute = (unsigned char)at[1];
        unsigned int value = word_at(at) >> 16, size = format == FORMAT_SIZED ? value : 0;
        if (size > (size_t)(end - at) - 4)
            break;
        take(function, attribute, at + 4, size, symbol, value);
        at += 4 + size;
    }
}

static void add_function(const struct image *image, struct fake_module *module, const symbol_entry *symbol)
{
    const char *name = image->strings + symbol->st_name;
    struct fake_function *function = &module->functions[module->num_functions++];
    *function = (struct fake_function){.module = module, .name = strdup(name), .max_threads = 1024, .num_regs = 32};
    const section_header *own = section(image, ".nv.info.", name), *common = section(image, ".nv.info", "");
    const section_header *shared = section(image, ".nv.shared.", name);
    uint32_t index = (uint32_t)(symbol - image->symbols);
    if (common)
        read_info(image, common, function, index);
    if (own)
        read_info(image, own, function, index);
    function->params_known = own != NULL;
    function->shared_bytes = shared ? (int)shared->sh_size : 0;
    if (module->arch >= 90 && function->shared_bytes >= SYSTEM_SHARED)
        function->shared_bytes -= SYSTEM_SHARED;
}

static void add_global(const struct image *image, struct fake_module *module, const symbol_entry *symbol)
{
    const section_header *in = &image->sections[symbol->st_shndx];
    const char *init = in->sh_type == SHT_NOBITS ? NULL : image->bytes + in->sh_offset + symbol->st_value;
    module->globals[module->num_globals++] =
        (struct fake_global){.name = strdup(image->strings + symbol->st_name), .size = symbol->st_size, .init = init};
}

static void read_symbols(const struct image *image, struct fake_module *module)
{
    module->functions = calloc(image->num_symbols + 1, sizeof *module->functions);
    module->globals = calloc(image->num_symbols + 1, sizeof *module->globals);
    if (!module->functions || !module->globals)
        abort();
    for (size_t i = 0; i < image->num_symbols; i++) {
        const symbol_entry *symbol = &image->symbols[i];
        bool defined = symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < image->header->e_shnum;
        if (defined && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && (symbol->st_other & ENTRY))
            add_function(image, module, symbol);
        else if (defined && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size)
            add_global(image, module, symbol);
    }
}

/* The architecture is the lowest byte of the flags; since ABI version 8 it is the second. */
static int architecture(const Elf64_Ehdr *header)
{
    return (int)(header->e_ident[EI_ABIVERSION] >= 8 ? header->e_flags >> 8 : header->e_flags) & 0xff;
}

CUresult fake_cubin_read(const void *bytes, struct fake_module *module)
{
    const Elf64_Ehdr *header = bytes;
    if (memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE_CUDA ||
        header->e_shentsize != sizeof(section_header) || header->e_shstrndx >= header->e_shnum)
        return CUDA_ERROR_INVALID_IMAGE;
    struct image image = {.bytes = bytes, .header = header};
    image.sections = (const section_header *)(const void *)(image.bytes + header->e_shoff);
    image.names = image.bytes + image.sections[header->e_shstrndx].sh_offset;
    const section_header *symbols = section(&image, ".symtab", "");
    if (!symbols || symbols->sh_link >= header->e_shnum)
        return CUDA_ERROR_INVALID_IMAGE;
    image.symbols = (const symbol_entry *)(const void *)(image.bytes + symbols->sh_offset);
    image.num_symbols = symbols->sh_size / sizeof(symbol_entry);
    image.strings = image.bytes + image.sections[symbols->sh_link].sh_offset;
    module->arch = architecture(header);
    read_symbols(&image, module);
    return CUDA_SUCCESS;
}
