/* Files: opening, mapping, locks between processes. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../internal.h"
#include "owner.h"

vgc_handle vgc_file_open(const char *path, enum vgc_file_access access)
{
    static const int FLAGS[] = {[VGC_FILE_READ] = O_RDONLY,
                                [VGC_FILE_CHANGE] = O_RDWR,
                                [VGC_FILE_MAKE] = O_RDWR | O_CREAT,
                                [VGC_FILE_EXCLUSIVE] = O_RDWR | O_CREAT | O_EXCL};
    return open(path, FLAGS[access] | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void vgc_file_close(vgc_handle file)
{
    (void)close((int)file);
}

bool vgc_file_size(vgc_handle file, uint64_t *bytes)
{
    struct stat status;
    if (fstat((int)file, &status) != 0)
        return false;
    *bytes = (uint64_t)status.st_size;
    return true;
}

bool vgc_file_resize(vgc_handle file, uint64_t bytes)
{
    return ftruncate((int)file, (off_t)bytes) == 0;
}

bool vgc_file_reserve(vgc_handle file, uint64_t offset, size_t bytes)
{
    return posix_fallocate((int)file, (off_t)offset, (off_t)bytes) == 0;
}

/* ---- owners --------------------------------------------------------------------------------- */

bool vgc_is_root(uid_t user)
{
    struct stat kernel;
    return user == 0 || (stat("/proc/sys/kernel", &kernel) == 0 && user == kernel.st_uid);
}

/* A file with a second name may be one of another folder, which a link has brought here. */
bool vgc_file_is_trusted(vgc_handle file, const char *folder)
{
    struct stat status, parent;
    if (fstat((int)file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1)
        return false;
    return vgc_is_root(status.st_uid) || status.st_uid == geteuid() ||
           (stat(folder, &parent) == 0 && status.st_uid == parent.st_uid);
}

/* ---- mappings ------------------------------------------------------------------------------- */

void *vgc_file_map(vgc_handle file, uint64_t offset, size_t bytes, bool writable)
{
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *mapped = mmap(NULL, bytes, protection, MAP_SHARED, (int)file, (off_t)offset);
    return mapped != MAP_FAILED ? mapped : NULL;
}

void vgc_unmap(void *pointer, size_t bytes)
{
    (void)munmap(pointer, bytes);
}

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

bool vgc_move_mapping(void *pointer, size_t bytes, void *wanted)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *got = mmap(wanted, bytes, PROT_NONE, flags, -1, 0);
    if (got == MAP_FAILED)
        return false;
    if (got != wanted || mremap(pointer, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, wanted) != wanted) {
        (void)munmap(got, bytes); /* a kernel before 4.17 maps elsewhere */
        return false;
    }
    return true;
}

/* ---- locks ---------------------------------------------------------------------------------- */

static struct flock byte_lock(short type, uint64_t byte)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

bool vgc_file_lock(vgc_handle file, uint64_t byte)
{
    struct flock lock = byte_lock(F_WRLCK, byte);
    if (fcntl((int)file, F_OFD_SETLK, &lock) == 0)
        return true;
    if (errno == EACCES || errno == EINTR)
        errno = EAGAIN;
    return false;
}

void vgc_file_unlock(vgc_handle file, uint64_t byte)
{
    struct flock lock = byte_lock(F_UNLCK, byte);
    (void)fcntl((int)file, F_OFD_SETLK, &lock);
}

bool vgc_file_is_locked(vgc_handle file, uint64_t byte)
{
    struct flock lock = byte_lock(F_WRLCK, byte);
    return fcntl((int)file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool vgc_file_lock_whole(const char *path, vgc_handle *file)
{
    if (*file == VGC_NO_HANDLE)
        *file = vgc_file_open(path, VGC_FILE_MAKE);
    return *file != VGC_NO_HANDLE && flock((int)*file, LOCK_EX | LOCK_NB) == 0;
}

/* ---- names ---------------------------------------------------------------------------------- */

bool vgc_folder_make(const char *path, bool is_private)
{
    return mkdir(path, is_private ? 0700 : 0755) == 0 || errno == EEXIST;
}

FILE *vgc_stream_old(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    FILE *file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? fdopen(fd, "r") : NULL;
    if (file == NULL)
        (void)close(fd);
    return file;
}

FILE *vgc_stream_new(const char *path)
{
    return fopen(path, "wex");
}

bool vgc_file_is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

bool vgc_file_replace(const char *from, const char *to)
{
    return rename(from, to) == 0;
}
