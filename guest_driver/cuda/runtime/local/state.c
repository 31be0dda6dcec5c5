/* Times of the two sides of kernels, kept from run to run; and how often each side ran, if the program's user asks.
 *
 * In the file (times.c of libvgc), `owner` is the digest of the CPU versions' library, `name` the linker's, and the
 * class the number of threads, as a power of two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "versions.h"

static bool find_file(struct vgc_times_file *file)
{
    return vgc_times_find(file, "VGC_EITHER_FILE", "either");
}

static bool is_of(const struct rt_either *either, const struct vgc_times_line *line)
{
    return line->size_class < RT_SIZE_CLASSES && line->owner == either->function->unit->local_digest &&
           strcmp(line->name, either->function->name) == 0;
}

static void take(void *data, const struct vgc_times_line *line)
{
    struct rt_either *either = data;
    if (is_of(either, line))
        vgc_times_take(&either->measured[line->size_class].times, line);
}

void rt_local_recall(struct rt_either *either)
{
    struct vgc_times_file file;
    if (find_file(&file))
        vgc_times_read(&file, take, either);
}

struct news {
    struct rt_either *at;
    unsigned next_class;
};

static bool next_new(void *data, struct vgc_times_line *line)
{
    struct news *news = data;
    for (; news->at != NULL; news->at = news->at->next, news->next_class = 0)
        while (news->next_class < RT_SIZE_CLASSES) {
            unsigned size_class = news->next_class++;
            struct vgc_times *times = &news->at->measured[size_class].times;
            if (!times->is_new)
                continue;
            *line = (struct vgc_times_line){.owner = news->at->function->unit->local_digest,
                                            .name = news->at->function->name,
                                            .size_class = size_class};
            vgc_times_give(times, line);
            return true;
        }
    return false;
}

static bool is_replaced(void *unused, const struct vgc_times_line *line)
{
    (void)unused;
    if (line->size_class >= RT_SIZE_CLASSES)
        return true;
    for (const struct rt_either *at = rt_local_known(); at != NULL; at = at->next)
        if (at->measured[line->size_class].times.is_new && is_of(at, line))
            return true;
    return false;
}

static void keep(void)
{
    struct vgc_times_file file;
    struct vgc_times_line line;
    struct news first = {.at = rt_local_known()};
    struct news all = first;
    const struct vgc_times_news news = {.next = next_new, .has = is_replaced, .data = &all};
    if (next_new(&first, &line) && find_file(&file))
        vgc_times_write(&file, &news);
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
