/* Included in front of every source by `make PORTABLE=1`: libvgc.so needs no symbol that is younger than glibc 2.17,
 * whatever glibc it is built with. On architectures to which glibc came later, none younger than its first version
 * there.
 *
 * Functions that have come since are system calls here. Those that have moved to another library, or got another form,
 * are bound to their old versions, which glibc keeps for programs of that time; the static library of glibc does not,
 * so there is no libvgc.a of this kind. */
#ifndef VGC_PORTABLE_H
#define VGC_PORTABLE_H

#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __GLIBC__
#error "PORTABLE=1 binds libvgc to old versions of glibc, and this C library is a different one"
#endif

#if defined(__x86_64__)
#define VGC_OLDEST "GLIBC_2.2.5"
#define VGC_OLDEST_SETCLOCK "GLIBC_2.3.3"
#define VGC_STAT_VERSION 1
#elif defined(__s390x__)
#define VGC_OLDEST "GLIBC_2.2"
#define VGC_OLDEST_SETCLOCK "GLIBC_2.3.3"
#define VGC_STAT_VERSION 1
#elif defined(__aarch64__)
#define VGC_OLDEST "GLIBC_2.17"
#define VGC_OLDEST_SETCLOCK VGC_OLDEST
#define VGC_STAT_VERSION 0
#elif defined(__riscv) && __riscv_xlen == 64
#define VGC_OLDEST "GLIBC_2.27"
#define VGC_OLDEST_SETCLOCK VGC_OLDEST
#define VGC_STAT_VERSION 0
#else
#error "PORTABLE=1 knows the first versions of glibc for x86-64, aarch64, riscv64 and s390x"
#endif

/* glibc 2.34 has moved these from libpthread to libc. */
__asm__(".symver pthread_once,pthread_once@" VGC_OLDEST);
__asm__(".symver pthread_mutex_trylock,pthread_mutex_trylock@" VGC_OLDEST);
__asm__(".symver pthread_condattr_setclock,pthread_condattr_setclock@" VGC_OLDEST_SETCLOCK);

/* Up to glibc 2.32, stat() and fstat() were inline functions around these. */
extern int __xstat(int version, const char *path, struct stat *info);
extern int __fxstat(int version, int fd, struct stat *info);
__asm__(".symver __xstat,__xstat@" VGC_OLDEST);
__asm__(".symver __fxstat,__fxstat@" VGC_OLDEST);
#define stat(path, info) __xstat(VGC_STAT_VERSION, path, info)
#define fstat(fd, info) __fxstat(VGC_STAT_VERSION, fd, info)

/* Functions of glibc 2.25 and 2.30. */
#define getrandom(buffer, size, flags) syscall(SYS_getrandom, buffer, size, flags)
#define gettid() ((pid_t)syscall(SYS_gettid))

#endif
