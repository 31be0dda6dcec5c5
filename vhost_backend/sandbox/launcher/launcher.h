/* vgc-launch: runs one program inside fresh namespaces, with its own root, and reports how it ended.
 *
 * Three processes: the launcher stays outside and keeps its privileges; `init` is process 1 of the new pid
 * namespace and only exists (when it ends, the kernel kills every process of the namespace); the job is process 2.
 *
 * Reports go to the report pipe, one line each:
 *     pid N                      the job's process id, as the caller sees it
 *     exit N | signal N          how the job ended
 *     timeout | orphaned         the launcher ended the job: its time was up, or the lifeline was closed
 *     output N | no-output TEXT  bytes copied out of the work directory, or why none were copied
 *     error FEATURE: TEXT        the sandbox could not be built; no program was run
 * Without a report pipe the launcher ends as the job did, by the same signal or with the same exit status; if the
 * sandbox could not be built, it writes a line to stderr and exits with status 125. When a signal stops the job it
 * writes a line to stderr, too. SIGTERM kills the job. In either case the launcher ends last: when it has ended by
 * itself, no process of the job is left.
 */
#ifndef VGC_LAUNCHER_H
#define VGC_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum {
    VGC_MAX_BINDS = 128,
    VGC_MAX_LIMITS = 16,
    VGC_MAX_KEPT_FDS = 16,
    VGC_MAX_CGROUPS = 4,
    VGC_JOB_FD = 3,       /* of a job that is a sibling, see sibling.c */
    VGC_EXIT_SETUP = 125, /* exit status of a launcher or job that failed before the program ran */
};

struct vgc_limit {
    int resource;
    rlim_t value;
};

struct vgc_bind {
    const char *source; /* on the host, without symbolic links */
    const char *target; /* in the new root, absolute */
};

struct vgc_options {
    bool isolate; /* namespaces and a new root; false: only the work directory, limits and filter */
    struct vgc_bind binds[VGC_MAX_BINDS];
    struct vgc_bind links[VGC_MAX_BINDS];   /* source: content of the symbolic link */
    struct vgc_bind devices[VGC_MAX_BINDS]; /* device nodes that can be opened, or folders of device nodes */
    size_t num_binds;
    size_t num_links;
    size_t num_devices;
    bool show_proc; /* a /proc of the new pid namespace */
    struct vgc_limit limits[VGC_MAX_LIMITS];
    size_t num_limits;
    int kept_fds[VGC_MAX_KEPT_FDS]; /* besides 0, 1, 2 */
    size_t num_kept_fds;
    int cgroup_fds[VGC_MAX_CGROUPS]; /* cgroup.procs of the control groups that the job joins; not the launcher */
    size_t num_cgroups;
    bool has_ids; /* the job becomes uid:gid */
    uid_t uid;
    gid_t gid;
    const char *newuidmap; /* programs that map the job's ids for a launcher without CAP_SETUID; NULL: it has that */
    const char *newgidmap;
    bool own_root;         /* the job is root of its own user and mount namespace, and drops that by itself */
    uint64_t work_bytes;   /* size of the work directory /vgc-work; 0: none */
    const char *work_path; /* without isolation: an existing directory of the host */
    int input_fd;
    const char *input_name;
    int output_fd;
    const char *output_name;
    uint64_t output_bytes; /* maximum size of the output */
    int log_fd;            /* the job's stdout and stderr; -1: inherited */
    int report_fd;         /* -1: none */
    int lifeline_fd;       /* the job is killed when this becomes readable: a pipe that closes, a parent that dies */
    int timeout_ms;        /* -1: none */
    int filter_fd;         /* struct sock_filter[]; -1: none */
    int oom_score;         /* 0 to 1000: oom_score_adj of the job */
    int nice;              /* -20 to 19: added to the job's nice value, and that of its session */
    char **argv;           /* program and its arguments; without a program, the job returns from vgc_launch() */
};

/* options.c */
void vgc_parse_options(int argc, char **argv, struct vgc_options *options);

/* report.c: `feature` names the missing feature of the host. */
void vgc_report_to(int fd);
void vgc_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void vgc_die(const char *feature, const char *format, ...) __attribute__((format(printf, 2, 3)));
void vgc_check(long result, const char *feature, const char *what);

/* root.c: with `show_proc`, only after process 1 of the new pid namespace has started. */
void vgc_enter_root(const struct vgc_options *options);
int vgc_open_work(const struct vgc_options *options);

/* work.c */
void vgc_write_input(int work_fd, const struct vgc_options *options);
void vgc_read_output(int work_fd, const struct vgc_options *options);

/* subordinate.c: start before the user namespace is made, finish in it. */
struct vgc_mapper {
    pid_t pid;
    int go;
};
struct vgc_mapper vgc_start_mapper(const struct vgc_options *options);
void vgc_finish_mapper(struct vgc_mapper mapper);

/* namespaces.c */
int vgc_open_proc(void);
void vgc_become_namespace_root(int proc_fd, const struct vgc_options *options);
void vgc_unshare_all(void);
void vgc_map_job(int proc_fd, pid_t job, const struct vgc_options *options);
void vgc_offer_to_oom_killer(int proc_fd, pid_t job, int score);
void vgc_weigh_session(int proc_fd, pid_t job, int nice);
void vgc_drop_capabilities(void);

/* job.c */
struct vgc_handshake {
    int job_end;      /* the job: "my user namespace exists", then waits for its ids */
    int launcher_end; /* the launcher: answers when the ids are mapped */
};
/* Returns only without a program. */
void vgc_run_job(const struct vgc_options *options, struct vgc_handshake handshake);

/* launcher.c: runs the launcher, and ends as it does. Returns only in a job without a program. */
void vgc_launch(const struct vgc_options *options);

/* sibling.c */
long vgc_launch_sibling(int argc, char **argv, int kept, int errors);

#endif
