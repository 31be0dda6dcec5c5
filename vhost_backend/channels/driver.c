/* Driver of one VM's control area: creation, destruction. */
#include "internal.h"

#include <stdlib.h>

static bool make_memory(struct vgc_control *control)
{
    const struct vgc_control_area *area = &control->area;
    uint64_t rest = area->links + area->urgent_bytes;
    return vgc_control_memory_init(&control->urgent, area->links, area->urgent_bytes) == 0 &&
           vgc_control_memory_init(&control->memory, rest, area->size - rest) == 0;
}

struct vgc_control *vgc_control_new(struct vgc_engine *engine, int fd, uint64_t size, uint32_t num_pes,
                                    uint32_t num_channels, char *why)
{
    struct vgc_control *control = calloc(1, sizeof(*control));
    if (control == NULL) {
        vgc_control_say(why, "no memory for the control system");
        return NULL;
    }
    struct vgc_control_area *area = &control->area;
    if (vgc_control_area_map(area, fd, size, num_pes, num_channels, true, why) != 0 ||
        vgc_control_area_attach(area, engine, fd, why) != 0) {
        vgc_control_free(control);
        return NULL;
    }
    control->channels = calloc(num_channels + 1, sizeof(*control->channels));
    control->elements = calloc(num_pes, sizeof(*control->elements));
    control->open = calloc(num_channels + 1, sizeof(*control->open));
    control->costs = calloc(num_pes, sizeof(*control->costs));
    if (control->channels == NULL || control->elements == NULL || control->open == NULL || control->costs == NULL ||
        !make_memory(control)) {
        vgc_control_say(why, "no memory for %u control channels", num_channels);
        vgc_control_free(control);
        return NULL;
    }
    return control;
}

void vgc_control_free(struct vgc_control *control)
{
    vgc_control_area_unmap(&control->area);
    vgc_control_memory_close(&control->memory);
    vgc_control_memory_close(&control->urgent);
    free(control->channels);
    free(control->elements);
    free(control->open);
    free(control->costs);
    free(control->quarantine);
    free(control->ahead);
    free(control);
}

uint32_t vgc_control_num_open(const struct vgc_control *control)
{
    return control->num_open;
}

uint64_t vgc_control_device(const struct vgc_control *control)
{
    return control->area.device;
}

void vgc_control_usage(const struct vgc_control *control, struct vgc_control_usage *usage)
{
    uint64_t units = (uint64_t)control->memory.num_units + control->urgent.num_units;
    *usage = (struct vgc_control_usage){.link_bytes = units * VGC_CONTROL_UNIT,
                                        .used_bytes = control->memory.used + control->urgent.used,
                                        .quarantined_bytes = control->quarantined_bytes,
                                        .channels = control->num_open,
                                        .quarantined = control->num_quarantined};
}

void vgc_control_ask_device(const struct vgc_control *control, struct vgc_control_device *device)
{
    const struct vgc_engine *engine = control->area.engine;
    *device = (struct vgc_control_device){0};
    if (engine == NULL)
        return;
    device->clock_error_ns = atomic_load_explicit(&engine->control_clock_error_ns, memory_order_relaxed);
    device->clock_read_ns = atomic_load_explicit(&engine->control_clock_read_ns, memory_order_relaxed);
    device->num_pes = atomic_load_explicit(&engine->control_sm_ids, memory_order_relaxed);
}
