/* The region of a virtio PCI function: the BAR of its ivshmem function or, where one was made, the same file as an
 * NVDIMM in devdax mode, which is cached whatever the hypervisor makes of a guest's PAT.
 *
 * A devdax may be somebody's disk. It is taken only if its NVDIMM has exactly the region's size, and if the page by
 * which the kernel knows it again is read through the ivshmem function, too; in a VM that has no ivshmem function, if
 * it begins with zeroes or with the header of a region. An option, or root's grant, may name it. */
#include <stdio.h>
#include <string.h>

#include "dax.h"
#include "virtio.h"

enum { MAX_DAX = 16 };

bool vgc_virtio_is_dax(const char *region_address)
{
    return strncmp(region_address, "dax", 3) == 0;
}

/* ---- the BAR -------------------------------------------------------------------------------- */

/* Write-combined reads as cached where the hypervisor decides so. Where it does not, stores through it may pass one
 * another, which rings do not survive: then the strictly ordered mapping it is. */
int vgc_virtio_map_bar(struct virtio_pci *pci, const char *address)
{
    struct vgc_transport *base = &pci->base;
    void *pointer;
    int result = vgc_pci_command(address, COMMAND_MEMORY);
    if (result == VGC_OK)
        result = vgc_pci_bar(address, 2, &base->region_gpa, &base->region_bytes);
    if (result != VGC_OK)
        return result;
    base->region_kind = VGC_REGION_BAR;
    (void)snprintf(base->region_name, sizeof(base->region_name), "%s", address);
    if (vgc_pci_map(address, "resource2_wc", base->region_bytes, &pointer) == VGC_OK) {
        base->region = pointer;
        vgc_transport_measure(base);
        if (base->region_cached)
            return VGC_OK;
        vgc_unmap(base->region, base->region_bytes);
        base->region = NULL;
    }
    result = vgc_pci_map(address, "resource2", base->region_bytes, &pointer);
    if (result != VGC_OK)
        return result;
    base->region = pointer;
    vgc_transport_measure(base);
    return VGC_OK;
}

/* ---- the devdax ----------------------------------------------------------------------------- */

static int check_size(const struct vgc_dax *dax, uint64_t bytes)
{
    if (dax->file_bytes == bytes)
        return VGC_OK;
    return vgc_fail(
        VGC_INCOMPATIBLE,
        "%s is part of an NVDIMM of %llu bytes, but the device's region has %llu: it belongs to something else",
        dax->name, (unsigned long long)dax->file_bytes, (unsigned long long)bytes);
}

static int map_dax(struct virtio_pci *pci, const struct vgc_dax *dax)
{
    struct vgc_transport *base = &pci->base;
    if (dax->gpa == 0)
        return vgc_fail(
            VGC_NO_PERMISSION,
            "the address of %s is only readable with root rights, and was not left in %s, as 'vgc grant GROUP' does",
            dax->name, pci->state_dir);
    int result = vgc_dax_map(dax, &base->region);
    if (result != VGC_OK)
        return result;
    (void)snprintf(base->region_name, sizeof(base->region_name), "%s", dax->name);
    base->region_kind = VGC_REGION_DAX;
    base->region_gpa = dax->gpa;
    base->region_bytes = dax->bytes;
    base->region_offset = dax->offset;
    base->region_file_bytes = dax->file_bytes;
    vgc_transport_measure(base);
    return VGC_OK;
}

int vgc_virtio_map_dax(struct virtio_pci *pci, const char *name, uint64_t bytes)
{
    struct vgc_dax dax;
    int result = vgc_dax_named(name, &dax);
    if (result == VGC_OK && dax.gpa == 0 && pci->grant != NULL && strcmp(pci->grant->region_address, name) == 0) {
        dax.gpa = pci->grant->region_gpa;
        dax.offset = pci->grant->region_offset;
    }
    if (result == VGC_OK)
        result = check_size(&dax, bytes);
    return result == VGC_OK ? map_dax(pci, &dax) : result;
}

/* Keeps those that are parts of the file of an ivshmem function. */
static int keep_same_file(struct vgc_dax *found, size_t *count, const char *bar_address)
{
    size_t kept = 0;
    void *pages;
    int result = vgc_pci_command(bar_address, COMMAND_MEMORY);
    if (result == VGC_OK)
        result = vgc_pci_map(bar_address, "resource2", VGC_DAX_INFO_OFFSET + VGC_DAX_INFO_BYTES, &pages);
    if (result != VGC_OK)
        return result;
    for (size_t i = 0; i < *count; i++)
        if (vgc_dax_is_file(&found[i], pages))
            found[kept++] = found[i];
    vgc_unmap(pages, VGC_DAX_INFO_OFFSET + VGC_DAX_INFO_BYTES);
    *count = kept;
    return VGC_OK;
}

