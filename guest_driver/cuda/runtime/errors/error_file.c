/* The last error of a user's programs, in words, in a file: last-error.UID in $VGC_STATE_DIR, or in /run/vgc. A program
 * that may not write there does without. */
#include "error_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 4096 + 256, PATH_BYTES = 512 };

static bool find_file(char *path, size_t room)
{
    const char *folder = secure_getenv("VGC_STATE_DIR");
    if (folder == NULL || folder[0] == '\0')
        folder = "/run/vgc";
    (void)mkdir(folder, 0755); /* if no device could be opened, libvgc has not made it */
    int len = snprintf(path, room, "%s/last-error.%u", folder, (unsigned)geteuid());
    return len > 0 && (size_t)len < room;
}

/* Beyond the limit of the program's files, a signal would end it. */
static bool may_have_line(void)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= LINE_BYTES;
}

void rt_write_error_file(const char *text)
{
    char path[PATH_BYTES];
    char line[LINE_BYTES];
    char when[32] = "";
    time_t now = time(NULL);
    struct tm local;
    if (!find_file(path, sizeof(path)) || !may_have_line())
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (localtime_r(&now, &local) != NULL)
        (void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    int len = snprintf(line, sizeof(line), "%s %s[%d]: %s\n", when, program_invocation_short_name, (int)getpid(), text);
    size_t size = len < 0 ? 0 : (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1;
    for (size_t done = 0; done < size;) {
        ssize_t now_written = write(fd, line + done, size - done);
        if (now_written <= 0)
            break;
        done += (size_t)now_written;
    }
    (void)close(fd);
}
