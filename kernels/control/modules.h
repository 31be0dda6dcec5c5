/* Function table of a firmware image. Hooks call the control code only through the table of the element's active slot,
 * so that the code can be changed between two hooks. A change of this table or of its functions' parameters needs a new
 * VGC_CTL_ABI. */
#ifndef VGC_CONTROL_MODULES_H
#define VGC_CONTROL_MODULES_H

#include "self_test.h"

struct vgc_ctl_modules {
    uint32_t abi;   /* VGC_CTL_ABI */
    uint32_t bytes; /* size of this table */
    /* blocks, idling and poll points (control.h) */
    void (*block_begin)(const struct vgc_ctl_unit *unit);
    void (*block_end)(const struct vgc_ctl_unit *unit);
    void (*idle)(const struct vgc_ctl_unit *unit);
    void (*poll)(const struct vgc_ctl_unit *unit);
    /* calls that kernels make (functions/) */
    bool (*emit)(const struct vgc_ctl_unit *unit, const struct vgc_ctl_message *message);
    void (*text)(const struct vgc_ctl_unit *unit, const uint8_t *text, uint32_t length);
    uint32_t (*read)(const struct vgc_ctl_unit *unit, uint8_t *to, uint32_t size);
    void (*count)(const struct vgc_ctl_unit *unit, uint64_t name, int64_t delta);
    void (*gauge)(const struct vgc_ctl_unit *unit, uint64_t name, double value);
    bool (*fault)(const struct vgc_ctl_unit *unit, uint32_t type, uint32_t level, const uint8_t *payload,
                  uint32_t length);
    /* Health check of this image on this element: 0, or an enum vgc_ctl_test that names the failed check. */
    uint64_t (*self_test)(const struct vgc_ctl_unit *unit, struct vgc_ctl_scratch *scratch);
};

/* Table of the control code that is compiled here. */
#define VGC_CTL_MODULES                                                                                                \
    {VGC_CTL_ABI,         (uint32_t)sizeof(struct vgc_ctl_modules),                                                    \
     vgc_ctl_block_begin, vgc_ctl_block_end,                                                                           \
     vgc_ctl_idle,        vgc_ctl_poll,                                                                                \
     vgc_ctl_emit,        vgc_ctl_stdio_text,                                                                          \
     vgc_ctl_stdio_read,  vgc_ctl_perf_count,                                                                          \
     vgc_ctl_perf_gauge,  vgc_ctl_fault_emit,                                                                          \
     vgc_ctl_self_test}

#endif
