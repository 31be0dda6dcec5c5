/* Kicks and interrupts of a virtio PCI function that runs.
 *
 * Interrupts. uio_pci_generic masks INTx at each interrupt and wakes every reader of /dev/uioN, in all processes.
 * Each queue has a descriptor of its own, because the kernel counts seen interrupts per open file. A waiter
 * unmasks (arm), looks at its ring, and only then sleeps; so a completion that comes after the look finds the line
 * unmasked and counts one interrupt up, whatever the other processes do in between.
 *
 * Closing any of these descriptors makes uio_pci_generic clear bus mastering, upon which QEMU stops the device and
 * takes back DRIVER_OK. The device keeps its rings and its place in them; vgc_virtio_revive() turns it on again. */
#include "virtio.h"

void vgc_virtio_revive(struct vgc_transport *transport)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    uint8_t status = pci->common->device_status;
    if ((status & (STATUS_DRIVER_OK | STATUS_NEEDS_RESET | STATUS_FAILED)) != 0 || (status & STATUS_FEATURES_OK) == 0)
        return;
    vgc_virtio_set_command(pci, COMMAND_MEMORY | COMMAND_MASTER, 0);
    pci->common->device_status = (uint8_t)(status | STATUS_DRIVER_OK);
}

void vgc_virtio_kick(struct vgc_transport *transport, uint32_t queue)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    volatile uint16_t *at =
        (volatile uint16_t *)(pci->notify + (size_t)pci->notify_offsets[queue] * pci->notify_multiplier);
    vgc_virtio_barrier();
    *at = vgc_le16((uint16_t)queue);
}

int vgc_virtio_attach(struct vgc_transport *transport, uint32_t queue)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    pci->interrupts[queue] = pci->uio[0] != '\0' ? vgc_pci_open_interrupt(pci->uio) : VGC_NO_HANDLE;
    if (pci->interrupts[queue] == VGC_NO_HANDLE)
        transport->interrupts = false;
    return VGC_OK;
}

void vgc_virtio_detach(struct vgc_transport *transport, uint32_t queue)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    if (pci->interrupts[queue] != VGC_NO_HANDLE)
        vgc_file_close(pci->interrupts[queue]);
    pci->interrupts[queue] = VGC_NO_HANDLE;
    vgc_virtio_revive(transport);
}

void vgc_virtio_arm(struct vgc_transport *transport, uint32_t queue)
{
    (void)queue;
    vgc_virtio_revive(transport);
    if (transport->interrupts) /* else nobody would end one */
        vgc_virtio_set_command(vgc_virtio_of(transport), 0, COMMAND_INTX_DISABLE);
}

static void nap(struct virtio_pci *pci, uint64_t timeout_ns)
{
    uint64_t step_ns = VGC_MAX(atomic_load(&pci->nap_ns), 20000);
    (void)vgc_backoff(&step_ns, vgc_deadline(timeout_ns));
    atomic_store(&pci->nap_ns, step_ns);
}

void vgc_virtio_wait(struct vgc_transport *transport, uint32_t queue, uint64_t timeout_ns)
{
    struct virtio_pci *pci = vgc_virtio_of(transport);
    if (!transport->interrupts || pci->interrupts[queue] == VGC_NO_HANDLE) {
        nap(pci, timeout_ns);
        return;
    }
    enum vgc_wakeup interrupt = vgc_pci_wait_interrupt(pci->interrupts[queue], timeout_ns);
    if (interrupt == VGC_WAKEUP_NONE)
        return;
    if (interrupt == VGC_WAKEUP_BROKEN)
        transport->interrupts = false; /* the function has no interrupt line */
    (void)*pci->isr;                   /* de-asserts the line */
}
