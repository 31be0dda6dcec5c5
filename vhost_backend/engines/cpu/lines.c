/* The line of the source that an instruction belongs to, by the DWARF of version 4 in the image's file (.debug_line).
 *
 * The compiler wrote it, but an image may come from another host's worker, and faults are reported with it: nothing in
 * it is trusted, nothing is allocated. */
#include "cpu_profile.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { DWARF_VERSION = 4 };

/* Standard and extended opcodes [DWARF 4 6.2.5]. */
enum {
    LNS_EXTENDED = 0,
    LNS_COPY = 1,
    LNS_ADVANCE_PC = 2,
    LNS_ADVANCE_LINE = 3,
    LNS_SET_FILE = 4,
    LNS_CONST_ADD_PC = 8,
    LNS_FIXED_ADVANCE_PC = 9,
    LNE_END_SEQUENCE = 1,
    LNE_SET_ADDRESS = 2,
};

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_broken; /* something lay behind the end */
};

/* The table of one unit. */
struct unit {
    struct reader files;   /* the names of files */
    struct reader program; /* rows */
    const uint8_t *lengths;
    uint32_t least_step;
    int32_t line_base;
    uint32_t line_range;
    uint32_t opcode_base;
};

/* A row: the place of the instructions from its address to the next row's. */
struct row {
    uint64_t address;
    uint64_t file;
    uint32_t line;
};

static uint64_t take(struct reader *reader, size_t bytes)
{
    uint64_t value = 0;
    if ((size_t)(reader->end - reader->at) < bytes) {
        reader->is_broken = true;
        reader->at = reader->end;
        return 0;
    }
    memcpy(&value, reader->at, bytes);
    reader->at += bytes;
    return value;
}

static uint64_t take_leb(struct reader *reader, bool is_signed)
{
    uint64_t value = 0, byte = 0x80;
    unsigned shift = 0;
    while ((byte & 0x80) != 0 && !reader->is_broken) {
        byte = take(reader, 1);
        value |= shift < 64 ? (byte & 0x7f) << shift : 0;
        shift += 7;
    }
    if (is_signed && (byte & 0x40) != 0 && shift < 64)
        value |= ~UINT64_C(0) << shift;
    return value;
}

/* A text that ends with a zero. */
static const char *take_text(struct reader *reader)
{
    const uint8_t *text = reader->at;
    const uint8_t *zero = text == reader->end ? NULL : memchr(text, 0, (size_t)(reader->end - text));
    reader->is_broken |= zero == NULL;
    reader->at = zero == NULL ? reader->end : zero + 1;
    return zero == NULL ? "" : (const char *)text;
}

/* The part of the file that a reader is of; false: it is not all there. */
static bool part_of(const struct cpu_elf *elf, uint64_t offset, uint64_t size, struct reader *part)
{
    if (offset > elf->file_size || size > elf->file_size - offset)
        return false;
    *part = (struct reader){.at = elf->file + offset, .end = elf->file + offset + size};
    return true;
}

const Elf64_Shdr *cpu_elf_sections(const struct cpu_elf *elf, uint32_t *count)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)elf->file;
    struct reader table;
    if (header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff % 8 != 0 ||
        header->e_shstrndx >= header->e_shnum ||
        !part_of(elf, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), &table))
        return NULL;
    *count = header->e_shnum;
    return (const Elf64_Shdr *)table.at;
}

static bool find_section(const struct cpu_elf *elf, const char *name, struct reader *section)
{
    uint32_t count;
    struct reader names;
    const Elf64_Shdr *sections = cpu_elf_sections(elf, &count);
    if (sections == NULL)
        return false;
    const Elf64_Shdr *texts = &sections[((const Elf64_Ehdr *)elf->file)->e_shstrndx];
    if (texts->sh_type != SHT_STRTAB || !part_of(elf, texts->sh_offset, texts->sh_size, &names))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct reader text = names;
        if (sections[i].sh_name >= texts->sh_size)
            continue;
        text.at += sections[i].sh_name;
        if (sections[i].sh_type == SHT_PROGBITS && (sections[i].sh_flags & SHF_COMPRESSED) == 0 &&
            strcmp(take_text(&text), name) == 0)
            return part_of(elf, sections[i].sh_offset, sections[i].sh_size, section);
    }
    return false;
}

/* Reads a unit's header; the tables' reader then stands behind the unit. False: it cannot be read, and none behind. */
static bool open_unit(struct reader *tables, struct unit *unit)
{
    uint64_t length = take(tables, 4);
    if (tables->is_broken || length > (uint64_t)(tables->end - tables->at))
        return false;
    struct reader body = {.at = tables->at, .end = tables->at + length};
    tables->at = body.end;
    bool is_known = take(&body, 2) == DWARF_VERSION;
    uint64_t header = take(&body, 4);
    if (!is_known || header > (uint64_t)(body.end - body.at))
        return false;
    unit->program = (struct reader){.at = body.at + header, .end = body.end};
    body.end = unit->program.at;
    unit->least_step = (uint32_t)take(&body, 1);
    (void)take(&body, 2); /* operations of an instruction: one; whether rows begin statements */
    unit->line_base = (int8_t)take(&body, 1);
    unit->line_range = (uint32_t)take(&body, 1);
    unit->opcode_base = (uint32_t)take(&body, 1);
    unit->lengths = body.at;
    for (uint32_t i = 1; i < unit->opcode_base; i++)
        (void)take(&body, 1);
    while (!body.is_broken && take_text(&body)[0] != '\0') /* folders */
        ;
    unit->files = body;
    return !body.is_broken && unit->line_range != 0 && unit->opcode_base != 0;
}

