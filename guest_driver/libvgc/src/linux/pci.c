/* PCI functions through sysfs and UIO. */
#include "pci.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PCI_DEVICES "/sys/bus/pci/devices"
#define UIO_DRIVER "uio_pci_generic"
#define VIRTIO_DRIVER "virtio-pci"

enum { PCI_COMMAND = 4, PATH_ROOM = 512 };

static int read_text(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, text, room - 1);
    (void)close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0 ? 0 : -1;
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return vgc_fail_errno("cannot open %s", path);
    ssize_t written = write(fd, text, strlen(text));
    int result = written < 0 ? vgc_fail_errno("cannot write '%s' to %s", text, path) : VGC_OK;
    (void)close(fd);
    return result;
}

static bool read_id(const char *address, const char *file, uint16_t *id)
{
    char path[PATH_ROOM], text[16];
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
    if (read_text(path, text, sizeof(text)) != 0)
        return false;
    *id = (uint16_t)strtoul(text, NULL, 16);
    return true;
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct vgc_pci_id *)a)->address, ((const struct vgc_pci_id *)b)->address);
}

int vgc_pci_find(uint16_t vendor, uint16_t device, struct vgc_pci_id *ids, size_t room, size_t *count)
{
    *count = 0;
    DIR *folder = opendir(PCI_DEVICES);
    if (folder == NULL)
        return vgc_fail_errno("cannot list " PCI_DEVICES);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && *count < room;) {
        struct vgc_pci_id id;
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(id.address))
            continue;
        (void)snprintf(id.address, sizeof(id.address), "%.31s", entry->d_name);
        if (!read_id(id.address, "vendor", &id.vendor) || !read_id(id.address, "device", &id.device))
            continue;
        if (id.vendor == vendor && id.device == device)
            ids[(*count)++] = id;
    }
    (void)closedir(folder);
    qsort(ids, *count, sizeof(*ids), by_address);
    return VGC_OK;
}

int vgc_pci_open(const char *address, const char *file, int flags)
{
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", address, file);
    return open(path, flags | O_CLOEXEC);
}

int vgc_pci_bar(const char *address, uint32_t bar, uint64_t *base, uint64_t *size)
{
    char path[PATH_ROOM], text[1024];
    unsigned long long start = 0, end = 0;
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource", address);
    if (read_text(path, text, sizeof(text)) != 0)
        return vgc_fail_errno("cannot read %s", path);
    char *line = text;
    for (uint32_t i = 0; i < bar && line != NULL; i++)
        line = (line = strchr(line, '\n')) != NULL ? line + 1 : NULL;
    if (line == NULL || sscanf(line, "%llx %llx", &start, &end) != 2 || end <= start)
        return vgc_fail(VGC_NO_DEVICE, "PCI function %s has no BAR %u", address, bar);
    *base = start;
    *size = end - start + 1;
    return VGC_OK;
}

int vgc_pci_map(const char *address, const char *file, uint64_t size, void **pointer)
{
    int fd = vgc_pci_open(address, file, O_RDWR);
    if (fd < 0)
        return vgc_fail_errno("cannot open %s of PCI function %s", file, address);
    *pointer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int result = *pointer == MAP_FAILED ? vgc_fail_errno("cannot map %s of PCI function %s", file, address) : VGC_OK;
    if (result != VGC_OK)
        *pointer = NULL;
    (void)close(fd);
    return result;
}

int vgc_pci_grant(const char *address, const char *file, gid_t group)
{
    int fd = vgc_pci_open(address, file, O_RDONLY);
    if (fd < 0)
        return vgc_fail_errno("cannot open %s of PCI function %s", file, address);
    bool fine = fchown(fd, (uid_t)-1, group) == 0 && fchmod(fd, 0660) == 0;
    int result = fine ? VGC_OK : vgc_fail_errno("cannot give a group %s of PCI function %s", file, address);
    (void)close(fd);
    return result;
}

/* ---- configuration space -------------------------------------------------------------------- */

int vgc_pci_open_config(const char *address, vgc_handle *config)
{
    *config = vgc_pci_open(address, "config", O_RDWR);
    if (*config != VGC_NO_HANDLE)
        return VGC_OK;
    if (errno == EROFS)
        return vgc_fail(VGC_NO_PERMISSION,
                        "the configuration space of %s cannot be written: a container needs /sys/devices/pci* of its "
                        "machine, writable (docs/guest-machines.md)",
                        address);
    return vgc_fail_errno("cannot open the configuration space of %s", address);
}

void vgc_pci_close_config(vgc_handle config)
{
    (void)close((int)config);
}

bool vgc_pci_read(vgc_handle config, uint32_t at, void *bytes, size_t size)
{
    return pread((int)config, bytes, size, at) == (ssize_t)size;
}

bool vgc_pci_write(vgc_handle config, uint32_t at, const void *bytes, size_t size)
{
    return pwrite((int)config, bytes, size, at) == (ssize_t)size;
}

void vgc_pci_lock(vgc_handle config)
{
    while (flock((int)config, LOCK_EX) != 0 && errno == EINTR) {
    }
}

void vgc_pci_unlock(vgc_handle config)
{
    (void)flock((int)config, LOCK_UN);
}

static struct flock user_lock(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
}

/* A file system without locks does without. */
void vgc_pci_mark_used(vgc_handle config)
{
    struct flock lock = user_lock(F_RDLCK);
    (void)fcntl((int)config, F_OFD_SETLK, &lock);
}

