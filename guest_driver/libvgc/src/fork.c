/* Whether this process is still the one that made something, asked with each request: without a system call. */
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

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
