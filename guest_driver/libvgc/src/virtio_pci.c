/* The transport of a real guest: a virtio PCI function [virtio 1.3 §4.1] driven through UIO, and the BAR of the
 * VM's ivshmem function as the region.
 *
 * Interrupts. uio_pci_generic masks INTx at each interrupt and wakes every reader of /dev/uioN, in all processes.
 * Each queue has a descriptor of its own, because the kernel counts seen interrupts per open file. A waiter
 * unmasks (arm), looks at its ring, and only then sleeps; so a completion that comes after the look finds the line
 * unmasked and counts one interrupt up, whatever the other processes do in between.
 *
 * Closing any of these descriptors makes uio_pci_generic clear bus mastering, upon which QEMU stops the device and
 * takes back DRIVER_OK. The device keeps its rings and its place in them; revive() turns it on again. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { /* PCI */
       PCI_COMMAND = 4,
       COMMAND_MEMORY = 2,
       COMMAND_MASTER = 4,
       COMMAND_INTX_DISABLE = 0x400,
       PCI_CAPABILITIES = 0x34,
       CAPABILITY_VENDOR = 9,
       NUM_BARS = 6,
};

enum { /* virtio_pci_cap.cfg_type [virtio 1.3 §4.1.4] */
       CAP_COMMON = 1,
       CAP_NOTIFY = 2,
       CAP_ISR = 3,
       CAP_DEVICE = 4,
       CAP_PCI_CONFIG = 5,
};

enum { /* device status [virtio 1.3 §2.1] */
       STATUS_ACKNOWLEDGE = 1,
       STATUS_DRIVER = 2,
       STATUS_DRIVER_OK = 4,
       STATUS_FEATURES_OK = 8,
       STATUS_NEEDS_RESET = 64,
       STATUS_FAILED = 128,
};

enum { NO_VECTOR = 0xffff, MAX_FUNCTIONS = 32 };

#define VENDOR_REDHAT 0x1af4
#define DEVICE_IVSHMEM 0x1110
#define DEVICE_OURS (0x1040 + VGC_VIRTIO_ID)

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
    uint32_t queue_desc[2]; /* low, high */
    uint32_t queue_driver[2];
    uint32_t queue_device[2];
};

_Static_assert(sizeof(struct common_config) == 56, "struct virtio_pci_common_cfg");

struct virtio_pci {
    struct vgc_transport base;
    int config_fd;           /* PCI configuration space; its flock guards the select registers and the window */
    uint8_t window;          /* where in it the window into the BARs is; 0: nowhere */
    uint8_t device_area[16]; /* the capability that says where the device's configuration is */
    void *bars[NUM_BARS];
    uint64_t bar_bytes[NUM_BARS];
    volatile struct common_config *common;
    volatile uint8_t *isr;
    volatile uint8_t *device_config;
    uint8_t *notify;
    uint32_t notify_multiplier;
    uint16_t notify_offsets[VGC_MAX_QUEUES];
    char uio[32];
    int uio_fds[VGC_MAX_QUEUES];
    _Atomic uint64_t nap_ns; /* for waiting without interrupts */
};

static struct virtio_pci *of(struct vgc_transport *transport)
{
    return (struct virtio_pci *)transport;
}

/* ---- running -------------------------------------------------------------------------------- */

static void set_command(struct virtio_pci *pci, uint16_t set, uint16_t clear)
{
    uint16_t command;
    if (pread(pci->config_fd, &command, sizeof(command), PCI_COMMAND) != sizeof(command))
        return; /* seen as a device that does not answer */
    uint16_t wanted = (uint16_t)((command | set) & ~clear);
    if (wanted != command && pwrite(pci->config_fd, &wanted, sizeof(wanted), PCI_COMMAND) != sizeof(wanted))
        return;
}

static void pci_revive(struct vgc_transport *transport)
{
    struct virtio_pci *pci = of(transport);
    uint8_t status = pci->common->device_status;
    if ((status & (STATUS_DRIVER_OK | STATUS_NEEDS_RESET | STATUS_FAILED)) != 0 || (status & STATUS_FEATURES_OK) == 0)
        return;
    set_command(pci, COMMAND_MEMORY | COMMAND_MASTER, 0);
    pci->common->device_status = (uint8_t)(status | STATUS_DRIVER_OK);
}

static void pci_kick(struct vgc_transport *transport, uint32_t queue)
{
    struct virtio_pci *pci = of(transport);
    volatile uint16_t *at =
        (volatile uint16_t *)(pci->notify + (size_t)pci->notify_offsets[queue] * pci->notify_multiplier);
    *at = (uint16_t)queue;
}

