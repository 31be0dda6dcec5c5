/* Facts that root leaves in the folder of state for processes that cannot find them out: ADDRESS.grant. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../virtio.h"
#include "owner.h"

enum { PATH_ROOM = 512 };

static int path_of(const char *state_dir, const char *name, const char *suffix, char *path)
{
    if (snprintf(path, PATH_ROOM, "%s/%s.grant%s", state_dir, name, suffix) >= PATH_ROOM)
        return vgc_fail(VGC_INVALID_ARGUMENT, "the path of the state folder is too long: %s", state_dir);
    return VGC_OK;
}

struct vgc_grant *vgc_virtio_granted(const struct virtio_pci *pci)
{
    char path[PATH_ROOM];
    struct vgc_grant *grant = calloc(1, sizeof(*grant));
    if (grant == NULL || path_of(pci->state_dir, pci->base.name, "", path) != VGC_OK) {
        free(grant);
        return NULL;
    }
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool is_roots = fd >= 0 && fstat(fd, &info) == 0 && vgc_is_root(info.st_uid);
    bool is_whole = is_roots && read(fd, grant, sizeof(*grant)) == sizeof(*grant);
    if (fd >= 0)
        (void)close(fd);
    grant->region_address[sizeof(grant->region_address) - 1] = '\0';
    if (is_whole && strchr(grant->region_address, '/') == NULL)
        return grant;
    free(grant);
    return NULL;
}

/* Readers see a whole file or none. */
int vgc_virtio_leave_grant(const char *state_dir, const char *name, const struct vgc_grant *grant)
{
    char path[PATH_ROOM], fresh[PATH_ROOM];
    int result = path_of(state_dir, name, "", path);
    if (result == VGC_OK)
        result = path_of(state_dir, name, ".new", fresh);
    if (result != VGC_OK)
        return result;
    (void)unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return vgc_fail_errno("cannot make %s", fresh);
    bool fine = write(fd, grant, sizeof(*grant)) == sizeof(*grant) && fchmod(fd, 0644) == 0;
    fine = close(fd) == 0 && fine && rename(fresh, path) == 0;
    return fine ? VGC_OK : vgc_fail_errno("cannot write %s", path);
}
