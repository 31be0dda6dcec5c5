/* Packets: records of many channels, one section per channel. A packet that could not be sent is undone: its records
 * stay in the links, and elements that find no room there count their records as lost. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_BYTES = 24 + 32,
    QUIET_NS = 250000000, /* shortest time between sections without records */
};

static void note_batch(struct vgc_control *control, const uint8_t *batch, uint32_t size)
{
    for (uint32_t at = 0; at < size;) {
        uint16_t length;
        memcpy(&length, batch + at + 10, sizeof(length));
        vgc_control_note_texts(control, batch + at);
        at += 24 + ((length + 7u) & ~7u);
    }
}

/* ---- sections --------------------------------------------------------------------------------------------------- */

static void remember(struct vgc_control *control, uint16_t number)
{
    const struct vgc_control_channel *channel = &control->channels[number];
    control->before[control->num_before++] = (struct vgc_control_before){.number = number,
                                                                         .once = channel->once,
                                                                         .reported = channel->reported,
                                                                         .due_ns = channel->due_ns,
                                                                         .made = channel->made,
                                                                         .reported_lost = channel->reported_lost,
                                                                         .reported_skipped = channel->reported_skipped,
                                                                         .reported_ns = channel->reported_ns,
                                                                         .link = channel->link};
}

/* Puts a sample if it is due; returns its bytes. */
static uint32_t put_sample(struct vgc_control *control, struct vgc_control_channel *channel, uint64_t now_ns,
                           uint8_t *to)
{
    if (now_ns < channel->due_ns || channel->phase != VGC_CONTROL_BOUND)
        return 0;
    uint32_t used = vgc_control_sample(control, channel, now_ns, to);
    channel->made++;
    channel->due_ns = channel->once ? UINT64_MAX : now_ns + channel->period_ns;
    channel->once = false;
    control->elements[channel->link.pe].due = true;
    return used;
}

/* Number of lost records. While elements hold the channel, records that they are putting into the link may be counted,
 * too; the number is exact once they have let go. */
static uint64_t lost_of(const struct vgc_control_channel *channel, const struct vgc_control_counts *counts)
{
    bool final = channel->phase == VGC_CONTROL_QUIET && channel->link.tail == counts->head;
    if (!final && channel->link.policy != VGC_CTL_OVERWRITE_OLDEST)
        return counts->lost;
    if (!final && channel->link.tail != counts->head)
        return channel->reported_lost;
    uint64_t gone = channel->link.taken < counts->records ? counts->records - channel->link.taken : 0;
    return gone;
}

static bool has_news(const struct vgc_control_channel *channel, const struct vgc_control_counts *counts, uint64_t lost,
                     uint64_t now_ns)
{
    if (channel->phase == VGC_CONTROL_QUIET && !channel->reported)
        return true;
    bool changed = lost != channel->reported_lost || counts->skipped != channel->reported_skipped;
    return changed && now_ns - channel->reported_ns >= QUIET_NS;
}

/* True if no element holds the channel and all its records were taken: its section is the last one. */
static bool is_complete(const struct vgc_control_channel *channel, const struct vgc_control_counts *counts)
{
    return channel->phase == VGC_CONTROL_QUIET && channel->link.tail == counts->head;
}

/* ---- reading ahead: one transfer for many channels, as each transfer is slow --------------------------------------
 */

static void read_ahead(struct vgc_control *control)
{
    const struct vgc_control_area *area = &control->area;
    uint32_t first = UINT32_MAX, last = 0;
    control->ahead_count = 0;
    for (uint32_t i = 0; i < control->num_open; i++) {
        first = control->open[i] < first ? control->open[i] : first;
        last = control->open[i] > last ? control->open[i] : last;
    }
    if (!vgc_control_is_apart(area) || control->num_open < 2 || (last - first) / 4 > control->num_open)
        return;
    if (control->ahead == NULL)
        control->ahead = malloc((area->num_channels + 1) * sizeof(*control->ahead));
    if (control->ahead == NULL)
        return;
    control->ahead_first = first;
    control->ahead_count = last - first + 1;
    vgc_control_read(area, vgc_control_channel_at(area, first), control->ahead,
                     control->ahead_count * sizeof(*control->ahead));
}

static void counts_of(const struct vgc_control *control, uint16_t number, struct vgc_control_counts *counts)
{
    if (number - control->ahead_first < control->ahead_count)
        memcpy(counts, &control->ahead[number - control->ahead_first].head, sizeof(*counts));
    else
        vgc_control_counts(&control->area, number, counts);
}

