/* PCI functions as Windows and their drivers show them to programs. */
#ifndef VGC_DEVICES_H
#define VGC_DEVICES_H

#include "win32.h"

enum { VGC_HARDWARE_ID_ROOM = 128, VGC_INTERFACE_ROOM = 512 };

struct vgc_pnp_device { /* a PCI function that Windows has found */
    DWORD instance;     /* DEVINST */
    uint32_t bus;
    uint32_t address;                       /* device << 16 | function */
    char hardware_id[VGC_HARDWARE_ID_ROOM]; /* the first: PCI\VEN_1AF4&DEV_1110&... */
    char service[64];                       /* of its driver; "": none */
};

/* Calls of Windows, as a table that tests replace. Those that fail leave the reason in GetLastError(). */
struct vgc_pnp_calls {
    /* The PCI function number `index`; false: there are no more. */
    bool (*device)(unsigned index, struct vgc_pnp_device *device);
    /* Path of a device's interface of a class, under which it is opened; false: its driver offers none. */
    bool (*interface_path)(DWORD instance, const GUID *interface_class, char path[VGC_INTERFACE_ROOM]);
    /* The range of memory number `index` of a device: a BAR. False: there are no more. */
    bool (*memory)(DWORD instance, unsigned index, uint64_t *base, uint64_t *size);
    HANDLE (*open)(const char *path); /* INVALID_HANDLE_VALUE on errors */
    /* *got: bytes of the answer. */
    bool (*control)(HANDLE device, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size, DWORD *got);
    void (*close)(HANDLE device);
};

/* ---- pnp.c: setupapi.dll and cfgmgr32.dll ---------------------------------------------------- */

extern const struct vgc_pnp_calls *vgc_pnp; /* the calls that are used */
/* Looks for a function by its address, as vgc_pnp_address() writes it. VGC_NO_DEVICE if there is no such. */
int vgc_pnp_find(const char *address, struct vgc_pnp_device *device);
bool vgc_pnp_is(const struct vgc_pnp_device *device, uint16_t vendor, uint16_t id);
/* 00-04.0: bus, device, function. It names files, in which Windows has no colons. */
void vgc_pnp_address(const struct vgc_pnp_device *device, char address[VGC_PCI_ADDRESS_LEN]);

/* Asks a driver; false as well if its answer has another size. */
bool vgc_pnp_ask(HANDLE device, DWORD code, const void *in, DWORD in_size, void *out, DWORD out_size);

/* ---- ivshmem.c: the driver of virtio-win ----------------------------------------------------- */

enum { VGC_IVSHMEM_NONCACHED = 0, VGC_IVSHMEM_CACHED = 1 }; /* IVSHMEM_CACHE_* */

/* Where the shared memory is in the guest's address space, and how large. */
int vgc_ivshmem_place(const struct vgc_pnp_device *device, const char *address, uint64_t *base, uint64_t *size);
/* Maps the shared memory. The driver allows one mapping of a device, over all processes: who wants it in this process
 * shares it, however it is cached. vgc_ivshmem_release() ends it. */
int vgc_ivshmem_map(const struct vgc_pnp_device *device, const char *address, uint8_t cache_mode, uint64_t size,
                    void **pointer);
bool vgc_ivshmem_release(void *pointer); /* false: it is no such mapping */

/* ---- netuio.c: the driver of DPDK ------------------------------------------------------------ */

/* The function's handle for its configuration space. VGC_UNSUPPORTED: it has another driver, or none. */
int vgc_netuio_open(const struct vgc_pnp_device *device, const char *address, HANDLE *handle);
bool vgc_netuio_read(HANDLE handle, uint32_t at, void *bytes, size_t size);
bool vgc_netuio_write(HANDLE handle, uint32_t at, const void *bytes, size_t size);
int vgc_netuio_place(const struct vgc_pnp_device *device, const char *address, uint32_t bar, uint64_t *base,
                     uint64_t *size);
/* Maps a BAR. The driver maps all of a function, for one process at a time; vgc_netuio_release() ends it. */
int vgc_netuio_map(const struct vgc_pnp_device *device, const char *address, uint32_t bar, uint64_t size,
                   void **pointer);
bool vgc_netuio_release(void *pointer); /* false: it is no such mapping */

#endif
