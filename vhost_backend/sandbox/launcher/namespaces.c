#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The kernel takes a change of a session's nice value from ordinary users ten times a second, all users together. */
#define AUTOGROUP_TRIES 10
#define AUTOGROUP_PAUSE_NS 110000000

int vgc_open_proc(void)
{
    int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    vgc_check(fd, "/proc", "open /proc");
    return fd;
}

static void write_proc(int proc_fd, pid_t pid, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
    int fd = openat(proc_fd, path, O_WRONLY | O_CLOEXEC);
    vgc_check(fd, "user namespaces", path);
    vgc_check(write(fd, text, strlen(text)), "user namespaces", path);
    close(fd);
}

static void write_map(int proc_fd, pid_t pid, const char *name, unsigned inside, unsigned outside)
{
    char text[64];
    snprintf(text, sizeof(text), "%u %u 1\n", inside, outside);
    write_proc(proc_fd, pid, name, text);
}

/* Makes an ordinary user root of a namespace, in which it has the privileges to build a sandbox, and in which there are
 * its own ids and, if the job has others, the job's. */
void vgc_become_namespace_root(int proc_fd, const struct vgc_options *options)
{
    struct vgc_mapper mapper;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (options->has_ids)
        mapper = vgc_start_mapper(options);
    vgc_check(unshare(CLONE_NEWUSER), "user namespaces", "unshare(CLONE_NEWUSER)");
    if (options->has_ids) {
        vgc_finish_mapper(mapper);
        return;
    }
    pid_t self = getpid();
    write_proc(proc_fd, self, "setgroups", "deny");
    write_map(proc_fd, self, "uid_map", uid, uid);
    write_map(proc_fd, self, "gid_map", gid, gid);
}

void vgc_unshare_all(void)
{
    static const struct {
        int flag;
        const char *feature;
    } kinds[] = {
        {CLONE_NEWNS, "mount namespaces"}, {CLONE_NEWNET, "network namespaces"}, {CLONE_NEWIPC, "IPC namespaces"},
        {CLONE_NEWUTS, "UTS namespaces"},  {CLONE_NEWPID, "PID namespaces"},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        vgc_check(unshare(kinds[i].flag), kinds[i].feature, "unshare");
}

/* Maps one id into the job's user namespace: its outer id, to itself or (`own_root`) to root. */
void vgc_map_job(int proc_fd, pid_t job, const struct vgc_options *options)
{
    uid_t uid = options->has_ids ? options->uid : geteuid();
    gid_t gid = options->has_ids ? options->gid : getegid();
    write_proc(proc_fd, job, "setgroups", "deny");
    write_map(proc_fd, job, "uid_map", options->own_root ? 0 : uid, uid);
    write_map(proc_fd, job, "gid_map", options->own_root ? 0 : gid, gid);
}

/* Writes a number into a file of the job's /proc. A courtesy to the host, no wall: failure is no error. False: the
 * kernel takes the number later. */
static bool offer(int proc_fd, pid_t job, const char *name, int number)
{
    char path[64];
    snprintf(path, sizeof(path), "%d/%s", (int)job, name);
    int fd = openat(proc_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    bool later = dprintf(fd, "%d", number) < 0 && errno == EAGAIN;
    close(fd);
    return !later;
}

/* Has the kernel's out-of-memory killer prefer the job. */
void vgc_offer_to_oom_killer(int proc_fd, pid_t job, int score)
{
    (void)offer(proc_fd, job, "oom_score_adj", score);
}

/* Gives the job's session its weight beside others, once the job has one. Where the kernel shares processors among
 * sessions (autogroup), the nice values of processes count within their session only. */
void vgc_weigh_session(int proc_fd, pid_t job, int nice)
{
    for (int tries = 0; !offer(proc_fd, job, "autogroup", nice) && tries < AUTOGROUP_TRIES; tries++)
        nanosleep(&(struct timespec){.tv_nsec = AUTOGROUP_PAUSE_NS}, NULL);
}

void vgc_drop_capabilities(void)
{
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0); /* fails only where there is nothing to drop */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    vgc_check(syscall(SYS_capset, &header, none), "capabilities", "capset");
}
