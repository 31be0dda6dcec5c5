/* The GPU as a resource that processes share: which processes have it open, and whose turn it is.
 *
 * All processes lock bytes of a file beside the library, in place of the device node. The operating system releases the
 * locks of a process that ends in any way. The file is a named pipe: these locks require opening for writing, and a
 * pipe can be opened for writing on a read-only mount too, which is all that a sandboxed worker has. Without such a
 * file this process has the GPU for itself. */
#define _GNU_SOURCE /* dladdr, memfd_create, F_OFD_SETLKW */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

static int node = -1;

bool fake_node_open(void)
{
    char path[4096];
    Dl_info library;
    if (node >= 0)
        return true;
    if (!dladdr(&fake, &library))
        return false;
    snprintf(path, sizeof path, "%s.device", library.dli_fname);
    node = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (node < 0 && errno == ENOENT)
        node = memfd_create("fake-cuda-device", MFD_CLOEXEC);
    return node >= 0;
}

void fake_node_close(void)
{
    if (node >= 0)
        close(node);
    node = -1;
}

static void change(int command, short type, enum fake_node_lock what)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = what, .l_len = 1};
    while (fcntl(node, command, &lock) != 0)
        if (errno != EINTR)
            abort(); /* without locks tests could pass that should fail */
}

void fake_node_lock(enum fake_node_lock what)
{
    change(F_OFD_SETLKW, F_WRLCK, what);
}

void fake_node_unlock(enum fake_node_lock what)
{
    change(F_OFD_SETLK, F_UNLCK, what);
}

static bool is_open_elsewhere(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FAKE_NODE_OPEN, .l_len = 1};
    if (fcntl(node, F_OFD_GETLK, &lock) != 0)
        abort();
    return lock.l_type != F_UNLCK;
}

/* The GPU is shut down when the last process closes it, so that nvidia-persistenced, for example, keeps it running. A
 * process that opens it during its start waits. [open-gpu-kernel-modules: nv.c, nv_start_device] */
bool fake_gpu_open(void)
{
    struct fake_hardware *hardware = &fake.settings.hardware;
    if (!hardware->start_ms && !hardware->slice_ms)
        return true;
    if (!fake_node_open())
        return false;
    if (!hardware->start_ms)
        return true;
    fake_node_lock(FAKE_NODE_STARTING);
    if (!is_open_elsewhere()) {
        struct timespec time = {.tv_sec = hardware->start_ms / 1000, .tv_nsec = hardware->start_ms % 1000 * 1000000L};
        fake_log_note("the GPU starts");
        hardware->starts++;
        while (nanosleep(&time, &time) != 0)
            ;
    }
    change(F_OFD_SETLK, F_RDLCK, FAKE_NODE_OPEN);
    fake_node_unlock(FAKE_NODE_STARTING);
    return true;
}
