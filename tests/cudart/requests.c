/* Requests that the VM's device has done, by a handle of its own. Apart, as CUDA's headers and vgc.h share names. */
#include <stdlib.h>

#include "vgc.h"

uint64_t requests_done(void);

uint64_t requests_done(void)
{
    static struct vgc_device *watcher;
    struct vgc_device_usage usage;
    if ((watcher == NULL && vgc_open(NULL, &watcher) != VGC_OK) || vgc_device_usage(watcher, &usage) != VGC_OK)
        abort();
    return usage.requests_done;
}
