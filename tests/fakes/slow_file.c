/* To be preloaded: a clock in which reading one mapped file is slow. While VGC_SLOW_FILE is mapped, each look at the
 * monotonic clock takes a millisecond. Sanitizers look at it before they are ready for the C library's other functions,
 * so it calls none but getenv() and syscall(). For programs with one thread. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char maps[1 << 20];

static bool begins(const char *text, const char *end, const char *name)
{
    for (; *name != '\0'; text++, name++)
        if (text == end || *text != *name)
            return false;
    return true;
}

static bool is_mapped(const char *name)
{
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char *end = maps;
    for (long got = 1; got > 0; end += got > 0 ? got : 0)
        got = syscall(SYS_read, fd, end, maps + sizeof(maps) - end);
    (void)syscall(SYS_close, fd);
    for (const char *at = maps; at < end; at++)
        if (begins(at, end, name))
            return true;
    return false;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static long late_ms;
    const char *name = getenv("VGC_SLOW_FILE");
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result != 0 || clock != CLOCK_MONOTONIC || name == NULL)
        return result;
    late_ms += is_mapped(name);
    long ns = now->tv_nsec + late_ms % 1000 * 1000000;
    now->tv_sec += late_ms / 1000 + ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}
