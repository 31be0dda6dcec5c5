/* Measured times of the two sides of a function, and the file that keeps them from run to run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    const char *own = vgc_variable(variable);
    char folder[sizeof(file->path)];
    file->is_given = own != NULL;
    if (own != NULL)
        return own[0] != '\0' && snprintf(file->path, sizeof(file->path), "%s", own) < (int)sizeof(file->path);
    if (!vgc_cache_folder(folder, sizeof(folder)))
        return false;
    int len = snprintf(file->path, sizeof(file->path), "%s/virtio-gpu-compute", folder);
    if (len < 0 || (size_t)len >= sizeof(file->path))
        return false;
    (void)vgc_folder_make(file->path, true);
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

void vgc_times_read(const struct vgc_times_file *file, void (*take)(void *data, const struct vgc_times_line *line),
                    void *data)
{
    char text[LINE_BYTES];
    char name[NAME_BYTES];
    struct vgc_times_line line;
    FILE *old = vgc_stream_old(file->path);
    for (unsigned i = 0; old != NULL && i < MOST_LINES && fgets(text, sizeof(text), old) != NULL; i++)
        if (parse(text, name, &line))
            take(data, &line);
    if (old != NULL)
        (void)fclose(old);
}

/* If another process holds the lock for long, or it cannot be made, the file is written nevertheless. */
static vgc_handle lock_file(const char *path)
{
    char name[sizeof(((struct vgc_times_file *)0)->path) + 8];
    uint64_t step_ns = VGC_NS_PER_MS / 8;
    uint64_t deadline_ns = vgc_deadline(LOCK_WITHIN_NS);
    (void)snprintf(name, sizeof(name), "%s.lock", path);
    vgc_handle file = VGC_NO_HANDLE;
    while (!vgc_file_lock_whole(name, &file))
        if (errno != EAGAIN || !vgc_backoff(&step_ns, deadline_ns))
            break;
    return file;
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
    if (vgc_file_is_special(file->path))
        return;
    if (!vgc_file_may_have((uint64_t)MOST_LINES * LINE_BYTES))
        return;
    vgc_handle lock = lock_file(file->path);
    (void)snprintf(path, sizeof(path), "%s.%d", file->path, (int)getpid());
    FILE *fresh = vgc_stream_new(path);
    if (fresh != NULL) {
        unsigned lines = write_news(fresh, news);
        FILE *old = vgc_stream_old(file->path);
        bool is_ours = old == NULL || copy_old(fresh, old, lines, news) || !file->is_given;
        if (old != NULL)
            (void)fclose(old);
        if (fclose(fresh) != 0 || !is_ours || !vgc_file_replace(path, file->path))
            (void)unlink(path);
    }
    if (lock != VGC_NO_HANDLE)
        vgc_file_close(lock);
}
