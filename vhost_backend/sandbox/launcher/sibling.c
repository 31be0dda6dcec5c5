/* The launcher as a library, for a process that has loaded what its jobs run: each goes on in a copy of it, and shares
 * all memory with it that neither has written to since.
 *
 * The copy is made before the walls, so what the caller has in memory must be fit for every job to see. Jobs also share
 * the addresses at which libraries and heap lie. */
#define _GNU_SOURCE
#include "launcher.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Starts a launcher as a child of the caller's parent, with `errors` as its stderr. Returns its process id or, on an
 * error, -1; and 0 in the job, which has descriptor VGC_JOB_FD, a copy of `kept`, and no other but 0, 1 and 2. The
 * caller has one thread. */
long vgc_launch_sibling(int argc, char **argv, int kept, int errors)
{
    struct vgc_options options;
    /* As fork(), but for the parent. What the C library knows of this process is wrong until it forks by itself. */
    long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_NAME, "vgc-launch", 0, 0, 0);
    vgc_check(dup2(errors, STDERR_FILENO), "file descriptors", "dup2");
    vgc_check(dup2(kept, VGC_JOB_FD), "file descriptors", "dup2");
    vgc_check(syscall(SYS_close_range, VGC_JOB_FD + 1, ~0U, 0), "close_range (Linux 5.9)", "close_range");
    vgc_check(setsid(), "process groups", "setsid");
    vgc_parse_options(argc, argv, &options);
    if (options.argv[0] != NULL)
        vgc_die("launcher", "a sibling runs no program");
    vgc_launch(&options);
    (void)prctl(PR_SET_NAME, "vgc-worker", 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as exec() does */
    vgc_check(syscall(SYS_close_range, VGC_JOB_FD + 1, ~0U, 0), "close_range (Linux 5.9)", "close_range");
    return 0;
}