static int pci_attach(struct vgc_transport *transport, uint32_t queue)
{
    struct virtio_pci *pci = of(transport);
    pci->uio_fds[queue] = pci->uio[0] != '\0' ? open(pci->uio, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
    if (pci->uio_fds[queue] < 0)
        transport->interrupts = false;
    return VGC_OK;
}

static void pci_detach(struct vgc_transport *transport, uint32_t queue)
{
    struct virtio_pci *pci = of(transport);
    if (pci->uio_fds[queue] >= 0)
        (void)close(pci->uio_fds[queue]);
    pci->uio_fds[queue] = -1;
    pci_revive(transport);
}

static void pci_arm(struct vgc_transport *transport, uint32_t queue)
{
    (void)queue;
    pci_revive(transport);
    set_command(of(transport), 0, COMMAND_INTX_DISABLE);
}

static void nap(struct virtio_pci *pci, uint64_t timeout_ns)
{
    uint64_t step_ns = VGC_MAX(atomic_load(&pci->nap_ns), 20000);
    (void)vgc_backoff(&step_ns, vgc_deadline(timeout_ns));
    atomic_store(&pci->nap_ns, step_ns);
}

static void pci_wait(struct vgc_transport *transport, uint32_t queue, uint64_t timeout_ns)
{
    struct virtio_pci *pci = of(transport);
    struct pollfd interrupt = {.fd = pci->uio_fds[queue], .events = POLLIN};
    struct timespec timeout = {(time_t)(timeout_ns / VGC_NS_PER_S), (long)(timeout_ns % VGC_NS_PER_S)};
    uint32_t count;
    if (!transport->interrupts || interrupt.fd < 0) {
        nap(pci, timeout_ns);
        return;
    }
    if (ppoll(&interrupt, 1, &timeout, NULL) != 1)
        return;
    if (read(interrupt.fd, &count, sizeof(count)) != sizeof(count) && errno != EAGAIN)
        transport->interrupts = false; /* the function has no interrupt line */
    (void)*pci->isr;                   /* de-asserts the line */
}

static int pci_read_config(struct vgc_transport *transport, struct vgc_config *config)
{
    struct virtio_pci *pci = of(transport);
    uint32_t words[sizeof(*config) / sizeof(uint32_t)];
    const volatile uint32_t *at = (const volatile uint32_t *)pci->device_config;
    for (int tries = 0; tries < 16; tries++) { /* [virtio 1.3 §2.5.1] */
        uint8_t before = pci->common->config_generation;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            words[i] = at[i];
        if (pci->common->config_generation == before) {
            memcpy(config, words, sizeof(*config));
            return VGC_OK;
        }
    }
    return vgc_fail(VGC_NO_ANSWER, "the configuration of %s keeps changing while it is read", transport->name);
}

static void pci_write_ack(struct vgc_transport *transport, uint32_t generation)
{
    *(volatile uint32_t *)(of(transport)->device_config + offsetof(struct vgc_config, driver_ack)) = generation;
}

/* ---- bring-up ------------------------------------------------------------------------------- */

static void select_lock(struct virtio_pci *pci)
{
    while (flock(pci->config_fd, LOCK_EX) != 0 && errno == EINTR) {
    }
}

static void select_unlock(struct virtio_pci *pci)
{
    (void)flock(pci->config_fd, LOCK_UN);
}

static void read_notify_offsets(struct virtio_pci *pci, uint32_t num_queues)
{
    for (uint32_t i = 0; i < num_queues; i++) {
        pci->common->queue_select = (uint16_t)i;
        pci->notify_offsets[i] = pci->common->queue_notify_off;
    }
}

static bool pci_is_running(struct vgc_transport *transport, const struct vgc_layout *layout)
{
    struct virtio_pci *pci = of(transport);
    volatile struct common_config *common = pci->common;
    uint8_t status = common->device_status;
    if ((status & (STATUS_NEEDS_RESET | STATUS_FAILED)) != 0 || (status & STATUS_FEATURES_OK) == 0)
        return false;
    select_lock(pci);
    common->queue_select = 0;
    uint64_t desc = common->queue_desc[0] | (uint64_t)common->queue_desc[1] << 32;
    bool ours = common->queue_enable == 1 && desc == transport->region_gpa + vgc_layout_ring_offset(layout, 0);
    common->driver_feature_select = 0;
    uint64_t features = common->driver_feature;
    common->driver_feature_select = 1;
    transport->features = features | (uint64_t)common->driver_feature << 32;
    read_notify_offsets(pci, layout->num_queues);
    select_unlock(pci);
    return ours;
}

static int negotiate(struct virtio_pci *pci)
{
    volatile struct common_config *common = pci->common;
    const uint64_t wanted = 1ull << VGC_F_RING_INDIRECT_DESC | 1ull << VGC_F_RING_EVENT_IDX | 1ull << VGC_F_VERSION_1;
    common->device_feature_select = 0;
    uint64_t offered = common->device_feature;
    common->device_feature_select = 1;
    offered |= (uint64_t)common->device_feature << 32;
    if ((offered >> VGC_F_VERSION_1 & 1) == 0)
        return vgc_fail(VGC_INCOMPATIBLE, "%s does not offer VIRTIO_F_VERSION_1", pci->base.name);
    uint64_t acked = offered & wanted;
    common->driver_feature_select = 0;
    common->driver_feature = (uint32_t)acked;
    common->driver_feature_select = 1;
    common->driver_feature = (uint32_t)(acked >> 32);
    common->device_status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
    if ((common->device_status & STATUS_FEATURES_OK) == 0)
        return vgc_fail(VGC_INCOMPATIBLE, "%s refused the features 0x%llx", pci->base.name, (unsigned long long)acked);
    pci->base.features = acked;
    return VGC_OK;
}

static void write_address(volatile uint32_t *registers, uint64_t gpa)
{
    registers[0] = (uint32_t)gpa;
    registers[1] = (uint32_t)(gpa >> 32);
}

static void setup_queues(struct virtio_pci *pci, const struct vgc_layout *layout)
{
    volatile struct common_config *common = pci->common;
    for (uint32_t i = 0; i < layout->num_queues; i++) {
        uint64_t gpa = pci->base.region_gpa + vgc_layout_ring_offset(layout, i);
        common->queue_select = (uint16_t)i;
        common->queue_size = (uint16_t)layout->ring_size;
        common->queue_msix_vector = NO_VECTOR;
        write_address(common->queue_desc, gpa);
        write_address(common->queue_driver, gpa + layout->avail_offset);
        write_address(common->queue_device, gpa + layout->used_offset);
        common->queue_enable = 1;
    }
}

static int pci_start(struct vgc_transport *transport, const struct vgc_layout *layout, uint64_t deadline_ns)
{
    struct virtio_pci *pci = of(transport);
    uint64_t step_ns = 20000;
    set_command(pci, COMMAND_MEMORY | COMMAND_MASTER, 0);
    pci->common->device_status = 0;
    while (pci->common->device_status != 0)
        if (!vgc_backoff(&step_ns, deadline_ns))
            return vgc_fail(VGC_NO_ANSWER, "%s does not come out of reset", transport->name);
    select_lock(pci);
    pci->common->device_status = STATUS_ACKNOWLEDGE;
    pci->common->device_status = STATUS_ACKNOWLEDGE | STATUS_DRIVER;
    int result = negotiate(pci);
    if (result == VGC_OK) {
        setup_queues(pci, layout);
        read_notify_offsets(pci, layout->num_queues);
    }
    select_unlock(pci);
    pci->common->device_status =
        result == VGC_OK ? STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK : STATUS_FAILED;
    return result;
}

/* ---- mapping -------------------------------------------------------------------------------- */

static int map_bar(struct virtio_pci *pci, uint8_t bar, uint64_t offset, uint64_t len, uint8_t **at)
{
    char file[16];
    uint64_t base;
    if (bar >= NUM_BARS)
        return vgc_fail(VGC_INCOMPATIBLE, "%s has a capability in BAR %u", pci->base.name, bar);
    if (pci->bars[bar] == NULL) {
        int result = vgc_pci_bar(pci->base.name, bar, &base, &pci->bar_bytes[bar]);
        (void)snprintf(file, sizeof(file), "resource%u", bar);
        if (result == VGC_OK)
            result = vgc_pci_map(pci->base.name, file, pci->bar_bytes[bar], &pci->bars[bar]);
        if (result != VGC_OK)
            return result;
    }
    if (offset > pci->bar_bytes[bar] || len > pci->bar_bytes[bar] - offset)
        return vgc_fail(VGC_INCOMPATIBLE, "%s has a capability beyond its BAR %u", pci->base.name, bar);
    *at = (uint8_t *)pci->bars[bar] + offset;
    return VGC_OK;
}

static uint32_t read_u32(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

static int map_capability(struct virtio_pci *pci, const uint8_t *config, uint8_t at)
{
    uint8_t type = config[at + 3];
    uint8_t *area = NULL;
    if (type < CAP_COMMON || type > CAP_DEVICE)
        return VGC_OK;
    int result = map_bar(pci, config[at + 4], read_u32(config + at + 8), read_u32(config + at + 12), &area);
    if (result != VGC_OK)
        return result;
    if (type == CAP_COMMON) {
        pci->common = (volatile struct common_config *)area;
    } else if (type == CAP_NOTIFY) {
        pci->notify = area;
        pci->notify_multiplier = read_u32(config + at + 16);
    } else if (type == CAP_ISR) {
        pci->isr = area;
    } else {
        pci->device_config = area;
    }
    return VGC_OK;
}

static int read_pci_config(struct virtio_pci *pci, uint8_t config[256])
{
    if (pread(pci->config_fd, config, 256, 0) != 256)
        return vgc_fail(VGC_NO_PERMISSION, "the whole PCI configuration space of %s is only readable with root rights",
                        pci->base.name);
    return VGC_OK;
}

/* Calls `visit` for virtio's capabilities until one call fails. */
static int for_each_capability(struct virtio_pci *pci, int (*visit)(struct virtio_pci *, const uint8_t *, uint8_t))
{
    uint8_t config[256] = {0};
    int result = read_pci_config(pci, config);
    uint8_t at = config[PCI_CAPABILITIES];
    for (int seen = 0; result == VGC_OK && at >= 64 && at <= 256 - 20 && seen < 48; at = config[at + 1], seen++)
        if (config[at] == CAPABILITY_VENDOR)
            result = visit(pci, config, at);
    return result;
}

static int note_window(struct virtio_pci *pci, const uint8_t *config, uint8_t at)
{
    if (config[at + 3] == CAP_DEVICE)
        memcpy(pci->device_area, config + at, sizeof(pci->device_area));
    else if (config[at + 3] == CAP_PCI_CONFIG)
        pci->window = at;
    return VGC_OK;
}

/* Whether the device's configuration begins with our magic, read through the window in PCI configuration space
 * [virtio 1.3 §4.1.4.9]: the BAR cannot be mapped while another driver holds it, and it is not ours to take from
 * that driver before we know. */
static int check_is_ours(struct virtio_pci *pci)
{
    uint32_t magic = 0, length = sizeof(magic);
    int result = for_each_capability(pci, note_window);
    if (result != VGC_OK)
        return result;
    select_lock(pci);
    bool fine = pci->window != 0 && pwrite(pci->config_fd, pci->device_area + 4, 1, pci->window + 4) == 1 &&
                pwrite(pci->config_fd, pci->device_area + 8, 4, pci->window + 8) == 4 &&
                pwrite(pci->config_fd, &length, 4, pci->window + 12) == 4 &&
                pread(pci->config_fd, &magic, 4, pci->window + 16) == 4;
    select_unlock(pci);
    if (!fine || magic != VGC_CONFIG_MAGIC)
        return vgc_fail(VGC_NO_DEVICE, "%s is not a virtio-gpu-compute device: its configuration lacks the magic VGPC",
                        pci->base.name);
    return VGC_OK;
}

static int bind_uio(struct virtio_pci *pci)
{
    select_lock(pci);
    int result = vgc_pci_bind_uio(pci->base.name);
    set_command(pci, COMMAND_MEMORY | COMMAND_MASTER, 0);
    select_unlock(pci);
    return result;
}

static int map_capabilities(struct virtio_pci *pci)
{
    int result = for_each_capability(pci, map_capability);
    if (result != VGC_OK)
        return result;
    if (pci->common == NULL || pci->notify == NULL || pci->isr == NULL || pci->device_config == NULL)
        return vgc_fail(VGC_INCOMPATIBLE, "%s lacks one of virtio's capability areas", pci->base.name);
    return VGC_OK;
}

/* Write-combined reads as cached where the hypervisor decides so. Where it does not, stores through it may pass one
 * another, which rings do not survive: then the strictly ordered mapping it is. */
static int map_region(struct virtio_pci *pci, const char *address)
{
    struct vgc_transport *base = &pci->base;
    void *pointer;
    int result = vgc_pci_command(address, COMMAND_MEMORY);
    if (result == VGC_OK)
        result = vgc_pci_bar(address, 2, &base->region_gpa, &base->region_bytes);
    if (result != VGC_OK)
        return result;
    (void)snprintf(base->region_name, sizeof(base->region_name), "%s", address);
    if (vgc_pci_map(address, "resource2_wc", base->region_bytes, &pointer) == VGC_OK) {
        base->region = pointer;
        vgc_transport_measure(base);
        if (base->region_cached)
            return VGC_OK;
        (void)munmap(base->region, base->region_bytes);
        base->region = NULL;
    }
    result = vgc_pci_map(address, "resource2", base->region_bytes, &pointer);
    if (result != VGC_OK)
        return result;
    base->region = pointer;
    vgc_transport_measure(base);
    return VGC_OK;
}

/* ---- finding -------------------------------------------------------------------------------- */

static void pci_close(struct vgc_transport *transport)
{
    struct virtio_pci *pci = of(transport);
    for (int bar = 0; bar < NUM_BARS; bar++)
        if (pci->bars[bar] != NULL)
            (void)munmap(pci->bars[bar], pci->bar_bytes[bar]);
    if (transport->region != NULL)
        (void)munmap(transport->region, transport->region_bytes);
    if (pci->config_fd >= 0)
        (void)close(pci->config_fd);
    free(pci);
}

static const struct vgc_transport_ops PCI_OPS = {
    .is_running = pci_is_running,
    .start = pci_start,
    .revive = pci_revive,
    .read_config = pci_read_config,
    .write_ack = pci_write_ack,
    .attach = pci_attach,
    .detach = pci_detach,
    .kick = pci_kick,
    .arm = pci_arm,
    .wait = pci_wait,
    .close = pci_close,
};

static int open_function(const char *address, struct virtio_pci **out)
{
    struct virtio_pci *pci = calloc(1, sizeof(*pci));
    if (pci == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    pci->base.ops = &PCI_OPS;
    for (int i = 0; i < VGC_MAX_QUEUES; i++)
        pci->uio_fds[i] = -1;
    (void)snprintf(pci->base.name, sizeof(pci->base.name), "%s", address);
    pci->config_fd = vgc_pci_open(address, "config", O_RDWR);
    int result = pci->config_fd < 0 ? vgc_fail_errno("cannot open the configuration space of %s", address) : VGC_OK;
    if (result == VGC_OK)
        result = check_is_ours(pci);
    if (result == VGC_OK)
        result = bind_uio(pci);
    if (result == VGC_OK)
        result = map_capabilities(pci);
    if (result != VGC_OK) {
        pci_close(&pci->base);
        return result;
    }
    *out = pci;
    return VGC_OK;
}

/* The functions of our virtio id whose configuration begins with our magic, in address order. */
static int find_ours(struct vgc_pci_id *ids, size_t *count)
{
    struct vgc_pci_id all[MAX_FUNCTIONS];
    size_t num_all;
    *count = 0;
    int result = vgc_pci_find(VENDOR_REDHAT, DEVICE_OURS, all, MAX_FUNCTIONS, &num_all);
    for (size_t i = 0; i < num_all && result == VGC_OK; i++) {
        struct virtio_pci *pci;
        result = open_function(all[i].address, &pci);
        if (result == VGC_NO_DEVICE) {
            result = VGC_OK;
            continue;
        }
        if (result != VGC_OK)
            return result;
        ids[(*count)++] = all[i];
        pci_close(&pci->base);
    }
    return result;
}

static int region_size_of(const char *address, uint64_t *bytes)
{
    struct virtio_pci *pci;
    struct vgc_config config;
    int result = open_function(address, &pci);
    if (result != VGC_OK)
        return result;
    result = pci_read_config(&pci->base, &config);
    *bytes = config.region_size;
    pci_close(&pci->base);
    return result;
}

/* Devices and ivshmem functions of one size belong together in address order: the n-th to the n-th. */
static int find_region(const char *address, uint64_t bytes, char *region_address)
{
    struct vgc_pci_id ours[MAX_FUNCTIONS], shared[MAX_FUNCTIONS];
    size_t num_ours, num_shared, rank = 0;
    int result = find_ours(ours, &num_ours);
    for (size_t i = 0; i < num_ours && result == VGC_OK && strcmp(ours[i].address, address) != 0; i++) {
        uint64_t other;
        result = region_size_of(ours[i].address, &other);
        rank += other == bytes ? 1 : 0;
    }
    if (result == VGC_OK)
        result = vgc_pci_find(VENDOR_REDHAT, DEVICE_IVSHMEM, shared, MAX_FUNCTIONS, &num_shared);
    if (result != VGC_OK)
        return result;
    for (size_t i = 0; i < num_shared; i++) {
        uint64_t base, size;
        if (vgc_pci_bar(shared[i].address, 2, &base, &size) != VGC_OK || size != bytes)
            continue;
        if (rank-- == 0) {
            memcpy(region_address, shared[i].address, VGC_PCI_ADDRESS_LEN);
            return VGC_OK;
        }
    }
    return vgc_fail(VGC_NO_DEVICE,
                    "no ivshmem-plain function (1af4:1110) with the %llu MiB that %s names: the VM needs "
                    "'-device ivshmem-plain,memdev=...' with the region's file",
                    (unsigned long long)bytes >> 20, address);
}

static int pick_address(const struct vgc_options *options, char *address)
{
    struct vgc_pci_id ours[MAX_FUNCTIONS];
    size_t count;
    if (options->address != NULL) {
        if (snprintf(address, VGC_PCI_ADDRESS_LEN, "%s", options->address) >= VGC_PCI_ADDRESS_LEN)
            return vgc_fail(VGC_INVALID_ARGUMENT, "'%s' is no PCI address", options->address);
        return VGC_OK;
    }
    int result = find_ours(ours, &count);
    if (result != VGC_OK)
        return result;
    if (options->index >= count)
        return vgc_fail(VGC_NO_DEVICE,
                        "no virtio-gpu-compute device number %u in this machine: %zu found (PCI id 1af4:%04x with "
                        "the magic VGPC)",
                        options->index, count, DEVICE_OURS);
    memcpy(address, ours[options->index].address, VGC_PCI_ADDRESS_LEN);
    return VGC_OK;
}

static int set_up_function(struct virtio_pci *pci, const struct vgc_options *options)
{
    char region_address[VGC_PCI_ADDRESS_LEN];
    struct vgc_config config;
    select_lock(pci);
    pci->common->queue_select = 0;
    pci->base.num_queues = pci->common->num_queues;
    pci->base.ring_size = VGC_MIN(pci->common->queue_size, (uint16_t)VGC_MAX_QUEUE_SIZE);
    select_unlock(pci);
    int result = pci_read_config(&pci->base, &config);
    if (result == VGC_OK)
        result = vgc_check_config(&config);
    if (result == VGC_OK && options->region_address != NULL)
        (void)snprintf(region_address, sizeof(region_address), "%s", options->region_address);
    else if (result == VGC_OK)
        result = find_region(pci->base.name, config.region_size, region_address);
    if (result == VGC_OK)
        result = map_region(pci, region_address);
    pci->base.interrupts = vgc_pci_uio(pci->base.name, pci->uio, sizeof(pci->uio));
    return result;
}

int vgc_virtio_pci_open(const struct vgc_options *options, struct vgc_transport **transport)
{
    char address[VGC_PCI_ADDRESS_LEN];
    struct virtio_pci *pci;
    int result = pick_address(options, address);
    if (result == VGC_OK)
        result = open_function(address, &pci);
    if (result != VGC_OK)
        return result;
    result = set_up_function(pci, options);
    if (result != VGC_OK) {
        pci_close(&pci->base);
        return result;
    }
    *transport = &pci->base;
    return VGC_OK;
}

int vgc_list(struct vgc_found *found, size_t room, size_t *count)
{
    struct vgc_pci_id ids[MAX_FUNCTIONS], shared[MAX_FUNCTIONS];
    size_t num_shared = 0;
    int result = vgc_pci_find(VENDOR_REDHAT, DEVICE_OURS, ids, VGC_MIN(room, (size_t)MAX_FUNCTIONS), count);
    if (result == VGC_OK)
        result = vgc_pci_find(VENDOR_REDHAT, DEVICE_IVSHMEM, shared, MAX_FUNCTIONS, &num_shared);
    if (result != VGC_OK)
        return result;
    for (size_t i = 0; i < *count; i++) {
        memset(&found[i], 0, sizeof(found[i]));
        memcpy(found[i].address, ids[i].address, sizeof(found[i].address));
        vgc_pci_driver(ids[i].address, found[i].driver, sizeof(found[i].driver));
        (void)vgc_pci_uio(ids[i].address, found[i].uio, sizeof(found[i].uio));
        if (i < num_shared)
            memcpy(found[i].region_address, shared[i].address, sizeof(found[i].region_address));
    }
    return VGC_OK;
}
