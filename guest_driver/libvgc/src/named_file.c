/* Times of functions by name, from run to run. */
#include <string.h>

#include "named_table.h"

enum { NAME_TEXT_BYTES = 3 * VGC_MAX_NAME + 1 };

/* ---- names ---------------------------------------------------------------------------------- */

/* A name as a word: white space, control characters, '%' and bytes beyond ASCII as %XX. */
static void put_name(const char *name, char text[NAME_TEXT_BYTES])
{
    static const char DIGITS[] = "0123456789abcdef";
    for (; *name != '\0'; name++) {
        uint8_t byte = (uint8_t)*name;
        if (byte > ' ' && byte < 0x7f && byte != '%') {
            *text++ = *name;
            continue;
        }
        *text++ = '%';
        *text++ = DIGITS[byte >> 4];
        *text++ = DIGITS[byte & 15];
    }
    *text = '\0';
}

static int digit(char text)
{
    return text >= '0' && text <= '9' ? text - '0' : text >= 'a' && text <= 'f' ? text - 'a' + 10 : -1;
}

/* False: the text is not one that put_name() makes. */
static bool get_name(const char *text, char name[VGC_MAX_NAME + 1])
{
    size_t len = 0;
    for (; *text != '\0'; text++) {
        if (len == VGC_MAX_NAME)
            return false;
        name[len] = *text;
        if (*text == '%') {
            int high = digit(text[1]);
            int low = high >= 0 ? digit(text[2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return false;
            name[len] = (char)(16 * high + low);
            text += 2;
        }
        len++;
    }
    name[len] = '\0';
    return len > 0;
}

static void take_line(void *data, const struct vgc_times_line *line)
{
    struct vgc_named_table *table = data;
    char name[VGC_MAX_NAME + 1];
    struct vgc_named *named =
        line->owner == table->owner && get_name(line->name, name) ? vgc_named_make(table, name) : NULL;
    if (named != NULL)
        vgc_sizes_recall(&named->sizes, line);
}

void vgc_named_recall(struct vgc_named_table *table)
{
    vgc_times_read(&table->file, take_line, table);
}

/* ---- writing -------------------------------------------------------------------------------- */

struct news {
    const struct vgc_named_table *table;
    const struct vgc_named_slots *slots;
    size_t slot;
    uint32_t size_class; /* next one of the slot's entry */
    char name[NAME_TEXT_BYTES];
};

static struct vgc_times *new_times(const struct vgc_named *named, uint32_t size_class)
{
    struct vgc_size_class *at = vgc_sizes_at(&named->sizes, size_class);
    bool is_known = at != NULL && at->times.samples[VGC_TIMED_GPU] + at->times.samples[VGC_TIMED_CPU] > 0;
    return is_known && at->times.is_new ? &at->times : NULL;
}

static bool next_new(void *data, struct vgc_times_line *line)
{
    struct news *news = data;
    for (; news->slot < news->slots->room; news->slot++, news->size_class = 0) {
        const struct vgc_named *named = news->slots->at[news->slot];
        while (named != NULL && news->size_class < VGC_SIZE_CLASSES) {
            struct vgc_times *times = new_times(named, news->size_class++);
            if (times == NULL)
                continue;
            put_name(named->name, news->name);
            *line = (struct vgc_times_line){.owner = news->table->owner,
                                            .name = news->name,
                                            .size_class = news->size_class - 1,
                                            .remark = news->table->remark};
            vgc_times_give(times, line);
            return true;
        }
    }
    return false;
}

static bool is_new(void *data, const struct vgc_times_line *line)
{
    const struct news *news = data;
    char name[VGC_MAX_NAME + 1];
    if (line->owner != news->table->owner || line->size_class >= VGC_SIZE_CLASSES || !get_name(line->name, name))
        return false;
    const struct vgc_named *named = vgc_named_find(news->table, name);
    return named != NULL && new_times(named, line->size_class) != NULL;
}

void vgc_named_keep(const struct vgc_named_table *table)
{
    struct vgc_times_line line;
    struct news first = {.table = table, .slots = table->slots};
    if (!table->has_file || !next_new(&first, &line))
        return;
    struct news all = {.table = table, .slots = table->slots};
    const struct vgc_times_news news = {.next = next_new, .has = is_new, .data = &all};
    vgc_times_write(&table->file, &news);
}

int vgc_choice_file(char *path, size_t room)
{
    struct vgc_times_file file;
    if (!vgc_times_find(&file, "VGC_CHOICE_FILE", "choice"))
        return vgc_fail(VGC_NOT_FOUND, "times are not kept: VGC_CHOICE_FILE is empty, or there is no home");
    if (strlen(file.path) >= room)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a path of %zu bytes, and room for %zu", strlen(file.path), room);
    memcpy(path, file.path, strlen(file.path) + 1);
    return VGC_OK;
}
