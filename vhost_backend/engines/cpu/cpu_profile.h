/* Places in the source of a kernel's code, and samples of where processing elements are.
 *
 *   lines.c    the image's table of lines: which line is an instruction of?
 *   symbols.c  the image's table of symbols: names of its functions
 *   profile.c  programs that were compiled with --profile: sampling, and what launches print in the end
 */
#ifndef VGC_CPU_PROFILE_H
#define VGC_CPU_PROFILE_H

#include "cpu_engine.h"

#include <elf.h>

enum {
    CPU_PLACE_TEXT = 160,
    CPU_SAMPLE_NS = 1000 * 1000,
    CPU_SAMPLED_PLACES = 4096, /* instructions of which a PE counts samples; a power of two */
    CPU_PROFILED_LINES = 256,  /* lines that a launch counts apart */
};

/* An instruction, and its place in the source. */
struct cpu_code {
    uint64_t address; /* from the image's begin on */
    uint64_t samples;
    const char *file; /* in the image's file; NULL: no line is known */
    uint32_t line;
};

/* Samples that a PE has taken of its launch: a table that the signal handler fills. */
struct cpu_samples {
    uint64_t first_code; /* addresses of the launch's code */
    uint64_t last_code;
    uint64_t taken;     /* all samples */
    uint64_t elsewhere; /* samples in no code of the program */
    uint64_t lost;      /* for which the table had no room */
    struct {
        uint64_t address;
        uint64_t count; /* 0: free */
    } places[CPU_SAMPLED_PLACES];
};

/* lines.c; async-signal-safe */
/* The sections of an image's file; NULL: it has none, or not all of their table. */
const Elf64_Shdr *cpu_elf_sections(const struct cpu_elf *elf, uint32_t *count);
/* The range of addresses in the image that has code; false: it has none. */
bool cpu_code_range(const struct cpu_elf *elf, uint64_t *first, uint64_t *last);
/* Sets file and line of instructions, which are sorted by address; leaves them as they are where none is known. */
void cpu_find_lines(const struct cpu_elf *elf, struct cpu_code *codes, uint32_t count);
/* " at FILE:LINE" for the code at an address of the PE's launch; "" if it is not known. May be called in a signal
 * handler. */
void cpu_describe_place(const struct cpu_pe *pe, uint64_t address, char text[CPU_PLACE_TEXT]);
/* symbols.c; as vgc_cpu_program_function() */
int cpu_elf_function(const struct cpu_elf *elf, uint32_t index, uint64_t *address, uint64_t *size,
                     char name[VGC_CPU_FUNCTION_NAME]);

#endif
