#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    OPT_BIND = 256,
    OPT_LINK,
    OPT_DEVICE,
    OPT_PROC,
    OPT_LIMIT,
    OPT_KEEP_FD,
    OPT_CGROUP,
    OPT_IDS,
    OPT_NEWUIDMAP,
    OPT_NEWGIDMAP,
    OPT_OWN_ROOT,
    OPT_NO_ISOLATION,
    OPT_WORK_BYTES,
    OPT_WORK_PATH,
    OPT_INPUT,
    OPT_OUTPUT,
    OPT_OUTPUT_BYTES,
    OPT_LOG_FD,
    OPT_REPORT_FD,
    OPT_LIFELINE_FD,
    OPT_WITH_PARENT,
    OPT_WITH_PID,
    OPT_TIMEOUT_MS,
    OPT_FILTER_FD,
    OPT_OOM_SCORE,
    OPT_NICE,
    OPT_EXIT,
};

static const struct option long_options[] = {
    {"bind", required_argument, NULL, OPT_BIND},
    {"link", required_argument, NULL, OPT_LINK},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"proc", no_argument, NULL, OPT_PROC},
    {"limit", required_argument, NULL, OPT_LIMIT},
    {"keep-fd", required_argument, NULL, OPT_KEEP_FD},
    {"cgroup", required_argument, NULL, OPT_CGROUP},
    {"ids", required_argument, NULL, OPT_IDS},
    {"newuidmap", required_argument, NULL, OPT_NEWUIDMAP},
    {"newgidmap", required_argument, NULL, OPT_NEWGIDMAP},
    {"own-root", no_argument, NULL, OPT_OWN_ROOT},
    {"no-isolation", no_argument, NULL, OPT_NO_ISOLATION},
    {"work-bytes", required_argument, NULL, OPT_WORK_BYTES},
    {"work-path", required_argument, NULL, OPT_WORK_PATH},
    {"input", required_argument, NULL, OPT_INPUT},
    {"output", required_argument, NULL, OPT_OUTPUT},
    {"output-bytes", required_argument, NULL, OPT_OUTPUT_BYTES},
    {"log-fd", required_argument, NULL, OPT_LOG_FD},
    {"report-fd", required_argument, NULL, OPT_REPORT_FD},
    {"lifeline-fd", required_argument, NULL, OPT_LIFELINE_FD},
    {"with-parent", no_argument, NULL, OPT_WITH_PARENT},
    {"with-pid", required_argument, NULL, OPT_WITH_PID},
    {"timeout-ms", required_argument, NULL, OPT_TIMEOUT_MS},
    {"filter-fd", required_argument, NULL, OPT_FILTER_FD},
    {"oom-score", required_argument, NULL, OPT_OOM_SCORE},
    {"nice", required_argument, NULL, OPT_NICE},
    {"exit", no_argument, NULL, OPT_EXIT}, /* the launcher as its own job, to probe the host */
    {NULL, 0, NULL, 0},
};

static const struct {
    const char *name;
    int resource;
} limit_names[] = {
    {"as", RLIMIT_AS},       {"core", RLIMIT_CORE},         {"cpu", RLIMIT_CPU},       {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE}, {"nproc", RLIMIT_NPROC},       {"nofile", RLIMIT_NOFILE}, {"memlock", RLIMIT_MEMLOCK},
    {"stack", RLIMIT_STACK}, {"msgqueue", RLIMIT_MSGQUEUE},
};

static uint64_t parse_number(const char *text, uint64_t maximum)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || value > maximum)
        vgc_die("launcher", "'%s' is not a number up to %llu", text, (unsigned long long)maximum);
    return value;
}

static int parse_fd(const char *text)
{
    return (int)parse_number(text, 1 << 20);
}

static int parse_nice(char *text)
{
    return *text == '-' ? -(int)parse_number(text + 1, 20) : (int)parse_number(text, 19);
}

/* Cuts "LEFT=RIGHT" (at the last `separator`) in two. */
static char *split(char *text, char separator)
{
    char *right = strrchr(text, separator);
    if (right == NULL)
        vgc_die("launcher", "'%s' has no '%c'", text, separator);
    *right = '\0';
    return right + 1;
}

static void add_pair(struct vgc_bind *pairs, size_t *count, char *text)
{
    if (*count == VGC_MAX_BINDS)
        vgc_die("launcher", "more than %d binds", VGC_MAX_BINDS);
    char *target = split(text, '=');
    if (target[0] != '/' || strstr(target, "/../") != NULL)
        vgc_die("launcher", "'%s' is not an absolute path", target);
    pairs[(*count)++] = (struct vgc_bind){.source = text, .target = target};
}

static void add_limit(struct vgc_options *options, char *text)
{
    const char *value = split(text, '=');
    if (options->num_limits == VGC_MAX_LIMITS)
        vgc_die("launcher", "more than %d limits", VGC_MAX_LIMITS);
    for (size_t i = 0; i < sizeof(limit_names) / sizeof(limit_names[0]); i++) {
        if (strcmp(limit_names[i].name, text) != 0)
            continue;
        options->limits[options->num_limits++] =
            (struct vgc_limit){.resource = limit_names[i].resource, .value = parse_number(value, UINT64_MAX / 2)};
        return;
    }
    vgc_die("launcher", "unknown limit '%s'", text);
}

