/* The control system in the CPU engine: its processing elements have rows in the control area, and run the control code
 * of kernels/control/ between blocks and when kernels call it.
 *
 *   control.c   the control area, confinement, snapshots
 *   hooks.c     calls of control code by engine and kernels
 *   clock.c     time stamps
 *   firmware.c  slots A and B of control code, changing slots
 */
#ifndef VGC_CPU_CONTROL_H
#define VGC_CPU_CONTROL_H

#include "cpu_engine.h"

/* control.c */
int cpu_control_attach(struct vgc_engine *engine, int fd, uint8_t *host, uint64_t size, uint64_t *device);
void cpu_control_kick(struct vgc_engine *engine);
int cpu_offer_pes(struct vgc_engine *engine, uint32_t count);
bool cpu_control_look(struct vgc_engine *engine, uint32_t pe, struct vgc_ctl_pe *state);
void cpu_control_detach(struct cpu_engine *engine);
/* Sets the PE's unit: its row of the area, or a private row without an area. Lock held, or PE not started. */
void cpu_control_join(struct cpu_pe *pe);

/* program.c */
int cpu_control_text(struct vgc_engine *engine, uint64_t address, char *text, uint32_t size);

/* clock.c: measures the processor's counter for a millisecond. */
void cpu_clock_start(struct vgc_ctl_clock *clock);
/* Renews the unit's anchor, the pair of ticks and ns that its clock counts from, if it is old. `first`: result of
 * cpu_clock_start(). */
void cpu_clock_anchor(struct vgc_ctl_unit *unit, const struct vgc_ctl_clock *first);
/* Yields the CPU in a wait; sleeps in later rounds. */
void cpu_relax(uint32_t round);

/* hooks.c: a PE joins a launch, and leaves it. */
void cpu_hook_join(struct cpu_pe *pe, const struct cpu_launch *launch);
void cpu_hook_leave(struct cpu_pe *pe);
/* Handles attention bits of the row before a block. True: cpu_hook_block_end() must follow the block. */
bool cpu_hook_block_begin(struct cpu_pe *pe);
void cpu_hook_block_end(struct cpu_pe *pe);
/* Handles a kick of a PE without work. Lock not held. */
void cpu_hook_idle(struct cpu_pe *pe);
/* Sends text that a kernel printed to the PE's stdio channel. */
void cpu_hook_print(struct cpu_pe *pe, const char *text, uint32_t length);
/* Reports a fault of the PE. Async-signal-safe; any thread if the process is about to end. */
void cpu_hook_fault(struct cpu_pe *pe, enum vgc_ctl_fault code, const char *text);

/* hooks.c: functions that kernels call, see kernels/control/include/vgc.h. Their arguments are not trusted. */
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
/* Changes to the slot that firmware_wanted of the PE's row names, if any. On the PE's thread, lock not held. */
void cpu_firmware_change(struct cpu_pe *pe);
/* Changes to the other slot, after the active slot's code faulted in a hook. */
void cpu_firmware_failed(struct cpu_pe *pe, int signal);

/* Runs a statement that calls the PE's active control code. If loaded code faults, the hook is left. */
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
