/* NVIDIA's containers of compiled GPU code, in programs that nvcc built: sent as they are, to hosts with a GPU of
 * NVIDIA's that take them. */
#include <stdio.h>
#include <string.h>

#include "fatbins.h"
#include "runtime.h"

enum { ENTRY_PTX = 1, ENTRY_CUBIN = 2 };

struct fatbin {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t content_bytes;
};

struct entry {
    uint16_t kind;
    uint16_t flags;
    uint32_t header_bytes;
    uint64_t content_bytes;
    uint32_t unused[3];
    uint32_t architecture; /* 80: sm_80, or PTX for compute_80 */
};

bool rt_is_fatbin(const void *data)
{
    return ((const struct fatbin *)data)->magic == RT_FATBIN_MAGIC;
}

int rt_fatbin_load(struct vgc_device *device, const void *data, struct vgc_program **program)
{
    const struct fatbin *fatbin = data;
    return vgc_program_load(device, VGC_SOURCE_FATBIN, fatbin, fatbin->header_bytes + fatbin->content_bytes, NULL, 0,
                            program);
}

/* "sm_80, PTX of compute_90". */
static void list_entries(const struct fatbin *fatbin, char *text, size_t room)
{
    const char *at = (const char *)fatbin + fatbin->header_bytes;
    const char *end = at + fatbin->content_bytes;
    size_t len = 0;
    *text = '\0';
    while ((size_t)(end - at) >= sizeof(struct entry) && len < room) {
        struct entry entry;
        memcpy(&entry, at, sizeof(entry));
        uint64_t size = entry.header_bytes + entry.content_bytes;
        if (entry.header_bytes < sizeof(entry) || size > (uint64_t)(end - at))
            return;
        const char *what = entry.kind == ENTRY_PTX ? "PTX of compute_" : entry.kind == ENTRY_CUBIN ? "sm_" : "kind ";
        uint32_t number = entry.kind == ENTRY_PTX || entry.kind == ENTRY_CUBIN ? entry.architecture : entry.kind;
        int written = snprintf(text + len, room - len, "%s%s%u", len > 0 ? ", " : "", what, number);
        len += written > 0 ? (size_t)written : 0;
        at += size;
    }
}

#define REFUSED                                                                                                        \
    "this program brings GPU code of NVIDIA's compiler (%s) and no source: a GPU of the host runs it, in a VM with "   \
    "the "                                                                                                             \
    "option 'binaries: true'; elsewhere, build it with mynvcc"

cudaError_t rt_fatbin_refused(const void *data)
{
    char entries[256];
    char why[2048];
    list_entries(data, entries, sizeof(entries));
    (void)snprintf(why, sizeof(why), "%s", vgc_last_error());
    const char *brought = entries[0] != '\0' ? entries : "empty";
    (void)rt_explain(cudaErrorNoKernelImageForDevice, REFUSED "; %s", brought, why);
    (void)fprintf(stderr, "virtio-gpu-compute: " REFUSED "\n%s\n", brought, why);
    return cudaErrorNoKernelImageForDevice;
}