bool vgc_pci_is_used(vgc_handle config)
{
    struct flock lock = user_lock(F_WRLCK);
    return fcntl((int)config, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool has_command(const char *address, uint16_t bits)
{
    uint16_t command = 0;
    int fd = vgc_pci_open(address, "config", O_RDONLY);
    bool has = fd >= 0 && pread(fd, &command, sizeof(command), PCI_COMMAND) == sizeof(command);
    if (fd >= 0)
        (void)close(fd);
    return has && (vgc_le16(command) & bits) == bits;
}

int vgc_pci_command(const char *address, uint16_t set)
{
    uint16_t command;
    if (has_command(address, set)) /* which a process without rights can see, too */
        return VGC_OK;
    int fd = vgc_pci_open(address, "config", O_RDWR);
    if (fd < 0)
        return vgc_fail_errno("cannot open the configuration space of %s", address);
    bool fine = pread(fd, &command, sizeof(command), PCI_COMMAND) == sizeof(command);
    command |= vgc_le16(set);
    fine = fine && pwrite(fd, &command, sizeof(command), PCI_COMMAND) == sizeof(command);
    int result = fine ? VGC_OK : vgc_fail_errno("cannot enable %s", address);
    (void)close(fd);
    return result;
}

/* ---- drivers and interrupts ----------------------------------------------------------------- */

static void read_driver(const char *path, char *driver, size_t room)
{
    char target[PATH_ROOM];
    ssize_t len = readlink(path, target, sizeof(target) - 1);
    target[len > 0 ? len : 0] = '\0';
    const char *name = strrchr(target, '/');
    (void)snprintf(driver, room, "%s", name != NULL ? name + 1 : "");
}

void vgc_pci_driver(const char *address, char *driver, size_t room)
{
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver", address);
    read_driver(path, driver, room);
}

/* Driver of the virtio device that virtio-pci has made of a function: "" if none. */
static void virtio_driver(const char *address, char *driver, size_t room)
{
    char path[PATH_ROOM];
    driver[0] = '\0';
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s", address);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (struct dirent *entry; driver[0] == '\0' && (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, "virtio", 6) != 0)
            continue;
        (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/%.64s/driver", address, entry->d_name);
        read_driver(path, driver, room);
    }
    (void)closedir(folder);
}

bool vgc_pci_uio(const char *address, char *node, size_t room)
{
    char path[PATH_ROOM];
    node[0] = '\0';
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/uio", address);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return false;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, "uio", 3) == 0)
            (void)snprintf(node, room, "/dev/%.20s", entry->d_name);
    (void)closedir(folder);
    return node[0] != '\0';
}

static int unbind(const char *address)
{
    char path[PATH_ROOM];
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver/unbind", address);
    return write_text(path, address);
}

int vgc_pci_release(const char *address, bool *was_virtio)
{
    char driver[64];
    vgc_pci_driver(address, driver, sizeof(driver));
    *was_virtio = false;
    if (driver[0] == '\0' || strcmp(driver, UIO_DRIVER) == 0)
        return VGC_OK;
    if (strcmp(driver, VIRTIO_DRIVER) == 0)
        virtio_driver(address, driver, sizeof(driver));
    if (driver[0] != '\0')
        return vgc_fail(VGC_NO_DEVICE,
                        "%s is used by the kernel's driver %s, so whose device it is was not looked at; if it is a "
                        "virtio-gpu-compute device, unbind that driver from it",
                        address, driver);
    int result = unbind(address);
    *was_virtio = result == VGC_OK;
    return result;
}

void vgc_pci_give_back(const char *address)
{
    (void)write_text("/sys/bus/pci/drivers_probe", address);
}

int vgc_pci_bind_uio(const char *address)
{
    char path[PATH_ROOM], driver[64];
    struct stat info;
    vgc_pci_driver(address, driver, sizeof(driver));
    if (strcmp(driver, UIO_DRIVER) == 0)
        return VGC_OK;
    if (stat("/sys/bus/pci/drivers/" UIO_DRIVER, &info) != 0)
        return vgc_fail(VGC_NO_DEVICE, "the kernel's " UIO_DRIVER " driver is not loaded: modprobe " UIO_DRIVER
                                       " (it is in the distribution's kernel package)");
    (void)snprintf(path, sizeof(path), PCI_DEVICES "/%s/driver_override", address);
    int result = write_text(path, UIO_DRIVER);
    if (result == VGC_OK)
        result = write_text("/sys/bus/pci/drivers_probe", address);
    if (result == VGC_OK)
        vgc_pci_driver(address, driver, sizeof(driver));
    if (result == VGC_OK && strcmp(driver, UIO_DRIVER) != 0)
        result = vgc_fail(VGC_SYSTEM, "%s did not bind to " UIO_DRIVER "; the kernel's log says why", address);
    int fd = result == VGC_OK ? -1 : open(path, O_WRONLY | O_CLOEXEC); /* or no other driver could have it again */
    if (fd >= 0) {
        (void)!write(fd, "\n", 1);
        (void)close(fd);
    }
    return result;
}

vgc_handle vgc_pci_open_interrupt(const char *node)
{
    return open(node, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

enum vgc_wakeup vgc_pci_wait_interrupt(vgc_handle interrupt, uint64_t timeout_ns)
{
    struct pollfd poll = {.fd = (int)interrupt, .events = POLLIN};
    struct timespec timeout = {(time_t)(timeout_ns / VGC_NS_PER_S), (long)(timeout_ns % VGC_NS_PER_S)};
    uint32_t count;
    if (ppoll(&poll, 1, &timeout, NULL) != 1)
        return VGC_WAKEUP_NONE;
    bool fine = read(poll.fd, &count, sizeof(count)) == sizeof(count) || errno == EAGAIN;
    return fine ? VGC_WAKEUP_CAME : VGC_WAKEUP_BROKEN;
}
