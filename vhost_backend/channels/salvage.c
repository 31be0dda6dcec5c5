/* Salvage: the daemon drains the area of a dead worker. Nothing in the area is trusted, as guest code could write all
 * of it. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct vgc_salvage {
    struct vgc_control_area area;
    uint32_t channel; /* channel that is being drained; 0: no channel */
    uint32_t generation;
    struct vgc_control_link link;
    uint64_t repeated; /* records that the daemon has received already */
    struct vgc_control_counts counts;
    bool finished; /* the channel's last section was made */
    uint64_t
        slots_left; /* bound of the slots that links may still have, so that forged ones cannot keep the daemon busy */
};

struct vgc_salvage *vgc_salvage_new(int fd, uint64_t size, uint32_t num_pes, uint32_t num_channels, char *why)
{
    struct vgc_salvage *salvage = calloc(1, sizeof(*salvage));
    if (salvage == NULL) {
        vgc_control_say(why, "no memory");
        return NULL;
    }
    if (vgc_control_area_map(&salvage->area, fd, size, num_pes, num_channels, false, why) != 0) {
        free(salvage);
        return NULL;
    }
    struct vgc_ctl_area head;
    vgc_control_read(&salvage->area, 0, &head, sizeof(head));
    salvage->area.clock_ns = head.clock_ns;
    salvage->slots_left = (size - salvage->area.links) / VGC_CTL_SLOT_BYTES;
    return salvage;
}

void vgc_salvage_limit(struct vgc_salvage *salvage, uint64_t slots)
{
    if (slots < salvage->slots_left)
        salvage->slots_left = slots;
}

void vgc_salvage_free(struct vgc_salvage *salvage)
{
    vgc_control_area_unmap(&salvage->area);
    free(salvage);
}

/* Advances `head` over committed slots. Where the area is apart, the host's copy of `head` is the one that the worker
 * read last, and the link may have records behind it. */
static void pass_head(struct vgc_salvage *salvage)
{
    const struct vgc_control_link *link = &salvage->link;
    uint64_t *head = &salvage->counts.head;
    while (*head - link->tail <= link->mask) {
        uint64_t at = link->offset + (*head & link->mask) * VGC_CTL_SLOT_BYTES;
        uint64_t commit = vgc_control_load(&salvage->area, at) & ~(UINT64_C(1) << VGC_CONTROL_MORE_SHIFT);
        if (commit != *head + 1)
            break;
        ++*head;
    }
}

/* Finds the link that the channel's entry describes; false if the entry is invalid. */
static bool find_link(struct vgc_salvage *salvage, uint16_t number, uint32_t generation, uint64_t taken)
{
    const struct vgc_control_area *area = &salvage->area;
    struct vgc_ctl_channel entry;
    vgc_control_read(area, vgc_control_channel_at(area, number), &entry, sizeof(entry));
    uint64_t bytes = (uint64_t)entry.slots * VGC_CTL_SLOT_BYTES;
    if (entry.generation != generation || entry.slots == 0 || (entry.slots & (entry.slots - 1)) != 0 ||
        entry.out_offset % VGC_CTL_SLOT_BYTES != 0 || entry.out_offset < area->links || bytes > area->size ||
        entry.out_offset > area->size - bytes || entry.slots > salvage->slots_left)
        return false;
    salvage->slots_left -= entry.slots;
    salvage->link = (struct vgc_control_link){.offset = entry.out_offset,
                                              .mask = entry.slots - 1,
                                              .policy = entry.policy,
                                              .tail = entry.tail,
                                              .taken = entry.taken};
    salvage->repeated = taken > entry.taken && taken - entry.taken <= entry.slots ? taken - entry.taken : 0;
    vgc_control_counts(area, number, &salvage->counts);
    pass_head(salvage);
    return true;
}

static bool begin(struct vgc_salvage *salvage, uint16_t number, uint32_t generation, uint32_t function, uint16_t pe,
                  uint64_t taken)
{
    if (salvage->channel == number && salvage->generation == generation)
        return true;
    salvage->finished = false;
    salvage->channel = 0;
    if (number == 0 || number > salvage->area.num_channels || !find_link(salvage, number, generation, taken))
        return false;
    salvage->channel = number;
    salvage->generation = generation;
    salvage->link.function = (uint8_t)function;
    salvage->link.pe = pe;
    return true;
}

/* Removes records at the front that the worker has sent without having noted it. */
static uint32_t leave_out_repeated(struct vgc_salvage *salvage, uint8_t *batch, uint32_t size)
{
    uint32_t at = 0;
    while (at < size && salvage->repeated != 0) {
        uint16_t length;
        memcpy(&length, batch + at + 10, sizeof(length));
        at += 24 + ((length + 7u) & ~7u);
        salvage->repeated--;
    }
    memmove(batch, batch + at, size - at);
    return size - at;
}

uint32_t vgc_salvage_drain(struct vgc_salvage *salvage, uint16_t channel, uint32_t generation, uint32_t function,
                           uint16_t pe, uint64_t taken, uint8_t *to, uint32_t size)
{
    if (size < VGC_CONTROL_SECTION + 24 + VGC_CTL_MAX_PAYLOAD ||
        !begin(salvage, channel, generation, function, pe, taken) || salvage->finished)
        return 0;
    uint64_t head_at = vgc_control_channel_at(&salvage->area, channel) + offsetof(struct vgc_ctl_channel, head);
    uint32_t used = vgc_control_link_drain(&salvage->area, &salvage->link, salvage->counts.head, head_at, 0, true,
                                           to + VGC_CONTROL_SECTION, size - VGC_CONTROL_SECTION);
    bool more = used != 0 && salvage->link.tail != salvage->counts.head;
    salvage->finished = !more;
    used = leave_out_repeated(salvage, to + VGC_CONTROL_SECTION, used);
    const struct vgc_control_counts *counts = &salvage->counts;
    uint64_t had = salvage->link.taken;
    struct vgc_control_section section = {.channel = channel,
                                          .generation = generation,
                                          .taken = had,
                                          .lost = had < counts->records ? counts->records - had : 0,
                                          .skipped = counts->skipped,
                                          .cost_ns = vgc_control_cost(counts),
                                          .forged = salvage->link.forged,
                                          .length = used,
                                          .made_ns = vgc_control_now_ns()};
    memcpy(to, &section, sizeof(section));
    return VGC_CONTROL_SECTION + used;
}
