/* The driver of one VM's control area as a whole. */
#include "driver.h"

#include <stdlib.h>

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
        vgc_control_memory_init(&control->memory, area->links, size - area->links) != 0) {
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
    *usage = (struct vgc_control_usage){.link_bytes = (uint64_t)control->memory.num_units * VGC_CONTROL_UNIT,
                                        .used_bytes = control->memory.used,
                                        .quarantined_bytes = control->quarantined_bytes,
                                        .channels = control->num_open,
                                        .quarantined = control->num_quarantined};
}
