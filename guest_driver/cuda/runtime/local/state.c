/* Times of the two sides of kernels, kept from run to run; and how often each side ran, if the program's user asks.
 *
 * The file has a line for each kernel and size: digest of the CPU versions' library, the linker's name, size class
 * (threads of the launch, as a power of two), nanoseconds and samples of the device, nanoseconds and samples of the
 * CPU. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "versions.h"

enum { PATH_BYTES = 512, LINE_BYTES = 4608, MOST_LINES = 4096 };

/* False: nothing is kept. */
static bool find_file(char *path, size_t room)
{
    const char *own = secure_getenv("VGC_EITHER_FILE");
    const char *cache = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    char folder[PATH_BYTES];
    if (own != NULL)
        return own[0] != '\0' && snprintf(path, room, "%s", own) < (int)room;
    if (cache != NULL && cache[0] == '/')
        (void)snprintf(folder, sizeof(folder), "%s", cache);
    else if (home != NULL && home[0] == '/')
        (void)snprintf(folder, sizeof(folder), "%s/.cache", home);
    else
        return false;
    (void)mkdir(folder, 0700);
    int len = snprintf(path, room, "%s/virtio-gpu-compute", folder);
    if (len < 0 || (size_t)len >= room)
        return false;
    (void)mkdir(path, 0700);
    len = snprintf(path, room, "%s/virtio-gpu-compute/either", folder);
    return len > 0 && (size_t)len < room;
}

struct line {
    uint64_t digest;
    char name[4200];
    unsigned size_class;
    struct rt_measured measured;
};

static bool parse(const char *text, struct line *line)
{
    memset(&line->measured, 0, sizeof(line->measured));
    return sscanf(text, "%" SCNx64 " %4199s %u %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32, &line->digest, line->name,
                  &line->size_class, &line->measured.ns[RT_GPU], &line->measured.samples[RT_GPU],
                  &line->measured.ns[RT_CPU], &line->measured.samples[RT_CPU]) == 7 &&
           line->size_class < RT_SIZE_CLASSES;
}

void rt_local_recall(struct rt_either *either)
{
    char path[PATH_BYTES];
    char text[LINE_BYTES];
    struct line line;
    FILE *file = find_file(path, sizeof(path)) ? fopen(path, "re") : NULL;
    while (file != NULL && fgets(text, sizeof(text), file) != NULL)
        if (parse(text, &line) && line.digest == either->function->unit->local_digest &&
            strcmp(line.name, either->function->name) == 0)
            either->measured[line.size_class] = line.measured;
    if (file != NULL)
        (void)fclose(file);
}

static bool is_replaced(const struct line *line)
{
    for (const struct rt_either *at = rt_local_known(); at != NULL; at = at->next)
        if (at->measured[line->size_class].is_new && line->digest == at->function->unit->local_digest &&
            strcmp(line->name, at->function->name) == 0)
            return true;
    return false;
}

static bool is_any_new(void)
{
    for (const struct rt_either *at = rt_local_known(); at != NULL; at = at->next)
        for (unsigned i = 0; i < RT_SIZE_CLASSES; i++)
            if (at->measured[i].is_new)
                return true;
    return false;
}

static unsigned write_known(FILE *file)
{
    unsigned lines = 0;
    for (const struct rt_either *at = rt_local_known(); at != NULL; at = at->next)
        for (unsigned i = 0; i < RT_SIZE_CLASSES; i++) {
            const struct rt_measured *m = &at->measured[i];
            if (!m->is_new)
                continue;
            (void)fprintf(file, "%016" PRIx64 " %s %u %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu32 "\n",
                          at->function->unit->local_digest, at->function->name, i, m->ns[RT_GPU], m->samples[RT_GPU],
                          m->ns[RT_CPU], m->samples[RT_CPU]);
            lines++;
        }
    return lines;
}

/* Writes the file anew. If two programs end at once, the news of one are lost. */
static void keep(void)
{
    char path[PATH_BYTES];
    char fresh[PATH_BYTES + 32];
    char text[LINE_BYTES];
    struct line line;
    if (!is_any_new() || !find_file(path, sizeof(path)))
        return;
    (void)snprintf(fresh, sizeof(fresh), "%s.%d", path, (int)getpid());
    FILE *file = fopen(fresh, "wex");
    if (file == NULL)
        return;
    unsigned lines = write_known(file);
    FILE *old = fopen(path, "re");
    while (old != NULL && lines < MOST_LINES && fgets(text, sizeof(text), old) != NULL)
        if (parse(text, &line) && !is_replaced(&line)) {
            (void)fputs(text, file);
            lines++;
        }
    if (old != NULL)
        (void)fclose(old);
    if (fclose(file) != 0 || rename(fresh, path) != 0)
        (void)unlink(fresh);
}

static void report(void)
{
    for (const struct rt_either *at = rt_local_known(); at != NULL; at = at->next)
        if (at->local.kernel != NULL)
            (void)fprintf(stderr, "virtio-gpu-compute: %s: %u launches on the device, %u on the CPU\n",
                          at->local.kernel->source_name, atomic_load(&at->count[RT_GPU]),
                          atomic_load(&at->count[RT_CPU]));
}

void rt_local_at_exit(void)
{
    if (rt_is_forked)
        return;
    rt_local_lock();
    if (getenv("VGC_EITHER_REPORT") != NULL)
        report();
    keep();
    rt_local_unlock();
}
