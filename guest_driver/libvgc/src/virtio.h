/* Internals of the virtio PCI transport. From the bottom up, each calling only those before
 * it: virtio_grant.c (linux/, windows/), virtio_areas.c, virtio_start.c and virtio_wait.c, virtio_region.c,
 * virtio_function.c, virtio_pci.c, grant.c (likewise). */
#ifndef VGC_VIRTIO_H
#define VGC_VIRTIO_H

#include "internal.h"

enum { /* PCI */
       COMMAND_MEMORY = 2,
       COMMAND_MASTER = 4,
       COMMAND_INTX_DISABLE = 0x400,
       NUM_BARS = 6,
};

enum { /* device status [virtio 1.3 §2.1] */
       STATUS_ACKNOWLEDGE = 1,
       STATUS_DRIVER = 2,
       STATUS_DRIVER_OK = 4,
       STATUS_FEATURES_OK = 8,
       STATUS_NEEDS_RESET = 64,
       STATUS_FAILED = 128,
};

#if VGC_BIG_ENDIAN /* registers are little-endian; see vgc_wire.h */
#pragma scalar_storage_order little - endian
#endif

struct address_registers {
    uint32_t low;
    uint32_t high;
};

struct common_config { /* [virtio 1.3 §4.1.4.3] */
    uint32_t device_feature_select;
    uint32_t device_feature;
    uint32_t driver_feature_select;
    uint32_t driver_feature;
    uint16_t config_msix_vector;
    uint16_t num_queues;
    uint8_t device_status;
    uint8_t config_generation;
    uint16_t queue_select;
    uint16_t queue_size;
    uint16_t queue_msix_vector;
    uint16_t queue_enable;
    uint16_t queue_notify_off;
    struct address_registers queue_desc;
    struct address_registers queue_driver;
    struct address_registers queue_device;
};

#if VGC_BIG_ENDIAN
#pragma scalar_storage_order default
#endif

_Static_assert(sizeof(struct common_config) == 56, "struct virtio_pci_common_cfg");

/* Facts that a process without root rights cannot find out: the kernel shows it the first 64 bytes of a function's
 * configuration space. */
struct vgc_grant {
    uint8_t config[256];
    char region_address[VGC_PCI_ADDRESS_LEN]; /* of the ivshmem function, or the name of a devdax */
    uint64_t region_gpa;                      /* of the devdax */
    uint64_t region_offset;
};

struct virtio_pci {
    struct vgc_transport base;
    const char *state_dir;   /* the caller's, while the function is opened */
    struct vgc_grant *grant; /* what root left there for processes that cannot read it all; NULL: this one can */
    vgc_handle config;       /* PCI configuration space; its lock guards the select registers and the binding */
    void *bars[NUM_BARS];
    uint64_t bar_bytes[NUM_BARS];
    volatile struct common_config *common;
    volatile uint8_t *isr;
    volatile uint8_t *device_config;
    uint8_t *notify;
    uint32_t notify_bytes;
    uint32_t notify_multiplier;
    uint16_t notify_offsets[VGC_MAX_QUEUES];
    char uio[32];
    vgc_handle interrupts[VGC_MAX_QUEUES];
    _Atomic uint64_t nap_ns; /* for waiting without interrupts */
};

/* Barrier between stores to memory and later writes to registers: the device finds in memory what came before. A fence
 * of C orders accesses to memory, not those to registers. */
static inline void vgc_virtio_barrier(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("" ::: "memory"); /* stores to uncached registers pass no others */
#elif defined(__aarch64__)
    __asm__ volatile("dmb oshst" ::: "memory");
#elif defined(__riscv)
    __asm__ volatile("fence w,o" ::: "memory");
#else
    __sync_synchronize();
#endif
}

static inline struct virtio_pci *vgc_virtio_of(struct vgc_transport *transport)
{
    return (struct virtio_pci *)transport;
}

/* ---- virtio_grant.c of each system: what root leaves for a group of users -------------------- */

/* Reads what was left for a function; NULL: nothing. Free it. */
struct vgc_grant *vgc_virtio_granted(const struct virtio_pci *pci);
int vgc_virtio_leave_grant(const char *state_dir, const char *name, const struct vgc_grant *grant);

/* ---- virtio_areas.c: the PCI configuration space and what it points to ---------------------- */

void vgc_virtio_set_command(struct virtio_pci *pci, uint16_t set, uint16_t clear);
/* Over all processes: the select registers, binding. */
void vgc_virtio_lock(struct virtio_pci *pci);
void vgc_virtio_unlock(struct virtio_pci *pci);
/* The 256 bytes of PCI configuration space, as they are or as root has left them. */
int vgc_virtio_read_pci_config(struct virtio_pci *pci, uint8_t config[256]);
/* VGC_NO_DEVICE if the device's configuration does not begin with our magic. */
int vgc_virtio_map_areas(struct virtio_pci *pci);
void vgc_virtio_unmap_areas(struct virtio_pci *pci);

/* ---- virtio_start.c: vgc_transport_ops' is_running, check_unused and start ------------------- */

bool vgc_virtio_is_running(struct vgc_transport *transport, const struct vgc_layout *layout);
int vgc_virtio_check_unused(struct vgc_transport *transport, uint64_t deadline_ns);
int vgc_virtio_start(struct vgc_transport *transport, const struct vgc_layout *layout, uint64_t deadline_ns);

/* ---- virtio_wait.c: vgc_transport_ops while the device runs --------------------------------- */

void vgc_virtio_revive(struct vgc_transport *transport);
int vgc_virtio_attach(struct vgc_transport *transport, uint32_t queue);
void vgc_virtio_detach(struct vgc_transport *transport, uint32_t queue);
void vgc_virtio_kick(struct vgc_transport *transport, uint32_t queue);
void vgc_virtio_arm(struct vgc_transport *transport, uint32_t queue);
void vgc_virtio_wait(struct vgc_transport *transport, uint32_t queue, uint64_t timeout_ns);

/* ---- virtio_region.c: mapping a function's region -------------------------------------------- */

bool vgc_virtio_is_dax(const char *region_address); /* else it is an ivshmem function's */
int vgc_virtio_map_bar(struct virtio_pci *pci, const char *address);
/* VGC_INCOMPATIBLE unless the devdax's NVDIMM has `bytes`, as the region must. */
int vgc_virtio_map_dax(struct virtio_pci *pci, const char *name, uint64_t bytes);
/* The devdax of a region's file, "" if it was not made. `bar_address`: the region's ivshmem function, or NULL.
 * VGC_NO_DEVICE: it may be one of several. */
int vgc_virtio_find_dax(uint64_t bytes, const char *bar_address, char *name);
/* Is the BAR read several times as fast as the devdax, another mapping of its file? Reads both. */
bool vgc_virtio_prefers_bar(const char *bar_address, const char *dax_name);

/* Has it the size of a region? */
bool vgc_virtio_region_fits(const char *region_address, uint64_t bytes);
/* Does the memory of an ivshmem function or a devdax begin with zeroes, or with the header of a region? */
bool vgc_virtio_begins_as_region(const char *address);

/* ---- virtio_function.c: one PCI function ---------------------------------------------------- */

/* One of our devices, bound to UIO, its areas mapped; without its region. VGC_NO_DEVICE if it is not ours. */
int vgc_virtio_open_function(const char *address, const char *state_dir, struct virtio_pci **out);
int vgc_virtio_read_config(struct vgc_transport *transport, struct vgc_config *config);
void vgc_virtio_close(struct vgc_transport *transport);

#endif
