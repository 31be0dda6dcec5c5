/* Root of the job: an empty read-only tmpfs with read-only binds of the paths that the job needs, /dev/null, /vgc-work
 * and, on request, device nodes and a /proc of the job's pid namespace.
 */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* <sys/mount.h> and <linux/mount.h> cannot both be included with every glibc. */
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);
int umount2(const char *target, int flags);
enum { UMOUNT_DETACH = 2 };

static const char NEW_ROOT[] = "/new";
static const char OLD_ROOT[] = "/old";
static const char FEATURE[] = "mount namespaces";

static void join(char path[PATH_MAX], const char *root, const char *rest)
{
    if (snprintf(path, PATH_MAX, "%s%s", root, rest) >= PATH_MAX)
        vgc_die("launcher", "path too long: %s", rest);
}

static void make_directory(const char *path)
{
    /* EROFS: below an earlier bind, where the directory exists already, or the mount will fail. */
    if (mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS)
        vgc_die(FEATURE, "mkdir %s: %s", path, strerror(errno));
}

static void make_parents(char *path)
{
    for (char *slash = strchr(path + sizeof(NEW_ROOT), '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        make_directory(path);
        *slash = '/';
    }
}

static void make_mount_point(char *path, bool directory)
{
    make_parents(path);
    if (directory) {
        make_directory(path);
        return;
    }
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    if (fd >= 0)
        close(fd);
    else if (errno != EEXIST && errno != EROFS)
        vgc_die(FEATURE, "create %s: %s", path, strerror(errno));
}

static void set_attributes(const char *path, uint64_t attributes, unsigned flags)
{
    struct mount_attr attr = {.attr_set = attributes};
    vgc_check(syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attr, sizeof(attr)), "mount_setattr (Linux 5.12)",
              path);
}

static void bind(const char *source, const char *target, uint64_t attributes)
{
    char from[PATH_MAX];
    char to[PATH_MAX];
    struct stat status;
    join(from, OLD_ROOT, source);
    join(to, NEW_ROOT, target);
    if (stat(from, &status) < 0)
        vgc_die("read-only paths", "%s: %s", source, strerror(errno));
    make_mount_point(to, S_ISDIR(status.st_mode));
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
        vgc_die(FEATURE, "bind %s: %s", source, strerror(errno));
    set_attributes(to, attributes, AT_RECURSIVE);
}

static void mount_tmpfs(const char *path, const char *options, unsigned long flags)
{
    if (mount("tmpfs", path, "tmpfs", flags | MS_NOSUID | MS_NODEV, options) < 0)
        vgc_die(FEATURE, "mount tmpfs on %s: %s", path, strerror(errno));
}

/* Makes `path` read-only, if it exists. */
static void make_read_only(const char *path)
{
    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) == 0)
        set_attributes(path, MOUNT_ATTR_RDONLY, AT_RECURSIVE);
    else if (errno != ENOENT)
        vgc_die(FEATURE, "bind %s: %s", path, strerror(errno));
}

/* Mounts a procfs. It shows the pid namespace of the process that mounts it, so a child does that: the launcher itself
 * is in the host's. Without privilege on the host, mounting it requires a visible procfs that hides nothing; the host's
 * below /old is one.
 *
 * A job can write to the files of its own processes: NVIDIA's driver names its threads that way, and does not start if
 * it cannot. All other files are read-only, even those that file permissions protect already.
 */
static void mount_proc(void)
{
    static const char *const not_processes[] = {"/new/proc/bus", "/new/proc/fs", "/new/proc/irq", "/new/proc/sys",
                                                "/new/proc/sysrq-trigger"};
    int status = 0;
    make_directory("/new/proc");
    pid_t child = fork();
    vgc_check(child, "a /proc of its own", "fork");
    if (child == 0) {
        if (mount("proc", "/new/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
            vgc_die("a /proc of its own", "mount: %s", strerror(errno));
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        _exit(VGC_EXIT_SETUP); /* the child has reported the error */
    for (size_t i = 0; i < sizeof(not_processes) / sizeof(not_processes[0]); i++)
        make_read_only(not_processes[i]);
}

/* Enters a scratch root with the host's root below /old, so that no path of the host is in the way any more. */
static void enter_scratch_root(void)
{
    vgc_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), FEATURE, "make mounts private");
    mount_tmpfs("/tmp", "mode=0755,size=1m", 0);
    vgc_check(chdir("/tmp"), FEATURE, "chdir");
    vgc_check(mkdir("new", 0755), FEATURE, "mkdir new");
    vgc_check(mkdir("old", 0755), FEATURE, "mkdir old");
    vgc_check(syscall(SYS_pivot_root, ".", "old"), "pivot_root", "pivot_root");
    vgc_check(chdir("/"), FEATURE, "chdir");
}

static void leave_scratch_root(void)
{
    vgc_check(umount2(OLD_ROOT, UMOUNT_DETACH), FEATURE, "detach the host's root");
    vgc_check(chdir(NEW_ROOT), FEATURE, "chdir");
    vgc_check(syscall(SYS_pivot_root, ".", "."), "pivot_root", "pivot_root");
    vgc_check(umount2(".", UMOUNT_DETACH), FEATURE, "detach the scratch root");
    vgc_check(chdir("/"), FEATURE, "chdir");
}

static void make_work_directory(const struct vgc_options *options)
{
    char text[64];
    make_directory("/new/vgc-work");
    snprintf(text, sizeof(text), "mode=0700,size=%llu,nr_inodes=4096", (unsigned long long)options->work_bytes);
    mount_tmpfs("/new/vgc-work", text, 0);
    if (options->has_ids)
        vgc_check(chown("/new/vgc-work", options->uid, options->gid), FEATURE, "chown /work");
}

static void make_links(const struct vgc_options *options)
{
    for (size_t i = 0; i < options->num_links; i++) {
        char path[PATH_MAX];
        join(path, NEW_ROOT, options->links[i].target);
        make_parents(path);
        if (symlink(options->links[i].source, path) < 0)
            vgc_die(FEATURE, "link %s: %s", options->links[i].target, strerror(errno));
    }
}

void vgc_enter_root(const struct vgc_options *options)
{
    (void)umask(022); /* whatever the daemon's is: other users are to get through the folders that are made here */
    enter_scratch_root();
    mount_tmpfs(NEW_ROOT, "mode=0755,size=1m", 0);
    make_links(options);
    for (size_t i = 0; i < options->num_binds; i++)
        bind(options->binds[i].source, options->binds[i].target,
             MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    bind("/dev/null", "/dev/null", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    for (size_t i = 0; i < options->num_devices; i++)
        bind(options->devices[i].source, options->devices[i].target, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (options->show_proc)
        mount_proc();
    make_directory("/new/vgc-empty"); /* mount point of the empty root that a worker makes */
    if (options->work_bytes > 0)
        make_work_directory(options);
    set_attributes(NEW_ROOT, MOUNT_ATTR_RDONLY, 0);
    leave_scratch_root();
}

int vgc_open_work(const struct vgc_options *options)
{
    const char *path = options->isolate ? "/vgc-work" : options->work_path;
    if (path == NULL || (options->isolate && options->work_bytes == 0))
        return -1;
    vgc_check(chdir(path), "work directory", path);
    if (!options->isolate && options->has_ids)
        vgc_check(chown(".", options->uid, options->gid), "work directory", "chown");
    int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    vgc_check(fd, "work directory", path);
    return fd;
}
