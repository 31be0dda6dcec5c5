/* One virtio PCI function of ours: opening it, its configuration, closing it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "virtio.h"

int vgc_virtio_read_config(struct vgc_transport *transport, struct vgc_config *config)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
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

static volatile uint32_t *config_word(struct vgc_transport *transport, size_t offset)
{
    return (volatile uint32_t *)(vgc_virtio_of(transport)->device_config + offset);
}

static uint32_t read_allotment(struct vgc_transport *transport)
{
    return vgc_le32(*config_word(transport, offsetof(struct vgc_config, allotment)));
}

static void write_ack(struct vgc_transport *transport, uint32_t allotment)
{
    *config_word(transport, offsetof(struct vgc_config, driver_ack)) = vgc_le32(allotment);
}

void vgc_virtio_close(struct vgc_transport *transport)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    vgc_virtio_unmap_areas(pci);
    if (transport->region != NULL)
        vgc_unmap(transport->region, transport->region_bytes);
    if (pci->config != VGC_NO_HANDLE)
        vgc_pci_close_config(pci->config);
    free(pci->grant);
    free(pci);
}

static const struct vgc_transport_ops PCI_OPS = {
    .is_running = vgc_virtio_is_running,
    .check_unused = vgc_virtio_check_unused,
    .start = vgc_virtio_start,
    .revive = vgc_virtio_revive,
    .read_config = vgc_virtio_read_config,
    .read_allotment = read_allotment,
    .write_ack = write_ack,
    .attach = vgc_virtio_attach,
    .detach = vgc_virtio_detach,
    .kick = vgc_virtio_kick,
    .arm = vgc_virtio_arm,
    .wait = vgc_virtio_wait,
    .close = vgc_virtio_close,
};

/* The BAR shows whose device it is, and cannot be mapped while the kernel's virtio-pci has it. The window into the
 * BARs in PCI configuration space [virtio 1.3 §4.1.4.9] would show it, too, but QEMU aborts when a guest reads there
 * while the BAR is not mapped, and on machines whose PCI memory is an alias (aarch64's virt) always. */
static int take(struct virtio_pci *pci)
{
    uint8_t config[256];
    bool was_virtio = false;
    int result = vgc_virtio_read_pci_config(pci, config); /* nothing is taken that could not be used */
    vgc_virtio_lock(pci);
    if (result == VGC_OK)
        result = vgc_pci_release(pci->base.name, &was_virtio);
    if (result == VGC_OK) {
        vgc_virtio_set_command(pci, COMMAND_MEMORY, 0);
        result = vgc_virtio_map_areas(pci);
        if (result == VGC_OK)
            result = vgc_pci_bind_uio(pci->base.name);
        else
            vgc_virtio_unmap_areas(pci);
    }
    if (result == VGC_OK)
        vgc_virtio_set_command(pci, COMMAND_MEMORY | COMMAND_MASTER, 0);
    else if (was_virtio)
        vgc_pci_give_back(pci->base.name);
    vgc_virtio_unlock(pci);
    return result;
}

int vgc_virtio_open_function(const char *address, const char *state_dir, struct virtio_pci **out)
{
    struct virtio_pci *pci = calloc(1, sizeof(*pci));
    if (pci == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    pci->base.ops = &PCI_OPS;
    for (int i = 0; i < VGC_MAX_QUEUES; i++)
        pci->interrupts[i] = VGC_NO_HANDLE;
    (void)snprintf(pci->base.name, sizeof(pci->base.name), "%s", address);
    pci->state_dir = state_dir;
    int result = vgc_pci_open_config(address, &pci->config);
    if (result == VGC_OK)
        result = take(pci);
    if (result != VGC_OK) {
        vgc_virtio_close(&pci->base);
        return result;
    }
    *out = pci;
    return VGC_OK;
}
