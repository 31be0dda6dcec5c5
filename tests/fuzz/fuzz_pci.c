/* A hostile PCI function that says it is ours, against the guest's driver: capabilities, the areas that they lead to,
 * and what the driver does there when it opens, starts and kicks a device.
 *
 * The input is the function's configuration space, sizes of BARs, and their contents. Promises: no access outside the
 * BARs, each an allocation of its own size (AddressSanitizer watches), none that is not aligned, and results that the
 * driver knows.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "input.h"
#include "virtio.h"

#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function) /* of the driver alone */

enum { CONFIG = 256, FD = 1000000, MAX_CHECKED = VGC_MAX_QUEUES };

static uint8_t config_space[CONFIG];
static struct {
    uint64_t size; /* 0: the function lacks it */
    uint8_t *memory;
} bars[NUM_BARS];
static uint8_t fill;
static bool is_locked;

/* ---- what stands in for the system and for the rest of the driver ----------------------------------------------- */

bool vgc_pci_read(vgc_handle config, uint32_t at, void *bytes, size_t size)
{
    PROMISE(config == FD && at + size <= CONFIG);
    memcpy(bytes, config_space + at, size);
    return true;
}

bool vgc_pci_write(vgc_handle config, uint32_t at, const void *bytes, size_t size)
{
    PROMISE(config == FD && at + size <= CONFIG && bytes != NULL);
    return true;
}

void vgc_pci_lock(vgc_handle config)
{
    PROMISE(config == FD && !is_locked);
    is_locked = true;
}

void vgc_pci_unlock(vgc_handle config)
{
    PROMISE(config == FD && is_locked);
    is_locked = false;
}

void vgc_pci_close_config(vgc_handle config)
{
    PROMISE(config == FD);
}

void vgc_pci_mark_used(vgc_handle config)
{
    PROMISE(config == FD);
}

bool vgc_pci_is_used(vgc_handle config)
{
    PROMISE(config == FD);
    return false;
}

void vgc_file_close(vgc_handle file)
{
    (void)file;
    PROMISE(!"no interrupt was opened");
}

void vgc_unmap(void *pointer, size_t bytes)
{
    for (int bar = 0; bar < NUM_BARS; bar++) {
        if (bars[bar].memory != pointer)
            continue;
        PROMISE(bytes == bars[bar].size);
        free(pointer);
        bars[bar].memory = NULL;
        return;
    }
    PROMISE(!"only what was mapped is unmapped");
}

int vgc_fail(int result, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    PROMISE(vsnprintf(text, sizeof(text), format, args) > 0);
    va_end(args);
    PROMISE(result != VGC_OK);
    return result;
}

int vgc_fail_swapped(uint32_t magic)
{
    (void)magic;
    return VGC_INCOMPATIBLE;
}

int vgc_fail_errno(const char *format, ...)
{
    (void)format;
    return VGC_SYSTEM;
}

bool vgc_backoff(uint64_t *step_ns, uint64_t deadline_ns)
{
    (void)step_ns, (void)deadline_ns;
    return false;
}

uint64_t vgc_deadline(uint64_t timeout_ns)
{
    return timeout_ns;
}

uint64_t vgc_layout_ring_offset(const struct vgc_layout *layout, uint32_t queue)
{
    (void)layout;
    return queue * UINT64_C(4096);
}

struct vgc_grant *vgc_virtio_granted(const struct virtio_pci *pci)
{
    (void)pci;
    return NULL;
}

int vgc_pci_open_config(const char *address, vgc_handle *config)
{
    (void)address;
    *config = FD;
    return VGC_OK;
}

int vgc_pci_release(const char *address, bool *was_virtio)
{
    (void)address;
    *was_virtio = fill % 4 == 0;
    return VGC_OK;
}

void vgc_pci_give_back(const char *address)
{
    (void)address;
    PROMISE(fill % 4 == 0);
    for (int bar = 0; bar < NUM_BARS; bar++)
        PROMISE(bars[bar].memory == NULL);
}

vgc_handle vgc_pci_open_interrupt(const char *node)
{
    (void)node;
    return VGC_NO_HANDLE;
}

enum vgc_wakeup vgc_pci_wait_interrupt(vgc_handle interrupt, uint64_t timeout_ns)
{
    (void)interrupt, (void)timeout_ns;
    return VGC_WAKEUP_NONE;
}

int vgc_pci_bind_uio(const char *address)
{
    (void)address;
    return VGC_OK;
}

int vgc_pci_bar(const char *address, uint32_t bar, uint64_t *base, uint64_t *size)
{
    (void)address;
    PROMISE(bar < NUM_BARS);
    if (bars[bar].size == 0)
        return VGC_NO_DEVICE;
    *base = 0xfe000000;
    *size = bars[bar].size;
    return VGC_OK;
}

int vgc_pci_map(const char *address, const char *file, uint64_t size, void **pointer)
{
    (void)address;
    int bar = file[strlen(file) - 1] - '0';
    PROMISE(bar >= 0 && bar < NUM_BARS && size == bars[bar].size && bars[bar].memory == NULL);
    bars[bar].memory = malloc(size);
    PROMISE(bars[bar].memory != NULL);
    memset(bars[bar].memory, fill, size);
    for (uint64_t at = 0; fill % 2 != 0 && at + 4 <= size; at += 4)
        memcpy(bars[bar].memory + at, &(uint32_t){VGC_CONFIG_MAGIC}, 4); /* wherever the driver looks for it */
    *pointer = bars[bar].memory;
    return VGC_OK;
}

/* ---- a life of a function --------------------------------------------------------------------------------------- */

static void fill_device_area(struct virtio_pci *pci, struct input *input)
{
    struct common_config *common = (struct common_config *)(uintptr_t)pci->common;
    take_bytes(input, common, sizeof(*common));
    common->device_status = 0;
}

static void use(struct virtio_pci *pci, struct input *input)
{
    struct vgc_config config;
    struct vgc_layout layout = {.num_queues = 1 + take8(input) % VGC_MAX_QUEUES, .ring_size = 16};
    int result = pci->base.ops->read_config(&pci->base, &config);
    PROMISE(result == VGC_OK || result == VGC_NO_ANSWER);
    (void)pci->base.ops->read_allotment(&pci->base);
    pci->base.ops->write_ack(&pci->base, take8(input));
    fill_device_area(pci, input);
    if (!pci->base.ops->is_running(&pci->base, &layout) && pci->base.ops->start(&pci->base, &layout, 0) != VGC_OK)
        return;
    pci->base.ops->revive(&pci->base);
    for (uint32_t queue = 0; queue < layout.num_queues; queue++)
        pci->base.ops->kick(&pci->base, queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct virtio_pci *pci = NULL;
    take_bytes(&input, config_space, sizeof(config_space));
    fill = take8(&input);
    for (int bar = 0; bar < NUM_BARS; bar++)
        bars[bar].size = (uint64_t)(take8(&input) % 65) * 64;
    int result = vgc_virtio_open_function("0000:00:03.0", "", &pci);
    PROMISE(result == VGC_OK || result == VGC_NO_DEVICE || result == VGC_INCOMPATIBLE || result == VGC_SYSTEM);
    if (result == VGC_OK) {
        use(pci, &input);
        pci->base.ops->close(&pci->base);
    }
    for (int bar = 0; bar < NUM_BARS; bar++)
        PROMISE(bars[bar].memory == NULL);
    return 0;
}

#pragma clang attribute pop
