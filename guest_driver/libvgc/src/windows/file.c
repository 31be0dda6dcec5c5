/* Files: opening, mapping, locks between processes. Paths are in the process's code page. */
#include "win32.h"

#include <fcntl.h>
#include <io.h>
#include <stdio.h>

#include "devices.h"

static HANDLE handle_of(vgc_handle file)
{
    return (HANDLE)file;
}

vgc_handle vgc_file_open(const char *path, enum vgc_file_access access)
{
    static const DWORD HOW[] = {[VGC_FILE_READ] = OPEN_EXISTING,
                                [VGC_FILE_CHANGE] = OPEN_EXISTING,
                                [VGC_FILE_MAKE] = OPEN_ALWAYS,
                                [VGC_FILE_EXCLUSIVE] = CREATE_NEW};
    DWORD rights = access == VGC_FILE_READ ? GENERIC_READ : GENERIC_READ | GENERIC_WRITE;
    DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    HANDLE file = CreateFileA(path, rights, shared, NULL, HOW[access], FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE)
        (void)vgc_failed_with(GetLastError());
    return (vgc_handle)file;
}

void vgc_file_close(vgc_handle file)
{
    (void)CloseHandle(handle_of(file));
}

bool vgc_file_is_trusted(vgc_handle file, const char *folder)
{
    (void)file, (void)folder; /* the folder's access list says who may write there */
    return true;
}

bool vgc_file_size(vgc_handle file, uint64_t *bytes)
{
    LARGE_INTEGER size;
    if (!GetFileSizeEx(handle_of(file), &size))
        return vgc_failed_with(GetLastError());
    *bytes = (uint64_t)size.QuadPart;
    return true;
}

bool vgc_file_resize(vgc_handle file, uint64_t bytes)
{
    uint64_t before = 0;
    LARGE_INTEGER end = {.QuadPart = (LONGLONG)bytes};
    if (!vgc_file_size(file, &before))
        return false;
    if (before >= bytes) /* what others have mapped cannot become shorter */
        return true;
    if (!SetFilePointerEx(handle_of(file), end, NULL, FILE_BEGIN) || !SetEndOfFile(handle_of(file)))
        return vgc_failed_with(GetLastError());
    return true;
}

bool vgc_file_reserve(vgc_handle file, uint64_t offset, size_t bytes)
{
    return vgc_file_resize(file, offset + bytes); /* NTFS gives files that are not sparse their clusters here */
}

/* ---- mappings ------------------------------------------------------------------------------- */

void *vgc_file_map(vgc_handle file, uint64_t offset, size_t bytes, bool writable)
{
    HANDLE mapping = CreateFileMappingA(handle_of(file), NULL, writable ? PAGE_READWRITE : PAGE_READONLY, 0, 0, NULL);
    if (mapping == NULL) {
        (void)vgc_failed_with(GetLastError());
        return NULL;
    }
    DWORD access = writable ? FILE_MAP_READ | FILE_MAP_WRITE : FILE_MAP_READ;
    void *view = MapViewOfFile(mapping, access, (DWORD)(offset >> 32), (DWORD)offset, bytes);
    if (view == NULL)
        (void)vgc_failed_with(GetLastError());
    (void)CloseHandle(mapping); /* the view keeps it */
    return view;
}

void vgc_unmap(void *pointer, size_t bytes)
{
    (void)bytes;
    if (!vgc_ivshmem_release(pointer) && !vgc_netuio_release(pointer))
        (void)UnmapViewOfFile(pointer);
}

bool vgc_move_mapping(void *pointer, size_t bytes, void *wanted)
{
    (void)pointer, (void)bytes, (void)wanted; /* neither views nor the ivshmem driver's mappings can be moved */
    return false;
}

/* ---- locks ---------------------------------------------------------------------------------- */

static OVERLAPPED at_byte(uint64_t byte)
{
    return (OVERLAPPED){.Offset = (DWORD)byte, .OffsetHigh = (DWORD)(byte >> 32)};
}

static bool lock(vgc_handle file, uint64_t byte, DWORD bytes)
{
    OVERLAPPED at = at_byte(byte);
    const DWORD how = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    return LockFileEx(handle_of(file), how, 0, bytes, 0, &at) || vgc_failed_with(GetLastError());
}

bool vgc_file_lock(vgc_handle file, uint64_t byte)
{
    return lock(file, byte, 1);
}

void vgc_file_unlock(vgc_handle file, uint64_t byte)
{
    OVERLAPPED at = at_byte(byte);
    (void)UnlockFileEx(handle_of(file), 0, 1, 0, &at);
}

/* A second process that asks at the same moment is told that the byte is locked. */
bool vgc_file_is_locked(vgc_handle file, uint64_t byte)
{
    if (!vgc_file_lock(file, byte))
        return true;
    vgc_file_unlock(file, byte);
    return false;
}

bool vgc_file_lock_whole(const char *path, vgc_handle *file)
{
    if (*file == VGC_NO_HANDLE)
        *file = vgc_file_open(path, VGC_FILE_MAKE);
    return *file != VGC_NO_HANDLE && lock(*file, 0, MAXDWORD);
}

/* ---- names ---------------------------------------------------------------------------------- */

bool vgc_folder_make(const char *path, bool is_private)
{
    (void)is_private; /* rights come from the folder above it */
    if (CreateDirectoryA(path, NULL) || GetLastError() == ERROR_ALREADY_EXISTS)
        return true;
    return vgc_failed_with(GetLastError());
}

static FILE *stream_of(vgc_handle file, int flags, const char *mode)
{
    int fd = file == VGC_NO_HANDLE ? -1 : _open_osfhandle(file, flags);
    FILE *stream = fd >= 0 ? _fdopen(fd, mode) : NULL;
    if (stream == NULL && fd >= 0)
        (void)_close(fd);
    else if (stream == NULL && file != VGC_NO_HANDLE)
        vgc_file_close(file);
    return stream;
}

FILE *vgc_stream_old(const char *path)
{
    vgc_handle file = vgc_file_open(path, VGC_FILE_READ);
    if (file != VGC_NO_HANDLE && GetFileType(handle_of(file)) != FILE_TYPE_DISK) {
        vgc_file_close(file);
        file = VGC_NO_HANDLE;
    }
    return stream_of(file, _O_RDONLY, "rb");
}

FILE *vgc_stream_new(const char *path)
{
    return stream_of(vgc_file_open(path, VGC_FILE_EXCLUSIVE), 0, "wb");
}

bool vgc_file_is_special(const char *path)
{
    DWORD attributes = GetFileAttributesA(path);
    return attributes != INVALID_FILE_ATTRIBUTES &&
           (attributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) != 0;
}

bool vgc_file_replace(const char *from, const char *to)
{
    return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) || vgc_failed_with(GetLastError());
}
