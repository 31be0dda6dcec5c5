/* Copies files into and out of the work directory. Its content is not trusted: the job has ended before the output is
 * read, but the name may be a link, a pipe or a directory. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copies `size` bytes from the start of `from`; false with errno set. */
static bool copy_file(int from, int to, uint64_t size)
{
    off_t offset = 0;
    while ((uint64_t)offset < size) {
        ssize_t count = sendfile(to, from, &offset, size - (uint64_t)offset);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
    }
    return true;
}

void vgc_write_input(int work_fd, const struct vgc_options *options)
{
    struct stat status;
    if (options->input_name == NULL)
        return;
    int fd = openat(work_fd, options->input_name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    vgc_check(fd, "work directory", options->input_name);
    vgc_check(fstat(options->input_fd, &status), "work directory", "fstat input");
    if (!copy_file(options->input_fd, fd, (uint64_t)status.st_size))
        vgc_die("work directory", "copy of %s: %s", options->input_name, strerror(errno));
    close(fd);
}

void vgc_read_output(int work_fd, const struct vgc_options *options)
{
    struct stat status;
    if (options->output_name == NULL)
        return;
    int fd = openat(work_fd, options->output_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        vgc_report("no-output %s", strerror(errno));
    else if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        vgc_report("no-output not a regular file");
    else if ((uint64_t)status.st_size > options->output_bytes)
        vgc_report("no-output larger than %llu bytes", (unsigned long long)options->output_bytes);
    else if (!copy_file(fd, options->output_fd, (uint64_t)status.st_size))
        vgc_report("no-output %s", strerror(errno));
    else
        vgc_report("output %llu", (unsigned long long)status.st_size);
    if (fd >= 0)
        close(fd);
}
