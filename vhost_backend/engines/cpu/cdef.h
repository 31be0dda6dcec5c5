/* The CPU engine's C interface to Python. */
#ifndef VGC_CPU_CDEF_H
#define VGC_CPU_CDEF_H

#include "vgc_engine.h"

struct vgc_cpu_program;

enum { VGC_CPU_WHY = 256 };

/* The processor's name, NUL-terminated, in VGC_CPU_BRAND bytes; asks the processor, for a worker has no /proc. */
enum { VGC_CPU_BRAND = 49 };
void vgc_cpu_brand(char *brand);

/* An engine of `num_pes` processing elements (threads of this process, in which guest code will run). NULL on
 * failure, with the reason in `why` (VGC_CPU_WHY bytes). */
struct vgc_engine *vgc_cpu_engine_new(uint32_t num_pes, char *why);
/* Starts the processing elements, once, before the first operation. 0, or -1 with the reason in `why`. */
int vgc_cpu_engine_start(struct vgc_engine *engine, char *why);
/* Ends the engine's threads and frees it. Nothing may be running. */
void vgc_cpu_engine_close(struct vgc_engine *engine);

/* Loads an image that vgc-cpucc made from `size` bytes of `fd`; NULL on failure, with the reason in `why`. */
struct vgc_cpu_program *vgc_cpu_program_load(struct vgc_engine *engine, int fd, uint64_t size, uint32_t context,
                                             char *why);
/* As it was loaded in another process, where vgc_cpu_program_base() was `base`: from a copy of the image. */
struct vgc_cpu_program *vgc_cpu_program_load_at(struct vgc_engine *engine, const uint8_t *image, uint64_t size,
                                                uint32_t context, uint64_t base, char *why);
/* What it was loaded from, for as long as it is. */
const uint8_t *vgc_cpu_program_image(const struct vgc_cpu_program *program, uint64_t *size);
uint64_t vgc_cpu_program_base(const struct vgc_cpu_program *program);
/* The index-th part of it that its code may write to; false if there are not so many. */
bool vgc_cpu_program_writable(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address, uint64_t *size);
/* After its writable parts have got the contents that they had in another process. 0, or -1 with the reason in `why`.
 */
int vgc_cpu_program_settle(struct vgc_cpu_program *program, char *why);
/* None of its kernels may be running. */
void vgc_cpu_program_unload(struct vgc_cpu_program *program);

uint32_t vgc_cpu_program_num_kernels(const struct vgc_cpu_program *program);
const struct vgc_kernel *vgc_cpu_program_kernel(const struct vgc_cpu_program *program, uint32_t index);
const char *vgc_cpu_program_short_name(const struct vgc_cpu_program *program, uint32_t index);
uint32_t vgc_cpu_program_num_globals(const struct vgc_cpu_program *program);
/* Address and size of a variable; its name is the result. */
const char *vgc_cpu_program_global(const struct vgc_cpu_program *program, uint32_t index, uint64_t *address,
                                   uint64_t *size);

/* Puts control code that vgc-cpucc compiled (kernels/control/firmware.cu) from `size` bytes of `fd` into a slot (0: A,
 * 1: B) that no processing element runs. Elements change to it when their row's firmware_wanted says so. `version`:
 * what they report then. 0, or -1 with the reason in `why` (VGC_CPU_WHY bytes). Any thread. */
int vgc_cpu_firmware_load(struct vgc_engine *engine, int fd, uint64_t size, uint32_t slot, uint64_t version, char *why);
/* Puts the code that the engine was built with into the slot again. */
int vgc_cpu_firmware_unload(struct vgc_engine *engine, uint32_t slot, char *why);

/* Runs one operation to its end, without a data plane: for tests and benchmarks. Returns op->status. */
uint32_t vgc_cpu_run(struct vgc_engine *engine, struct vgc_op *op);

#endif