/* Name of the unit's file of this number; NULL: the unit has no such file. */
static const char *file_name(const struct unit *unit, uint64_t number)
{
    struct reader files = unit->files;
    const char *name = take_text(&files);
    for (uint64_t i = 1; name[0] != '\0' && !files.is_broken; i++) {
        if (i == number)
            return name;
        for (int field = 0; field < 3; field++)
            (void)take_leb(&files, false);
        name = take_text(&files);
    }
    return NULL;
}

/* Notes the row's place for the instructions before `end`. */
static void cover(const struct unit *unit, const struct row *row, uint64_t end, struct cpu_code *codes, uint32_t count)
{
    uint32_t first = 0, last = count;
    while (first < last) {
        uint32_t middle = first + (last - first) / 2;
        if (codes[middle].address < row->address)
            first = middle + 1;
        else
            last = middle;
    }
    if (row->line == 0 || first == count || codes[first].address >= end)
        return;
    const char *name = file_name(unit, row->file);
    for (; first < count && codes[first].address < end; first++) {
        codes[first].file = name;
        codes[first].line = row->line;
    }
}

/* State of a unit's line-number program. Instructions without a line count as those before them. */
struct machine {
    struct row now;
    struct row before; /* whose instructions go up to `now` */
    bool has_before;
};

static void add_row(const struct unit *unit, struct machine *machine, struct cpu_code *codes, uint32_t count)
{
    if (machine->has_before)
        cover(unit, &machine->before, machine->now.address, codes, count);
    uint64_t address = machine->now.address;
    if (machine->now.line != 0 || !machine->has_before)
        machine->before = machine->now;
    machine->before.address = address;
    machine->has_before = true;
}

static void run_extended(struct unit *unit, struct machine *machine, struct cpu_code *codes, uint32_t count)
{
    struct reader *program = &unit->program;
    uint64_t length = take_leb(program, false);
    if (length == 0 || length > (uint64_t)(program->end - program->at)) {
        program->at = program->end;
        return;
    }
    struct reader operands = {.at = program->at, .end = program->at + length};
    program->at = operands.end;
    uint64_t opcode = take(&operands, 1);
    if (opcode == LNE_END_SEQUENCE) {
        add_row(unit, machine, codes, count);
        *machine = (struct machine){.now = {.file = 1, .line = 1}};
    } else if (opcode == LNE_SET_ADDRESS) {
        machine->now.address = take(&operands, sizeof(uint64_t));
    }
}

static void run_standard(struct unit *unit, uint32_t opcode, struct machine *machine)
{
    struct reader *program = &unit->program;
    switch (opcode) {
    case LNS_ADVANCE_PC:
        machine->now.address += take_leb(program, false) * unit->least_step;
        break;
    case LNS_ADVANCE_LINE:
        machine->now.line += (uint32_t)take_leb(program, true);
        break;
    case LNS_SET_FILE:
        machine->now.file = take_leb(program, false);
        break;
    case LNS_CONST_ADD_PC:
        machine->now.address += (uint64_t)((255 - unit->opcode_base) / unit->line_range) * unit->least_step;
        break;
    case LNS_FIXED_ADVANCE_PC:
        machine->now.address += take(program, 2);
        break;
    default:
        for (uint32_t i = 0; i < unit->lengths[opcode - 1]; i++)
            (void)take_leb(program, false);
    }
}

static void run_unit(struct unit *unit, struct cpu_code *codes, uint32_t count)
{
    struct machine machine = {.now = {.file = 1, .line = 1}};
    while (unit->program.at < unit->program.end) {
        uint32_t opcode = (uint32_t)take(&unit->program, 1);
        if (opcode >= unit->opcode_base) {
            uint32_t step = opcode - unit->opcode_base;
            machine.now.address += (uint64_t)(step / unit->line_range) * unit->least_step;
            machine.now.line += (uint32_t)(unit->line_base + (int32_t)(step % unit->line_range));
            add_row(unit, &machine, codes, count);
        } else if (opcode == LNS_EXTENDED) {
            run_extended(unit, &machine, codes, count);
        } else if (opcode == LNS_COPY) {
            add_row(unit, &machine, codes, count);
        } else {
            run_standard(unit, opcode, &machine);
        }
    }
}

void cpu_find_lines(const struct cpu_elf *elf, struct cpu_code *codes, uint32_t count)
{
    struct reader tables;
    struct unit unit;
    if (!find_section(elf, ".debug_line", &tables))
        return;
    while (tables.at < tables.end && open_unit(&tables, &unit))
        run_unit(&unit, codes, count);
}

bool cpu_code_range(const struct cpu_elf *elf, uint64_t *first, uint64_t *last)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)elf->file;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(elf->file + header->e_phoff);
    for (uint32_t i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_X) != 0) {
            *first = (uint64_t)(uintptr_t)elf->base + segments[i].p_vaddr;
            *last = *first + segments[i].p_memsz;
            return true;
        }
    return false;
}

void cpu_describe_place(const struct cpu_pe *pe, uint64_t address, char text[CPU_PLACE_TEXT])
{
    char name[CPU_PLACE_TEXT - 24];
    struct cpu_elf elf;
    text[0] = '\0';
    if (!cpu_find_image(pe->engine, address, true, &elf))
        return;
    struct cpu_code code = {.address = address - (uint64_t)(uintptr_t)elf.base};
    cpu_find_lines(&elf, &code, 1);
    if (code.file == NULL)
        return;
    cpu_copy_name(name, sizeof(name), code.file);
    snprintf(text, CPU_PLACE_TEXT, " at %s:%u", name, code.line);
}
