/* NVDIMMs in devdax mode (/dev/daxN.M) through sysfs: memory that a guest maps cached, whatever its PAT says of BARs.
 *
 * QEMU shows the file of a region as an NVDIMM, too. What the kernel calls a region is the whole of it (here: the
 * file); a devdax in it begins behind what the kernel keeps at its begin, a page of which names the devdax by its uuid.
 * So a devdax can be told to be another mapping of a file without a byte being written. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../dax.h"
#include "pci.h"

#define DAX_DEVICES "/sys/bus/dax/devices"

enum { PATH_ROOM = 512 };

/* ---- the kernel's page ---------------------------------------------------------------------- */

struct info_block { /* begin of the kernel's struct nd_pfn_sb */
    char signature[16];
    uint8_t uuid[16];
};

bool vgc_dax_is_file(const struct vgc_dax *dax, const uint8_t *file)
{
    static const char SIGNATURE[16] = "NVDIMM_DAX_INFO";
    struct info_block block;
    memcpy(&block, file + VGC_DAX_INFO_OFFSET, sizeof(block));
    return dax->has_uuid && memcmp(block.signature, SIGNATURE, sizeof(SIGNATURE)) == 0 &&
           memcmp(block.uuid, dax->uuid, sizeof(block.uuid)) == 0;
}

/* ---- finding -------------------------------------------------------------------------------- */

static bool read_line(const char *folder, const char *file, char *line, size_t room)
{
    char path[PATH_ROOM];
    if (snprintf(path, sizeof(path), "%s/%s", folder, file) >= (int)sizeof(path))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, line, room - 1);
    (void)close(fd);
    line[len > 0 ? len : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return len > 0;
}

static bool read_number(const char *folder, const char *file, uint64_t *number)
{
    char line[32], *end;
    if (!read_line(folder, file, line, sizeof(line)))
        return false;
    *number = strtoull(line, &end, 0);
    return end != line && *end == '\0';
}

static bool read_uuid(const char *folder, uint8_t uuid[16])
{
    char line[64];
    int count = 0;
    if (!read_line(folder, "uuid", line, sizeof(line)))
        return false;
    for (const char *at = line; *at != '\0' && count < 16; at++) {
        unsigned byte;
        if (*at == '-')
            continue;
        if (sscanf(at, "%2x", &byte) != 1)
            return false;
        uuid[count++] = (uint8_t)byte;
        at++;
    }
    return count == 16;
}

/* Cuts the last part off a path. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* The devdax lies in a device of libnvdimm's that has its uuid, and that in a region of libnvdimm's. Addresses are
 * root's to read; others get 0, and the sizes. */
static bool read_dax(const char *name, struct vgc_dax *dax)
{
    char path[PATH_ROOM], folder[PATH_ROOM];
    uint64_t file_gpa = 0;
    *dax = (struct vgc_dax){0};
    if (strlen(name) >= sizeof(dax->name) || strchr(name, '/') != NULL)
        return false;
    (void)snprintf(dax->name, sizeof(dax->name), "%s", name);
    (void)snprintf(path, sizeof(path), DAX_DEVICES "/%s", dax->name);
    char *real = realpath(path, NULL);
    bool fits = real != NULL && strlen(real) < sizeof(folder);
    if (fits)
        memcpy(folder, real, strlen(real) + 1);
    free(real);
    if (!fits || !read_number(folder, "size", &dax->bytes))
        return false;
    (void)read_number(folder, "resource", &dax->gpa);
    if (!to_parent(folder))
        return false;
    dax->has_uuid = read_uuid(folder, dax->uuid);
    if (!to_parent(folder) || !read_number(folder, "size", &dax->file_bytes))
        return false;
    (void)read_number(folder, "resource", &file_gpa);
    dax->offset = dax->gpa - file_gpa;
    return dax->bytes != 0 && dax->offset <= dax->file_bytes && dax->bytes <= dax->file_bytes - dax->offset;
}

int vgc_dax_find(struct vgc_dax *found, size_t room, size_t *count)
{
    *count = 0;
    DIR *folder = opendir(DAX_DEVICES);
    if (folder == NULL)
        return VGC_OK; /* a kernel without them */
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && *count < room;)
        if (entry->d_name[0] != '.' && read_dax(entry->d_name, &found[*count]))
            (*count)++;
    (void)closedir(folder);
    return VGC_OK;
}

int vgc_dax_named(const char *name, struct vgc_dax *dax)
{
    if (read_dax(name, dax))
        return VGC_OK;
    return vgc_fail(VGC_NO_DEVICE,
                    "there is no NVDIMM in devdax mode called '%s' (in " DAX_DEVICES
                    "); 'vgc region --devdax' makes one of an NVDIMM",
                    name);
}

/* ---- mapping -------------------------------------------------------------------------------- */

static void path_of(const char *name, char *path)
{
    (void)snprintf(path, PATH_ROOM, "/dev/%.31s", name);
}

int vgc_dax_map(const struct vgc_dax *dax, uint8_t **pointer)
{
    char path[PATH_ROOM];
    path_of(dax->name, path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return vgc_fail_errno("cannot open %s", path);
    void *at = mmap(NULL, dax->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int result = at == MAP_FAILED ? vgc_fail_errno("cannot map %s", path) : VGC_OK;
    (void)close(fd);
    *pointer = at == MAP_FAILED ? NULL : at;
    return result;
}

int vgc_dax_grant(const char *name, gid_t group)
{
    char path[PATH_ROOM];
    path_of(name, path);
    bool fine = chown(path, (uid_t)-1, group) == 0 && chmod(path, 0660) == 0;
    return fine ? VGC_OK : vgc_fail_errno("cannot give a group %s", path);
}
