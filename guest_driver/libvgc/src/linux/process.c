/* The process, its environment and its rights. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../internal.h"

/* ---- whether this process is still the one that made something, asked with each request: without a system call --- */

/* The kernel gives children of fork(), however they are made, a page of zeros in its place. */
static _Atomic uint32_t *page;
static _Atomic uint32_t last; /* number that was given; children go on from their parent's */

__attribute__((constructor)) static void make_page(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return;
    if (madvise(mapped, bytes, MADV_WIPEONFORK) != 0) { /* before Linux 4.14 */
        (void)munmap(mapped, bytes);
        return;
    }
    page = mapped;
}

uint32_t vgc_process(void)
{
    if (page == NULL)
        return (uint32_t)getpid();
    uint32_t number = atomic_load_explicit(page, memory_order_relaxed);
    if (number != 0)
        return number;
    uint32_t next = atomic_fetch_add(&last, 1) + 1;
    return atomic_compare_exchange_strong(page, &number, next) ? next : number;
}

void vgc_in_children(void (*call)(void))
{
    (void)pthread_atfork(NULL, NULL, call);
}

/* ---- names and environment ------------------------------------------------------------------ */

int vgc_thread_id(void)
{
    return (int)gettid();
}

const char *vgc_program_name(void)
{
    return program_invocation_short_name;
}

const char *vgc_variable(const char *name)
{
    return secure_getenv(name);
}

const char *vgc_default_state_dir(void)
{
    return "/run/vgc";
}

bool vgc_cache_folder(char *path, size_t room)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    if (cache != NULL && cache[0] == '/')
        (void)snprintf(path, room, "%s", cache);
    else if (home != NULL && home[0] == '/')
        (void)snprintf(path, room, "%s/.cache", home);
    else
        return false;
    (void)mkdir(path, 0700);
    return true;
}

/* ---- the guest, and what it allows ---------------------------------------------------------- */

const char vgc_denied_hint[] =
    " (libvgc needs root rights, or those of a group to which 'vgc grant GROUP' gave the device)";

const char *vgc_error_text(int error)
{
    return strerror(error);
}

bool vgc_random(void *bytes, size_t size)
{
    return getrandom(bytes, size, 0) == (ssize_t)size;
}

void vgc_boot_id(char *text, size_t room)
{
    memset(text, 0, room);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t len = read(fd, text, room - 1);
    (void)close(fd);
    if (len < 0)
        text[0] = '\0';
}

bool vgc_file_may_have(uint64_t bytes)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && bytes <= most.rlim_cur;
}
