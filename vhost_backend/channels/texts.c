/* Texts that records name by their address in a program: keeps track of those that the daemon knows already. */
#include "internal.h"

#include <string.h>

/* Slot of an address in the hash table of known texts, or the free slot to put it into. */
static uint64_t *place_of(struct vgc_control_texts *texts, uint64_t address)
{
    const uint32_t places = 2 * VGC_CONTROL_TEXTS;
    uint64_t hash = address * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t place = (uint32_t)(hash >> 40) % places;
    while (texts->known[place] != 0 && texts->known[place] != address)
        place = (place + 1) % places;
    return &texts->known[place];
}

void vgc_control_note_text(struct vgc_control *control, uint64_t address)
{
    struct vgc_control_texts *texts = &control->texts;
    if (address == 0 || texts->count == VGC_CONTROL_TEXTS || texts->unknown_count == VGC_CONTROL_UNKNOWN ||
        *place_of(texts, address) == address)
        return;
    for (uint32_t i = 0; i < texts->unknown_count; i++)
        if (texts->unknown[i] == address)
            return;
    texts->unknown[texts->unknown_count++] = address;
}

void vgc_control_know(struct vgc_control *control, uint64_t address)
{
    struct vgc_control_texts *texts = &control->texts;
    uint64_t *place = place_of(texts, address);
    if (address == 0 || *place == address || texts->count == VGC_CONTROL_TEXTS)
        return;
    *place = address;
    texts->count++;
}

void vgc_control_forget(struct vgc_control *control)
{
    memset(&control->texts, 0, sizeof(control->texts));
}

uint32_t vgc_control_unknown(const struct vgc_control *control, uint64_t *addresses)
{
    memcpy(addresses, control->texts.unknown, control->texts.unknown_count * sizeof(*addresses));
    return control->texts.unknown_count;
}

int vgc_control_text(struct vgc_control *control, uint64_t address, char *text, uint32_t size)
{
    struct vgc_engine *engine = control->area.engine;
    if (engine == NULL || engine->ops->control_text == NULL)
        return -ENOTSUP;
    return engine->ops->control_text(engine, address, text, size);
}

/* Index of the payload's word that holds a text's address; -1 if the payload has no such word. */
static int text_word(uint32_t function, uint32_t type)
{
    switch (function) {
    case VGC_CTL_STDIO:
        return type == VGC_CTL_STDIO_FORMAT ? 0 : -1;
    case VGC_CTL_PERF:
        return type == VGC_CTL_PERF_SAMPLE ? -1 : 0;
    case VGC_CTL_LOG:
        return 0;
    case VGC_CTL_FAULT:
        return type == VGC_CTL_FAULT_FORMAT ? 1 : -1;
    case VGC_CTL_SNAPSHOT:
        return 0;
    default:
        return -1;
    }
}

void vgc_control_note_texts(struct vgc_control *control, const uint8_t *record)
{
    uint16_t length;
    memcpy(&length, record + 10, sizeof(length));
    int word = text_word(record[8] >> 4, record[9]);
    if (word < 0 || length < (word + 1) * 8)
        return;
    uint64_t address;
    memcpy(&address, record + 24 + word * 8, sizeof(address));
    vgc_control_note_text(control, address);
}
