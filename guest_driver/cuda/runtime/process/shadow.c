/* Shadow mode of whole programs: `vgc shadow PROGRAM` runs a program on two devices, in two processes, and compares
 * what each copy from the device brings, and what kernels may have left in memory that the host sees without a copy.
 * This side writes these bytes to the file descriptor $VGC_SHADOW_FD, with the names of the kernels that were launched
 * before (guest_driver/shadow_run.py reads them). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime.h"

enum { MAGIC = 0x31534756, NAMES_BYTES = 4096 };

struct record { /* names, then bytes, follow */
    uint32_t magic;
    uint32_t names_len;
    uint64_t size;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int fd = -1;
static pid_t owner;
static char names[NAMES_BYTES]; /* one per line */
static size_t names_len;
static bool are_told; /* a copy has told them; the next launch begins anew */
static _Atomic uint64_t num_launches;

static void find_fd(void)
{
    const char *value = getenv("VGC_SHADOW_FD");
    if (value != NULL)
        fd = (int)strtol(value, NULL, 10);
    owner = getpid();
}

bool rt_is_shadowed(void)
{
    (void)pthread_once(&once, find_fd);
    return fd >= 0 && owner == getpid();
}

void rt_shadow_launched(const char *name)
{
    size_t len = strlen(name);
    (void)pthread_mutex_lock(&mutex);
    (void)atomic_fetch_add(&num_launches, 1);
    if (are_told)
        names_len = 0;
    are_told = false;
    bool is_repeated = names_len > len && memcmp(names + names_len - len - 1, name, len) == 0 &&
                       (names_len == len + 1 || names[names_len - len - 2] == '\n');
    if (!is_repeated && names_len + len + 1 <= sizeof(names)) {
        memcpy(names + names_len, name, len);
        names[names_len + len] = '\n';
        names_len += len + 1;
    }
    (void)pthread_mutex_unlock(&mutex);
}

static bool write_all(const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t done = write(fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false; /* nobody compares any more */
        at += done;
        size -= (size_t)done;
    }
    return true;
}

void rt_shadow_copied(const void *host, size_t size)
{
    (void)pthread_mutex_lock(&mutex);
    const struct record record = {MAGIC, (uint32_t)names_len, size};
    if (!write_all(&record, sizeof(record)) || !write_all(names, names_len) || !write_all(host, size))
        fd = -1;
    are_told = true;
    (void)pthread_mutex_unlock(&mutex);
}

bool rt_shadow_is_due(uint64_t *seen)
{
    uint64_t now = atomic_load(&num_launches);
    bool is_due = now != *seen;
    *seen = now;
    return is_due;
}
