/* vgc_grant(): root gives a group of users the files of a device. It ends when the function is unplugged, and with the
 * guest. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../dax.h"
#include "../virtio.h"
#include "pci.h"

/* Members keep files of their own there, such as their last error; of others' they only use the contents. */
static int give_folder(const char *state_dir, gid_t group)
{
    struct stat info;
    int fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool fine = fd >= 0 && fstat(fd, &info) == 0;
    if (fine && (info.st_mode & S_IWOTH) == 0)
        fine = fchown(fd, (uid_t)-1, group) == 0 && fchmod(fd, 01775) == 0;
    int result = fine ? VGC_OK : vgc_fail_errno("cannot give a group the folder %s", state_dir);
    if (fd >= 0)
        (void)close(fd);
    return result;
}

static int give_state(const char *state_dir, const char *name, gid_t group)
{
    vgc_handle file;
    int result = vgc_state_open_file(state_dir, name, &file);
    if (result != VGC_OK)
        return result;
    int fd = (int)file;
    if (fchown(fd, (uid_t)-1, group) != 0 || fchmod(fd, 0660) != 0)
        result = vgc_fail_errno("cannot give a group the state file of %s", name);
    (void)close(fd);
    return result;
}

static int give_region(const struct vgc_transport *transport, gid_t group)
{
    const char *name = transport->region_name;
    if (transport->region_kind == VGC_REGION_DAX)
        return vgc_dax_grant(name, group);
    int result = vgc_pci_grant(name, "resource2", group);
    int fd = vgc_pci_open(name, "resource2_wc", O_RDONLY); /* not on every machine */
    if (fd < 0)
        return result;
    (void)close(fd);
    return result == VGC_OK ? vgc_pci_grant(name, "resource2_wc", group) : result;
}

static int give_files(const struct virtio_pci *pci, gid_t group)
{
    char file[32];
    struct stat info;
    const char *name = pci->base.name;
    int result = vgc_pci_grant(name, "config", group);
    for (unsigned bar = 0; bar < NUM_BARS && result == VGC_OK; bar++) {
        (void)snprintf(file, sizeof(file), "resource%u", bar);
        if (pci->bars[bar] != NULL)
            result = vgc_pci_grant(name, file, group);
    }
    if (result == VGC_OK)
        result = give_region(&pci->base, group);
    if (result != VGC_OK || pci->uio[0] == '\0' || stat(pci->uio, &info) != 0)
        return result; /* without interrupts */
    if (chown(pci->uio, (uid_t)-1, group) != 0 || chmod(pci->uio, 0660) != 0)
        return vgc_fail_errno("cannot give a group %s", pci->uio);
    return VGC_OK;
}

int vgc_grant(const struct vgc_options *options, uint32_t group_id)
{
    struct vgc_options defaults;
    struct vgc_transport *transport;
    struct vgc_grant grant = {.config = {0}};
    if (options == NULL) {
        vgc_options_init(&defaults);
        options = &defaults;
    }
    const char *state_dir = vgc_state_dir(options);
    int result = vgc_virtio_pci_open(options, &transport);
    if (result != VGC_OK)
        return result;
    struct virtio_pci *pci = vgc_virtio_of(transport);
    pci->state_dir = state_dir;
    result = vgc_virtio_read_pci_config(pci, grant.config);
    (void)snprintf(grant.region_address, sizeof(grant.region_address), "%.31s", transport->region_name);
    grant.region_gpa = transport->region_gpa;
    grant.region_offset = transport->region_offset;
    if (result == VGC_OK)
        result = give_state(state_dir, transport->name, group_id);
    if (result == VGC_OK)
        result = give_folder(state_dir, group_id);
    if (result == VGC_OK)
        result = vgc_virtio_leave_grant(state_dir, transport->name, &grant);
    if (result == VGC_OK)
        result = give_files(pci, group_id);
    vgc_virtio_close(transport);
    return result;
}
