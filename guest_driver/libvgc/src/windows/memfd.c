/* Descriptors of devices, which only Linux has. */
#include <stdlib.h>

#include "win32.h"

int vgc_memfd_open(const struct vgc_memfd *memfd, struct vgc_transport **transport)
{
    (void)memfd, (void)transport;
    return vgc_fail(VGC_UNSUPPORTED, "memfd devices are descriptors of Linux; on Windows, VGC_BRIDGE describes files");
}

int vgc_memfd_open_env(uint32_t index, struct vgc_transport **transport)
{
    const char *given = vgc_variable("VGC_MEMFD");
    (void)index;
    return given == NULL || given[0] == '\0' ? VGC_NO_DEVICE : vgc_memfd_open(NULL, transport);
}