/* Memory of which nobody knows what it is for may be taken only then. */
static bool begins_as_region(const uint8_t *pointer)
{
    static const uint8_t ZEROES[VGC_REGION_HEADER_BYTES];
    return vgc_region_is_ours((const struct vgc_region_header *)pointer) ||
           memcmp(pointer, ZEROES, sizeof(ZEROES)) == 0;
}

static bool dax_begins_as_region(const struct vgc_dax *dax)
{
    uint8_t *pointer;
    if (vgc_dax_map(dax, &pointer) != VGC_OK)
        return false;
    bool does = begins_as_region(pointer);
    vgc_unmap(pointer, dax->bytes);
    return does;
}

bool vgc_virtio_begins_as_region(const char *address)
{
    struct vgc_dax dax;
    void *pointer;
    if (vgc_virtio_is_dax(address))
        return vgc_dax_named(address, &dax) == VGC_OK && dax_begins_as_region(&dax);
    if (vgc_pci_command(address, COMMAND_MEMORY) != VGC_OK ||
        vgc_pci_map(address, "resource2", VGC_REGION_HEADER_BYTES, &pointer) != VGC_OK)
        return false;
    bool does = begins_as_region(pointer);
    vgc_unmap(pointer, VGC_REGION_HEADER_BYTES);
    return does;
}

bool vgc_virtio_region_fits(const char *region_address, uint64_t bytes)
{
    struct vgc_dax dax;
    uint64_t base, size;
    if (vgc_virtio_is_dax(region_address))
        return vgc_dax_named(region_address, &dax) == VGC_OK && dax.file_bytes == bytes;
    return vgc_pci_bar(region_address, 2, &base, &size) == VGC_OK && size == bytes;
}

static void keep_ours(struct vgc_dax *found, size_t *count)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (dax_begins_as_region(&found[i]))
            found[kept++] = found[i];
    *count = kept;
}

int vgc_virtio_find_dax(uint64_t bytes, const char *bar_address, char *name)
{
    struct vgc_dax found[MAX_DAX];
    size_t count, kept = 0;
    int result = vgc_dax_find(found, MAX_DAX, &count);
    for (size_t i = 0; i < count; i++)
        if (found[i].file_bytes == bytes)
            found[kept++] = found[i];
    name[0] = '\0';
    if (result != VGC_OK || kept == 0)
        return result;
    if (bar_address != NULL)
        result = keep_same_file(found, &kept, bar_address);
    else
        keep_ours(found, &kept);
    if (result == VGC_OK && kept > 1)
        return vgc_fail(VGC_NO_DEVICE,
                        "%zu NVDIMMs in devdax mode have the region's %llu bytes, among them %s and %s: the option "
                        "region_address must name one",
                        kept, (unsigned long long)bytes, found[0].name, found[1].name);
    if (result == VGC_OK && kept == 1)
        (void)snprintf(name, VGC_PCI_ADDRESS_LEN, "%s", found[0].name);
    return result;
}

/* ---- which of both -------------------------------------------------------------------------- */

static double bar_rate(const char *address)
{
    uint64_t gpa, bytes;
    void *pointer;
    if (vgc_pci_bar(address, 2, &gpa, &bytes) != VGC_OK ||
        vgc_pci_map(address, "resource2_wc", bytes, &pointer) != VGC_OK)
        return 0;
    double rate = vgc_read_rate(pointer, bytes);
    vgc_unmap(pointer, bytes);
    return rate;
}

static double dax_rate(const char *name)
{
    struct vgc_dax dax;
    uint8_t *pointer;
    if (vgc_dax_named(name, &dax) != VGC_OK || vgc_dax_map(&dax, &pointer) != VGC_OK)
        return 0;
    double rate = vgc_read_rate(pointer, dax.bytes);
    vgc_unmap(pointer, dax.bytes);
    return rate;
}

/* A devdax, once made, stays the region while both are memory: a BAR in use overwrites the page by which it is known
 * again. One that cannot be mapped is taken, too, so that the error is told. */
bool vgc_virtio_prefers_bar(const char *bar_address, const char *dax_name)
{
    enum { MUCH = 4 };
    double dax = dax_rate(dax_name);
    return dax > 0 && bar_rate(bar_address) > MUCH * dax;
}
