/* Maps of a user namespace in which an ordinary user's launcher has a second id, for its job. They are written from
 * outside of the namespace: by this program, if it has CAP_SETUID and CAP_SETGID, or by the setuid programs newuidmap
 * and newgidmap, which give a user its subordinate ids alone. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
}

/* Has `program` map `own` and `other` to themselves; it says on stderr why it cannot. */
static void run_tool(const char *program, pid_t launcher, unsigned own, unsigned other)
{
    char texts[3][16];
    int status = 0;
    snprintf(texts[0], sizeof(texts[0]), "%d", (int)launcher);
    snprintf(texts[1], sizeof(texts[1]), "%u", own);
    snprintf(texts[2], sizeof(texts[2]), "%u", other);
    pid_t child = fork();
    vgc_check(child, "user ids", "fork");
    if (child == 0) {
        execl(program, program, texts[0], texts[1], texts[1], "1", texts[2], texts[2], "1", (char *)NULL);
        vgc_die("user ids", "%s: %s", program, strerror(errno));
    }
    reap(child, &status);
    if (status != 0)
        vgc_die("user ids", "%s does not give the job user %s", program, texts[2]);
}

/* Maps `own` and `other` to themselves. */
static void write_ids(pid_t launcher, const char *name, unsigned own, unsigned other)
{
    char path[64], text[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)launcher, name);
    int size = snprintf(text, sizeof(text), "%u %u 1\n", own, own);
    if (other != own)
        size += snprintf(text + size, sizeof(text) - (size_t)size, "%u %u 1\n", other, other);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    vgc_check(fd, "user ids", path);
    /* In one call, as the kernel takes a map once and whole. */
    if (write(fd, text, (size_t)size) < 0)
        vgc_die("user ids", "%s: %s: it takes CAP_SETUID and CAP_SETGID, or newuidmap and newgidmap", path,
                strerror(errno));
    close(fd);
}

/* Process outside of the namespace: waits until `go` says that the launcher has it. */
_Noreturn static void run_mapper(int go, pid_t launcher, const struct vgc_options *options)
{
    char byte;
    vgc_check(syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC), "close_range (Linux 5.11)", "close_range");
    if (read(go, &byte, 1) != 1)
        _exit(VGC_EXIT_SETUP); /* the launcher has reported the error */
    if (options->newuidmap != NULL) {
        run_tool(options->newuidmap, launcher, geteuid(), options->uid);
        run_tool(options->newgidmap, launcher, getegid(), options->gid);
    } else {
        write_ids(launcher, "uid_map", geteuid(), options->uid);
        write_ids(launcher, "gid_map", getegid(), options->gid);
    }
    _exit(0);
}

struct vgc_mapper vgc_start_mapper(const struct vgc_options *options)
{
    int ends[2];
    pid_t launcher = getpid();
    if ((options->newuidmap == NULL) != (options->newgidmap == NULL))
        vgc_die("launcher", "--newuidmap and --newgidmap go together");
    vgc_check(pipe2(ends, O_CLOEXEC), "file descriptors", "pipe2");
    pid_t pid = fork();
    vgc_check(pid, "user ids", "fork");
    if (pid == 0) {
        close(ends[1]);
        run_mapper(ends[0], launcher, options);
    }
    close(ends[0]);
    return (struct vgc_mapper){.pid = pid, .go = ends[1]};
}

void vgc_finish_mapper(struct vgc_mapper mapper)
{
    char byte = 0;
    int status = 0;
    vgc_check(write(mapper.go, &byte, 1), "user ids", "handshake");
    close(mapper.go);
    reap(mapper.pid, &status);
    if (status != 0)
        _exit(VGC_EXIT_SETUP); /* the mapper has reported the error */
}
