/* Last steps of the job before its program: ids, capabilities, limits, file descriptors, filter. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_FILTER = 4096 };

extern char **environ;

/* Joins the control groups, before anything that they are to count. "0" stands for the process that writes it. */
static void join_cgroups(const struct vgc_options *options)
{
    for (size_t i = 0; i < options->num_cgroups; i++)
        vgc_check(write(options->cgroup_fds[i], "0", 1), "control groups", "join");
}

/* Enters a new user namespace: no privilege over the outer namespaces, and a separate count of processes. */
static void enter_user_namespace(const struct vgc_options *options, struct vgc_handshake handshake)
{
    char byte = 0;
    vgc_check(unshare(CLONE_NEWUSER | (options->own_root ? CLONE_NEWNS : 0)), "user namespaces",
              "unshare(CLONE_NEWUSER)");
    vgc_check(write(handshake.job_end, &byte, 1), "user namespaces", "handshake");
    if (read(handshake.job_end, &byte, 1) != 1)
        _exit(VGC_EXIT_SETUP); /* the launcher has reported the error */
    if (options->own_root) {
        vgc_check(setresgid(0, 0, 0), "user namespaces", "setresgid");
        vgc_check(setresuid(0, 0, 0), "user namespaces", "setresuid");
    }
}

static void become_unprivileged(const struct vgc_options *options)
{
    if (options->has_ids) {
        vgc_check(setresgid(options->gid, options->gid, options->gid), "user ids", "setresgid");
        vgc_check(setresuid(options->uid, options->uid, options->uid), "user ids", "setresuid");
    }
    vgc_drop_capabilities();
}

static void set_nice(const struct vgc_options *options)
{
    errno = 0;
    if (nice(options->nice) == -1 && errno != 0)
        vgc_die("priorities", "nice: %s", strerror(errno));
}

static void set_limits(const struct vgc_options *options)
{
    for (size_t i = 0; i < options->num_limits; i++) {
        struct rlimit limit = {options->limits[i].value, options->limits[i].value};
        vgc_check(setrlimit(options->limits[i].resource, &limit), "resource limits", "setrlimit");
    }
}

static void replace_stdio(const struct vgc_options *options)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    vgc_check(null_fd, "/dev/null", "open /dev/null");
    vgc_check(dup2(null_fd, STDIN_FILENO), "file descriptors", "dup2");
    if (options->log_fd < 0)
        return;
    vgc_check(dup2(options->log_fd, STDOUT_FILENO), "file descriptors", "dup2");
    vgc_check(dup2(options->log_fd, STDERR_FILENO), "file descriptors", "dup2");
}

static void keep_only_named_fds(const struct vgc_options *options)
{
    vgc_check(syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC), "close_range (Linux 5.11)", "close_range");
    for (size_t i = 0; i < options->num_kept_fds; i++)
        vgc_check(fcntl(options->kept_fds[i], F_SETFD, 0), "file descriptors", "keep");
}

static void install_filter(int fd)
{
    static struct sock_filter code[MAX_FILTER];
    ssize_t size = pread(fd, code, sizeof(code), 0);
    vgc_check(size, "seccomp", "read filter");
    if (size == 0 || size % (ssize_t)sizeof(code[0]) != 0)
        vgc_die("seccomp", "the filter is empty or torn");
    struct sock_fprog program = {.len = (unsigned short)(size / (ssize_t)sizeof(code[0])), .filter = code};
    vgc_check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp", "install filter");
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        (void)signal(signal_number, SIG_DFL); /* fails for KILL, STOP and signals of the C library: nothing to reset */
}

void vgc_run_job(const struct vgc_options *options, struct vgc_handshake handshake)
{
    reset_signals();
    join_cgroups(options);
    vgc_check(setsid(), "process groups", "setsid");
    set_nice(options); /* while the host's root may raise it */
    if (options->has_ids)
        vgc_check(setgroups(0, NULL), "user ids", "setgroups");
    if (options->isolate)
        enter_user_namespace(options, handshake);
    if (!options->own_root)
        become_unprivileged(options);
    replace_stdio(options);
    keep_only_named_fds(options);
    set_limits(options);
    if (!options->own_root)
        vgc_check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs", "prctl");
    if (options->filter_fd >= 0)
        install_filter(options->filter_fd);
    if (options->argv[0] == NULL)
        return;
    execve(options->argv[0], options->argv, environ);
    vgc_die("program", "%s: %s", options->argv[0], strerror(errno));
}
