/* The CPU engine's C interface to Python. */
#ifndef VGC_CPU_CDEF_H
#define VGC_CPU_CDEF_H

#include "vgc_engine.h"

struct vgc_cpu_program;

enum { VGC_CPU_WHY = 256 };

/* Writes the processor's name, NUL-terminated, to VGC_CPU_BRAND bytes. By cpuid, as a worker has no /proc. */
enum { VGC_CPU_BRAND = 49 };
void vgc_cpu_brand(char *brand);

/* Level of x86-64 that the processor has: 1 to 4. */
uint32_t vgc_cpu_level(void);

/* Makes an engine of `num_pes` processing elements (threads of this process, in which guest code will run). With
 * `guard_pages`, kernels that reach beyond an allocation fault. NULL on failure, with the reason in `why` (VGC_CPU_WHY
 * bytes). */
struct vgc_engine *vgc_cpu_engine_new(uint32_t num_pes, bool guard_pages, char *why);
/* Loads the built-in functions from our `library` and, unless that is "", OpenBLAS, once, before the process closes
 * itself in and before a data plane is made of the engine. 0, or -1 with the reason in `why` (VGC_CPU_WHY bytes): then
 * some or all of them are missing. */
int vgc_cpu_builtins_load(struct vgc_engine *engine, const char *library, const char *openblas, char *why);
/* Starts the processing elements, once, before the first operation. 0, or -1 with the reason in `why`. */
int vgc_cpu_engine_start(struct vgc_engine *engine, char *why);
/* Ends the engine's threads and frees the engine. No operation may be running. */
void vgc_cpu_engine_close(struct vgc_engine *engine);

/* Bytes of memory that an image of `size` bytes in `fd` takes once it is loaded: all its segments, zeroes included, and
 * the image itself, which stays mapped. Reads its headers alone. 0: it is broken, with the reason in `why`. */
uint64_t vgc_cpu_image_bytes(int fd, uint64_t size, char *why);
/* Bytes that an image in memory, 8-byte aligned, takes once it is loaded; 0: it is broken. */
uint64_t vgc_cpu_image_bytes_of(const uint8_t *image, uint64_t size, char *why);
/* Loads an image that vgc-cpucc made from `size` bytes of `fd`; NULL on failure, with the reason in `why`. */
struct vgc_cpu_program *vgc_cpu_program_load(struct vgc_engine *engine, int fd, uint64_t size, uint32_t context,
                                             char *why);
/* Loads a copy of an image at `base`, the vgc_cpu_program_base() that it had in another process. */
struct vgc_cpu_program *vgc_cpu_program_load_at(struct vgc_engine *engine, const uint8_t *image, uint64_t size,
                                                uint32_t context, uint64_t base, char *why);
/* Image of a program, valid while that is loaded. */
const uint8_t *vgc_cpu_program_image(const struct vgc_cpu_program *program, uint64_t *size);
/* Bytes of memory that a program takes: as its image says, and what threads keep across waits, on every element. */
uint64_t vgc_cpu_program_bytes(const struct vgc_cpu_program *program);
uint64_t vgc_cpu_program_base(const struct vgc_cpu_program *program);
/* Finds the index-th part of a program that its code may write to; false if there are fewer. */
bool vgc_cpu_program_writable(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address, uint64_t *size);
/* Completes a migrated program whose writable parts have the contents that they had in another process. 0, or -1 with
 * the reason in `why`. */
int vgc_cpu_program_settle(struct vgc_cpu_program *program, char *why);
/* Unloads a program; none of its kernels may be running. */
void vgc_cpu_program_unload(struct vgc_cpu_program *program);

uint32_t vgc_cpu_program_num_kernels(const struct vgc_cpu_program *program);
const struct vgc_kernel *vgc_cpu_program_kernel(const struct vgc_cpu_program *program, uint32_t index);
const char *vgc_cpu_program_short_name(const struct vgc_cpu_program *program, uint32_t index);
uint32_t vgc_cpu_program_num_globals(const struct vgc_cpu_program *program);
/* Bytes of its variables in constant memory. */
uint32_t vgc_cpu_program_constant_bytes(const struct vgc_cpu_program *program);
/* Finds address and size of a variable; returns its name. */
const char *vgc_cpu_program_global(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address,
                                   uint64_t *size);

/* Finds address, size and printable name of the index-th symbol, if it is a function: 1. 0: it is something else. -1:
 * there are no more. Only images that were compiled with --symbols have any. */
enum { VGC_CPU_FUNCTION_NAME = 101 };
int vgc_cpu_program_function(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address, uint64_t *size,
                             char *name);

/* Loads control code that vgc-cpucc compiled (kernels/control/firmware.cu) from `size` bytes of `fd` into a slot (0: A,
 * 1: B) that no processing element runs. Elements change to the slot that firmware_wanted of their row names, and then
 * report `version`. 0, or -1 with the reason in `why` (VGC_CPU_WHY bytes). Callable from any thread. */
int vgc_cpu_firmware_load(struct vgc_engine *engine, int fd, uint64_t size, uint32_t slot, uint64_t version, char *why);
/* Puts the built-in control code into the slot again. */
int vgc_cpu_firmware_unload(struct vgc_engine *engine, uint32_t slot, char *why);

/* Runs one operation to its end, without a data plane: for tests and benchmarks. Returns op->status. */
uint32_t vgc_cpu_run(struct vgc_engine *engine, struct vgc_op *op);

#endif
