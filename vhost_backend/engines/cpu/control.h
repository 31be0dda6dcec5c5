/* The CPU engine as the GPU domain of the control system: its processing elements have rows in the control area, and
 * run the control code of kernels/control/ between blocks and when kernels call it.
 *
 *   control.c   the area, confinement, what the host asks    clock.c      time stamps
 *   hooks.c     from the engine and from kernels to the      firmware.c   slots A and B of control code, and their
 * change control code
 */
#ifndef VGC_CPU_CONTROL_H
#define VGC_CPU_CONTROL_H

#include "cpu_engine.h"

/* control.c */
int cpu_control_attach(struct vgc_engine *engine, int fd, uint8_t *host, uint64_t size, uint64_t *device);
void cpu_control_kick(struct vgc_engine *engine);
bool cpu_control_look(struct vgc_engine *engine, uint32_t pe, struct vgc_ctl_pe *state);
void cpu_control_detach(struct cpu_engine *engine);
/* Gives the PE its unit: its row of the area, or one of its own while there is no area. Lock held, or not started. */
void cpu_control_join(struct cpu_pe *pe);

/* program.c */
int cpu_control_text(struct vgc_engine *engine, uint64_t address, char *text, uint32_t size);

/* clock.c: measures the counter, for a millisecond. */
void cpu_clock_start(struct vgc_ctl_clock *clock);
/* Sets the unit's clock if that was long ago. `first`: what cpu_clock_start() found. */
void cpu_clock_anchor(struct vgc_ctl_unit *unit, const struct vgc_ctl_clock *first);
/* Lets others run, from round to round of a wait for longer. */
void cpu_relax(uint32_t round);

/* hooks.c: a PE takes part in a launch, and does not any more. */
void cpu_hook_join(struct cpu_pe *pe, const struct cpu_launch *launch);
void cpu_hook_leave(struct cpu_pe *pe);
/* The row's attention is not 0: deals with it, before a block. True: cpu_hook_block_end() is due behind it. */
bool cpu_hook_block_begin(struct cpu_pe *pe);
void cpu_hook_block_end(struct cpu_pe *pe);
/* The PE was kicked while it has no work. Lock not held. */
void cpu_hook_idle(struct cpu_pe *pe);
/* A kernel printed. */
void cpu_hook_print(struct cpu_pe *pe, const char *text, uint32_t length);
/* Tells about a fault of the PE: async-signal-safe, any thread if the process is about to end. */
void cpu_hook_fault(struct cpu_pe *pe, enum vgc_ctl_fault code, const char *text);

/* hooks.c: what kernels call, see kernels/control/include/vgc.h. They believe nothing but the calling PE. */
uint32_t __vgc_ctl_level(uint32_t function);
int __vgc_ctl_emit(uint32_t function, uint32_t type, uint32_t level, const void *payload, uint32_t length);
void __vgc_ctl_count(const char *name, int64_t delta);
void __vgc_ctl_gauge(const char *name, double value);
uint32_t __vgc_ctl_read(void *to, uint32_t size);
int __vgc_ctl_poll(void);

/* firmware.c */
extern const struct vgc_ctl_modules cpu_built_in;
void cpu_firmware_start(struct cpu_engine *engine);
void cpu_firmware_stop(struct cpu_engine *engine);
/* Changes to the slot that the PE's row asks for, if it asks. On the PE's thread, lock not held. */
void cpu_firmware_change(struct cpu_pe *pe);
/* The active slot's code died in a hook: back to code that works. */
void cpu_firmware_failed(struct cpu_pe *pe, int signal);

/* Does what calls the PE's active control code. Code that was loaded may die: the hook is then left. */
#define CPU_HOOK(pe, statement)                                                                                        \
    do {                                                                                                               \
        if ((pe)->modules == &cpu_built_in) {                                                                          \
            statement;                                                                                                 \
        } else if (((pe)->hook_signal = _setjmp((pe)->leave_hook)) == 0) {                                             \
            (pe)->in_hook = true;                                                                                      \
            statement;                                                                                                 \
            (pe)->in_hook = false;                                                                                     \
        } else {                                                                                                       \
            cpu_firmware_failed((pe), (pe)->hook_signal);                                                              \
        }                                                                                                              \
    } while (0)

#endif