static void add_kept_fd(struct vgc_options *options, const char *text)
{
    if (options->num_kept_fds == VGC_MAX_KEPT_FDS)
        vgc_die("launcher", "more than %d kept file descriptors", VGC_MAX_KEPT_FDS);
    options->kept_fds[options->num_kept_fds++] = parse_fd(text);
}

/* Opens a cgroup.procs file while the launcher still sees it. */
static void add_cgroup(struct vgc_options *options, const char *path)
{
    if (options->num_cgroups == VGC_MAX_CGROUPS)
        vgc_die("launcher", "more than %d control groups", VGC_MAX_CGROUPS);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    vgc_check(fd, "control groups", path);
    options->cgroup_fds[options->num_cgroups++] = fd;
}

static void set_ids(struct vgc_options *options, char *text)
{
    options->gid = (gid_t)parse_number(split(text, ':'), UINT32_MAX - 1);
    options->uid = (uid_t)parse_number(text, UINT32_MAX - 1);
    options->has_ids = true;
}

static const char *file_name(const char *text)
{
    if (*text == '\0' || *text == '.' || strchr(text, '/') != NULL)
        vgc_die("launcher", "'%s' is not a plain file name", text);
    return text;
}

static void set_option(int option, char *value, struct vgc_options *options)
{
    switch (option) {
    case OPT_BIND:
        add_pair(options->binds, &options->num_binds, value);
        break;
    case OPT_LINK:
        add_pair(options->links, &options->num_links, value);
        break;
    case OPT_DEVICE:
        add_pair(options->devices, &options->num_devices, value);
        break;
    case OPT_PROC:
        options->show_proc = true;
        break;
    case OPT_LIMIT:
        add_limit(options, value);
        break;
    case OPT_KEEP_FD:
        add_kept_fd(options, value);
        break;
    case OPT_CGROUP:
        add_cgroup(options, value);
        break;
    case OPT_IDS:
        set_ids(options, value);
        break;
    case OPT_NEWUIDMAP:
        options->newuidmap = value;
        break;
    case OPT_NEWGIDMAP:
        options->newgidmap = value;
        break;
    case OPT_OWN_ROOT:
        options->own_root = true;
        break;
    case OPT_NO_ISOLATION:
        options->isolate = false;
        break;
    case OPT_WORK_BYTES:
        options->work_bytes = parse_number(value, UINT64_MAX / 2);
        break;
    case OPT_WORK_PATH:
        options->work_path = value;
        break;
    case OPT_INPUT:
        options->input_name = file_name(split(value, ':'));
        options->input_fd = parse_fd(value);
        break;
    case OPT_OUTPUT:
        options->output_name = file_name(split(value, ':'));
        options->output_fd = parse_fd(value);
        break;
    case OPT_OUTPUT_BYTES:
        options->output_bytes = parse_number(value, UINT64_MAX / 2);
        break;
    case OPT_LOG_FD:
        options->log_fd = parse_fd(value);
        break;
    case OPT_REPORT_FD:
        options->report_fd = parse_fd(value);
        vgc_report_to(options->report_fd);
        break;
    case OPT_LIFELINE_FD:
        options->lifeline_fd = parse_fd(value);
        break;
    case OPT_WITH_PARENT:
        options->lifeline_fd = (int)syscall(SYS_pidfd_open, getppid(), 0);
        vgc_check(options->lifeline_fd, "pidfd_open (Linux 5.3)", "pidfd_open");
        break;
    case OPT_WITH_PID:
        options->lifeline_fd = (int)syscall(SYS_pidfd_open, (pid_t)parse_number(value, INT32_MAX), 0);
        vgc_check(options->lifeline_fd, "pidfd_open (Linux 5.3)", "pidfd_open");
        break;
    case OPT_TIMEOUT_MS:
        options->timeout_ms = (int)parse_number(value, INT32_MAX);
        break;
    case OPT_FILTER_FD:
        options->filter_fd = parse_fd(value);
        break;
    case OPT_OOM_SCORE:
        options->oom_score = (int)parse_number(value, 1000);
        break;
    case OPT_NICE:
        options->nice = parse_nice(value);
        break;
    case OPT_EXIT:
        _exit(0);
    default:
        vgc_die("launcher", "unknown or incomplete option");
    }
}

void vgc_parse_options(int argc, char **argv, struct vgc_options *options)
{
    *options = (struct vgc_options){
        .isolate = true,
        .input_fd = -1,
        .output_fd = -1,
        .log_fd = -1,
        .report_fd = -1,
        .lifeline_fd = -1,
        .timeout_ms = -1,
        .filter_fd = -1,
    };
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1)
        set_option(option, optarg, options);
    options->argv = argv + optind;
    if (!options->isolate && options->own_root)
        vgc_die("launcher", "--own-root needs isolation");
}