/* Puts the channel's section, if there is anything to report; returns its bytes. */
static uint32_t put_section(struct vgc_control *control, uint16_t number, uint64_t now_ns, uint8_t *to, uint32_t size)
{
    struct vgc_control_channel *channel = &control->channels[number];
    struct vgc_control_counts counts;
    counts_of(control, number, &counts);
    remember(control, number);
    uint8_t *batch = to + VGC_CONTROL_SECTION;
    uint32_t room = size - VGC_CONTROL_SECTION < VGC_CONTROL_TURN ? size - VGC_CONTROL_SECTION : VGC_CONTROL_TURN;
    uint32_t used = put_sample(control, channel, now_ns, batch);
    if (counts.head != channel->link.tail)
        used += vgc_control_link_drain(&control->area, &channel->link, counts.head,
                                       vgc_control_channel_at(&control->area, number) +
                                           offsetof(struct vgc_ctl_channel, head),
                                       now_ns, channel->phase == VGC_CONTROL_QUIET, batch + used, room - used);
    uint64_t lost = lost_of(channel, &counts);
    if (used == 0 && !has_news(channel, &counts, lost, now_ns)) {
        if (channel->link.tail == control->before[control->num_before - 1].link.tail)
            control->num_before--; /* nothing has changed that would have to be undone */
        return 0;
    }
    channel->reported_lost = lost;
    channel->reported_skipped = counts.skipped;
    channel->reported_ns = now_ns;
    channel->reported = is_complete(channel, &counts);
    struct vgc_control_section section = {.channel = number,
                                          .generation = channel->generation,
                                          .taken = channel->link.taken,
                                          .lost = lost,
                                          .skipped = counts.skipped,
                                          .cost_ns = vgc_control_cost(&counts),
                                          .forged = channel->link.forged,
                                          .length = used,
                                          .made_ns = now_ns};
    memcpy(to, &section, sizeof(section));
    note_batch(control, batch, used);
    return VGC_CONTROL_SECTION + used;
}

uint32_t vgc_control_drain(struct vgc_control *control, uint64_t now_ns, uint8_t *to, uint32_t size)
{
    const uint32_t least = VGC_CONTROL_SECTION + SAMPLE_BYTES + 24 + VGC_CTL_MAX_PAYLOAD;
    uint32_t used = 0;
    control->texts.unknown_count = 0;
    control->num_before = 0;
    control->turn_before = control->turn;
    read_ahead(control);
    for (uint32_t looked = 0;
         looked < control->num_open && size - used >= least && control->num_before < VGC_CONTROL_MAX_SECTIONS;
         looked++) {
        control->turn = control->turn + 1 < control->num_open ? control->turn + 1 : 0;
        used += put_section(control, control->open[control->turn], now_ns, to + used, size - used);
    }
    if (used == 0)
        vgc_control_drained(control, true); /* frees slots that were skipped */
    return used;
}

/* Frees the slots that were taken, by telling elements the new tail. */
static void advance(struct vgc_control *control, const struct vgc_control_before *before)
{
    const struct vgc_control_channel *channel = &control->channels[before->number];
    if (channel->link.tail == before->link.tail)
        return;
    uint64_t words[2] = {channel->link.tail, channel->link.taken};
    vgc_control_write(&control->area,
                      vgc_control_channel_at(&control->area, before->number) + offsetof(struct vgc_ctl_channel, tail),
                      words, sizeof(words));
}

static void undo(struct vgc_control *control, const struct vgc_control_before *before)
{
    struct vgc_control_channel *channel = &control->channels[before->number];
    channel->once = before->once;
    channel->reported = before->reported;
    channel->due_ns = before->due_ns;
    channel->made = before->made;
    channel->reported_lost = before->reported_lost;
    channel->reported_skipped = before->reported_skipped;
    channel->reported_ns = before->reported_ns;
    channel->link = before->link;
}

void vgc_control_drained(struct vgc_control *control, bool sent)
{
    if (!sent)
        control->turn = control->turn_before;
    for (uint32_t i = 0; i < control->num_before; i++) {
        if (sent)
            advance(control, &control->before[i]);
        else
            undo(control, &control->before[i]);
    }
    control->num_before = 0;
}

uint64_t vgc_control_due_ns(const struct vgc_control *control)
{
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < control->num_open; i++) {
        const struct vgc_control_channel *channel = &control->channels[control->open[i]];
        if (channel->phase == VGC_CONTROL_BOUND && channel->due_ns < due)
            due = channel->due_ns;
    }
    return due;
}
