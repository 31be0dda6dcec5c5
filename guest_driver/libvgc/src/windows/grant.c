/* Groups of users, to whom only Linux gives devices. */
#include "win32.h"

#include "../virtio.h"

int vgc_grant(const struct vgc_options *options, uint32_t group_id)
{
    (void)options, (void)group_id;
    return vgc_fail(VGC_UNSUPPORTED, "on Windows, the driver of a device says who may open it");
}

struct vgc_grant *vgc_virtio_granted(const struct virtio_pci *pci)
{
    (void)pci;
    return NULL;
}
