/* Windows has no NVDIMMs in devdax mode. */
#include "../dax.h"

int vgc_dax_find(struct vgc_dax *found, size_t room, size_t *count)
{
    (void)found, (void)room;
    *count = 0;
    return VGC_OK;
}

int vgc_dax_named(const char *name, struct vgc_dax *dax)
{
    (void)dax;
    return vgc_fail(VGC_NO_DEVICE, "there is no %s: Windows has no NVDIMMs in devdax mode", name);
}

bool vgc_dax_is_file(const struct vgc_dax *dax, const uint8_t *file)
{
    (void)dax, (void)file;
    return false;
}

int vgc_dax_map(const struct vgc_dax *dax, uint8_t **pointer)
{
    (void)pointer;
    return vgc_fail(VGC_NO_DEVICE, "%s cannot be mapped: Windows has no NVDIMMs in devdax mode", dax->name);
}
