/* Opens a vhost-user device as libblkio does a disk: blkio_frontend SOCKET. It prints what it was told, and ends. */
#include <blkio.h>
#include <inttypes.h>
#include <stdio.h>

static int check(const char *what, int result)
{
    if (result != 0)
        printf("%s: %s\n", what, blkio_get_error_msg());
    return result;
}

int main(int argc, char **argv)
{
    struct blkio *disk;
    uint64_t capacity;
    if (argc != 2 || check("create", blkio_create("virtio-blk-vhost-user", &disk)) != 0)
        return 2;
    int failed = check("path", blkio_set_str(disk, "path", argv[1])) || check("connect", blkio_connect(disk)) ||
                 check("capacity", blkio_get_uint64(disk, "capacity", &capacity)) || check("start", blkio_start(disk));
    if (!failed)
        printf("capacity %" PRIu64 "\n", capacity);
    blkio_destroy(&disk);
    return failed ? 1 : 0;
}
