/* Measured times of the two sides of a function, and the file that keeps them from run to run. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "sides.h"

enum { LINE_BYTES = 4608, NAME_BYTES = 4200, MOST_LINES = 4096 };

static const uint64_t LOCK_WITHIN_NS = VGC_NS_PER_S;

/* Threads that note at once may lose a measurement: it is an average. */
void vgc_times_note(struct vgc_times *times, enum vgc_timed_side side, uint64_t ns)
{
    uint64_t before = times->ns[side];
    uint32_t samples = times->samples[side];
    times->ns[side] = samples <= 1 ? ns : (3 * before + ns) / 4;
    times->samples[side] = samples + (samples < UINT32_MAX);
    times->is_new = true;
}

void vgc_times_take(struct vgc_times *times, const struct vgc_times_line *line)
{
    for (unsigned side = 0; side < VGC_TIMED_SIDES; side++) {
        times->ns[side] = line->ns[side];
        times->samples[side] = line->samples[side];
    }
}

void vgc_times_give(struct vgc_times *times, struct vgc_times_line *line)
{
    for (unsigned side = 0; side < VGC_TIMED_SIDES; side++) {
        line->ns[side] = times->ns[side];
        line->samples[side] = times->samples[side];
    }
}

/* ---- the file ------------------------------------------------------------------------------- */

bool vgc_times_find(struct vgc_times_file *file, const char *variable, const char *name)
{
    const char *own = secure_getenv(variable);
    const char *cache = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    char folder[sizeof(file->path)];
    file->is_given = own != NULL;
    if (own != NULL)
        return own[0] != '\0' && snprintf(file->path, sizeof(file->path), "%s", own) < (int)sizeof(file->path);
    if (cache != NULL && cache[0] == '/')
        (void)snprintf(folder, sizeof(folder), "%s", cache);
    else if (home != NULL && home[0] == '/')
        (void)snprintf(folder, sizeof(folder), "%s/.cache", home);
    else
        return false;
    (void)mkdir(folder, 0700);
    int len = snprintf(file->path, sizeof(file->path), "%s/virtio-gpu-compute", folder);
    if (len < 0 || (size_t)len >= sizeof(file->path))
        return false;
    (void)mkdir(file->path, 0700);
    len = snprintf(file->path, sizeof(file->path), "%s/virtio-gpu-compute/%s", folder, name);
    return len > 0 && (size_t)len < sizeof(file->path);
}

static bool parse(const char *text, char name[NAME_BYTES], struct vgc_times_line *line)
{
    *line = (struct vgc_times_line){.name = name};
    return sscanf(text, "%" SCNx64 " %4199s %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32, &line->owner,
                  name, &line->size_class, &line->ns[VGC_TIMED_GPU], &line->samples[VGC_TIMED_GPU],
                  &line->ns[VGC_TIMED_CPU], &line->samples[VGC_TIMED_CPU]) == 7;
}

/* NULL for whatever is no file: opening a pipe would wait for a writer. */
static FILE *open_old(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    FILE *file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? fdopen(fd, "r") : NULL;
    if (file == NULL)
        (void)close(fd);
    return file;
}

void vgc_times_read(const struct vgc_times_file *file, void (*take)(void *data, const struct vgc_times_line *line),
                    void *data)
{
    char text[LINE_BYTES];
    char name[NAME_BYTES];
    struct vgc_times_line line;
    FILE *old = open_old(file->path);
    for (unsigned i = 0; old != NULL && i < MOST_LINES && fgets(text, sizeof(text), old) != NULL; i++)
        if (parse(text, name, &line))
            take(data, &line);
    if (old != NULL)
        (void)fclose(old);
}

/* -1: another process holds the lock for long, or it cannot be made; the file is written nevertheless. */
static int lock_file(const char *path)
{
    char name[sizeof(((struct vgc_times_file *)0)->path) + 8];
    uint64_t step_ns = VGC_NS_PER_MS / 8;
    uint64_t deadline_ns = vgc_deadline(LOCK_WITHIN_NS);
    (void)snprintf(name, sizeof(name), "%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
        if (errno != EWOULDBLOCK || !vgc_backoff(&step_ns, deadline_ns))
            break;
    return fd;
}

static unsigned write_news(FILE *fresh, const struct vgc_times_news *news)
{
    struct vgc_times_line line = {0};
    unsigned lines = 0;
    while (lines < MOST_LINES && news->next(news->data, &line)) {
        (void)fprintf(fresh, "%016" PRIx64 " %s %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu32 "%s%s\n",
                      line.owner, line.name, line.size_class, line.ns[VGC_TIMED_GPU], line.samples[VGC_TIMED_GPU],
                      line.ns[VGC_TIMED_CPU], line.samples[VGC_TIMED_CPU], line.remark != NULL ? " # " : "",
                      line.remark != NULL ? line.remark : "");
        lines++;
    }
    return lines;
}

/* Copies what is not replaced. False: there are lines in the old file, and none of them is one of ours. */
static bool copy_old(FILE *fresh, FILE *old, unsigned lines, const struct vgc_times_news *news)
{
    char text[LINE_BYTES];
    char name[NAME_BYTES];
    struct vgc_times_line line;
    unsigned ours = 0;
    unsigned strange = 0;
    while (lines < MOST_LINES && strange < MOST_LINES && fgets(text, sizeof(text), old) != NULL) {
        if (!parse(text, name, &line)) {
            strange++;
            continue;
        }
        ours++;
        if (!news->has(news->data, &line)) {
            (void)fputs(text, fresh);
            lines++;
        }
    }
    return strange == 0 || ours > 0;
}

void vgc_times_write(const struct vgc_times_file *file, const struct vgc_times_news *news)
{
    char path[sizeof(file->path) + 32];
    struct stat status;
    if (stat(file->path, &status) == 0 && !S_ISREG(status.st_mode))
        return;
    if (!vgc_file_may_have((uint64_t)MOST_LINES * LINE_BYTES))
        return;
    int lock = lock_file(file->path);
    (void)snprintf(path, sizeof(path), "%s.%d", file->path, (int)getpid());
    FILE *fresh = fopen(path, "wex");
    if (fresh != NULL) {
        unsigned lines = write_news(fresh, news);
        FILE *old = open_old(file->path);
        bool is_ours = old == NULL || copy_old(fresh, old, lines, news) || !file->is_given;
        if (old != NULL)
            (void)fclose(old);
        if (fclose(fresh) != 0 || !is_ours || rename(path, file->path) != 0)
            (void)unlink(path);
    }
    if (lock >= 0)
        (void)close(lock);
}
