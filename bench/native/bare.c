/* Bare primitives that serve as baselines: eventfds, a shared cache line, naps, memcpy. */
#define _GNU_SOURCE /* CPU_SET */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "vgcb.h"

/* Forks a child on `cpu` that dies with its parent; it may make only async-signal-safe calls. */
static pid_t fork_partner(int cpu)
{
    pid_t partner = fork();
    if (partner == 0) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(cpu, &cpus);
        sched_setaffinity(0, sizeof(cpus), &cpus);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return partner;
}

static void end_partner(pid_t partner)
{
    kill(partner, SIGKILL);
    while (waitpid(partner, NULL, 0) < 0 && errno == EINTR) {
    }
}

static _Noreturn void answer_eventfd(int ping, int pong)
{
    uint64_t value = 0;
    while (read(ping, &value, sizeof(value)) == sizeof(value) && write(pong, &value, sizeof(value)) == sizeof(value)) {
    }
    _exit(1);
}

static int ping_eventfd(int ping, int pong, uint32_t count, uint64_t idle_ns, uint64_t *ns_out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = 1;
        vgcb_rest(idle_ns);
        uint64_t start = vgcb_now_ns();
        if (write(ping, &value, sizeof(value)) < 0 || read(pong, &value, sizeof(value)) < 0) {
            return -errno;
        }
        ns_out[i] = vgcb_now_ns() - start;
    }
    return 0;
}

int vgcb_eventfd_ping_pong(int partner_cpu, uint32_t count, uint64_t idle_ns, uint64_t *ns_out)
{
    int ping = eventfd(0, EFD_CLOEXEC);
    int pong = eventfd(0, EFD_CLOEXEC);
    int rc = ping < 0 || pong < 0 ? -errno : 0;
    pid_t partner = rc == 0 ? fork_partner(partner_cpu) : -1;
    if (partner == 0) {
        answer_eventfd(ping, pong);
    }
    if (rc == 0) {
        rc = partner < 0 ? -errno : ping_eventfd(ping, pong, count, idle_ns, ns_out);
    }
    if (partner > 0) {
        end_partner(partner);
    }
    close(ping);
    close(pong);
    return rc;
}

struct lines {
    alignas(64) _Atomic uint32_t ping;
    alignas(64) _Atomic uint32_t pong;
};

static _Noreturn void answer_line(struct lines *lines)
{
    for (uint32_t seen = 0;;) {
        uint32_t now = atomic_load_explicit(&lines->ping, memory_order_acquire);
        if (now != seen) {
            seen = now;
            atomic_store_explicit(&lines->pong, now, memory_order_release);
        }
        vgcb_pause();
    }
}

int vgcb_cache_line_ping_pong(int partner_cpu, uint32_t count, uint64_t *ns_out)
{
    struct lines *lines = mmap(NULL, sizeof(*lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED) {
        return -errno;
    }
    pid_t partner = fork_partner(partner_cpu);
    if (partner == 0) {
        answer_line(lines);
    }
    int rc = partner < 0 ? -errno : 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        uint64_t start = vgcb_now_ns();
        atomic_store_explicit(&lines->ping, i + 1, memory_order_release);
        while (atomic_load_explicit(&lines->pong, memory_order_acquire) != i + 1) {
            vgcb_pause();
        }
        ns_out[i] = vgcb_now_ns() - start;
    }
    if (partner > 0) {
        end_partner(partner);
    }
    munmap(lines, sizeof(*lines));
    return rc;
}

static int nap(int epoll_fd, uint32_t count, const struct timespec *limit, uint64_t *ns_out)
{
    for (uint32_t i = 0; i < count; i++) {
        struct epoll_event event;
        uint64_t start = vgcb_now_ns();
        if (epoll_pwait2(epoll_fd, &event, 1, limit, NULL) < 0) {
            return -errno;
        }
        ns_out[i] = vgcb_now_ns() - start;
    }
    return 0;
}

int vgcb_naps(uint32_t count, uint64_t nap_ns, uint64_t slack_ns, uint64_t *ns_out)
{
    const struct timespec limit = {.tv_sec = (time_t)(nap_ns / 1000000000u), .tv_nsec = (long)(nap_ns % 1000000000u)};
    int before_ns = prctl(PR_GET_TIMERSLACK);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = before_ns < 0 || epoll_fd < 0 || prctl(PR_SET_TIMERSLACK, slack_ns) != 0 ? -errno : 0;
    if (rc == 0) {
        rc = nap(epoll_fd, count, &limit, ns_out);
    }
    if (before_ns > 0) {
        prctl(PR_SET_TIMERSLACK, before_ns);
    }
    if (epoll_fd >= 0) {
        close(epoll_fd);
    }
    return rc;
}

void vgcb_memcpy(uint8_t *dst, const uint8_t *src, uint64_t size, uint64_t slice, uint32_t count, uint64_t *ns_out)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = vgcb_now_ns();
        for (uint64_t done = 0; done < size; done += slice) {
            memcpy(dst + done, src + done, size - done < slice ? size - done : slice);
            __asm__ volatile("" : : "r"(dst) : "memory"); /* keeps the copy although no code reads it */
        }
        ns_out[i] = vgcb_now_ns() - start;
    }
}
