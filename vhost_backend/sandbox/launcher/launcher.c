#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct init_process {
    pid_t pid;
    int lifeline; /* init ends, and the whole pid namespace with it, when this is closed */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Process 1 of the new pid namespace: adopts and reaps orphans, ends with the launcher. */
_Noreturn static void run_init(int lifeline)
{
    char byte;
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    vgc_drop_capabilities();
    vgc_check(dup2(lifeline, 0), "file descriptors", "dup2");
    vgc_check(syscall(SYS_close_range, 1, ~0U, 0), "close_range (Linux 5.9)", "close_range");
    (void)signal(SIGCHLD, SIG_IGN);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

static struct init_process start_init(void)
{
    int ends[2];
    char own_name[16] = "";
    vgc_check(pipe2(ends, O_CLOEXEC), "file descriptors", "pipe2");
    (void)prctl(PR_GET_NAME, own_name, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "vgc-init", 0, 0, 0); /* inherited: shown from its first moment */
    pid_t pid = fork();
    vgc_check(pid, "PID namespaces", "fork");
    if (pid == 0) {
        close(ends[1]);
        run_init(ends[0]);
    }
    (void)prctl(PR_SET_NAME, own_name, 0, 0, 0);
    close(ends[0]);
    return (struct init_process){.pid = pid, .lifeline = ends[1]};
}

/* 0: this is the job, which has no program to run. */
static pid_t start_job(const struct vgc_options *options, int proc_fd)
{
    int ends[2];
    char byte;
    vgc_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "file descriptors", "socketpair");
    struct vgc_handshake handshake = {.job_end = ends[0], .launcher_end = ends[1]};
    pid_t job = fork();
    vgc_check(job, "PID namespaces", "fork");
    if (job == 0) {
        close(handshake.launcher_end);
        vgc_run_job(options, handshake);
        return 0;
    }
    close(handshake.job_end);
    vgc_offer_to_oom_killer(proc_fd, job, options->oom_score);
    if (options->isolate && read(handshake.launcher_end, &byte, 1) == 1) {
        if (options->nice != 0)
            vgc_weigh_session(proc_fd, job, options->nice); /* later the job's files may be those of another user */
        vgc_map_job(proc_fd, job, options);
        vgc_check(write(handshake.launcher_end, &byte, 1), "user namespaces", "handshake");
    }
    close(handshake.launcher_end);
    if (!options->isolate && options->nice != 0)
        vgc_weigh_session(proc_fd, job, options->nice);
    return job;
}

/* Opens a descriptor that delivers SIGTERM and SIGCHLD; the job resets its signal mask by itself. */
static int open_signals(void)
{
    sigset_t mask;
    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    int fd = signalfd(-1, &mask, SFD_CLOEXEC);
    vgc_check(fd, "file descriptors", "signalfd");
    return fd;
}

/* Tells on stderr that a signal has stopped the job; never waits for a reader. */
static void tell_stop(pid_t job)
{
    siginfo_t info = {0};
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (waitid(P_PID, (id_t)job, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == job && poll(&out, 1, 0) == 1)
        (void)dprintf(STDERR_FILENO, "vgc-launch: stopped by signal %d\n", info.si_status);
}

/* Reads the next signal; true if it is SIGTERM. */
static bool is_terminated(int signals_fd, pid_t job, const struct vgc_options *options)
{
    struct signalfd_siginfo next;
    if (read(signals_fd, &next, sizeof(next)) != (ssize_t)sizeof(next))
        return false;
    if (next.ssi_signo == SIGCHLD && options->report_fd < 0)
        tell_stop(job);
    return next.ssi_signo == SIGTERM;
}

/* Waits until the job ends, its time is up, or the lifeline or SIGTERM ends it. NULL: the job ended by itself. */
static const char *watch(pid_t job, int signals_fd, const struct vgc_options *options)
{
    int job_fd = (int)syscall(SYS_pidfd_open, job, 0);
    vgc_check(job_fd, "pidfd_open (Linux 5.3)", "pidfd_open");
    int64_t deadline = now_ms() + options->timeout_ms;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = job_fd, .events = POLLIN},
            {.fd = options->lifeline_fd, .events = POLLIN},
            {.fd = signals_fd, .events = POLLIN},
        };
        int64_t left = deadline - now_ms();
        int ready = poll(fds, 3, options->timeout_ms < 0 ? -1 : (int)(left > 0 ? left : 0));
        if (ready < 0 && errno == EINTR)
            continue;
        if (fds[0].revents != 0)
            return NULL;
        if (ready == 0)
            return "timeout";
        if (fds[1].revents != 0 || is_terminated(signals_fd, job, options))
            return "orphaned";
    }
}

static void report_status(int status)
{
    if (WIFSIGNALED(status))
        vgc_report("signal %d", WTERMSIG(status));
    else
        vgc_report("exit %d", WEXITSTATUS(status));
}

static void reap(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
}

/* Kills all processes of the job: the whole pid namespace or, without isolation, its process group. */
static void end_all(const struct vgc_options *options, struct init_process init, pid_t job)
{
    (void)kill(options->isolate ? init.pid : -job, SIGKILL);
}

/* Returns the job's wait status, once it and all its descendants have ended. */
static int supervise(const struct vgc_options *options, struct init_process init, pid_t job, int signals_fd)
{
    int status = 0;
    const char *verdict = watch(job, signals_fd, options);
    if (verdict != NULL)
        end_all(options, init, job);
    reap(job, &status);
    end_all(options, init, job);
    if (options->isolate)
        reap(init.pid, NULL);
    if (verdict != NULL)
        vgc_report("%s", verdict);
    else
        report_status(status);
    return status;
}

_Noreturn static void end_like(int status)
{
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)kill(getpid(), WTERMSIG(status)); /* raise() may know the thread by the number that it had before */
    }
    _exit(WEXITSTATUS(status));
}

void vgc_launch(const struct vgc_options *options)
{
    struct init_process init = {.pid = -1, .lifeline = -1};
    (void)signal(SIGPIPE, SIG_IGN);
    int signals_fd = open_signals();
    int proc_fd = vgc_open_proc();
    if (options->isolate) {
        if (geteuid() != 0)
            vgc_become_namespace_root(proc_fd, options);
        vgc_unshare_all();
        vgc_check(chdir("/"), "mount namespaces", "chdir"); /* so that init follows into the new root */
        init = start_init();
        vgc_enter_root(options);
    }
    int work_fd = vgc_open_work(options);
    vgc_write_input(work_fd, options);
    pid_t job = start_job(options, proc_fd);
    if (job == 0)
        return;
    vgc_report("pid %d", (int)job);
    int status = supervise(options, init, job, signals_fd);
    if (WIFEXITED(status))
        vgc_read_output(work_fd, options);
    if (options->report_fd >= 0)
        _exit(0);
    end_like(status);
}
