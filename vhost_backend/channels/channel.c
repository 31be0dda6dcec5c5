/* Control channels: made, bound to elements while kernels run, released. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const FUNCTIONS[] = {"stdio", "perf", "log", "fault", "load", "firmware", "snapshot", "number 7"};

/* ---- channels in the area ------------------------------------------------------------------------------ */

void vgc_control_counts(const struct vgc_control_area *area, uint32_t number, struct vgc_control_counts *counts)
{
    vgc_control_read(area, vgc_control_channel_at(area, number) + offsetof(struct vgc_ctl_channel, head), counts,
                     sizeof(*counts));
}

uint64_t vgc_control_cost(const struct vgc_control_counts *counts)
{
    if (counts->cost_records == 0)
        return 0;
    double each = (double)counts->cost_ns / (double)counts->cost_records;
    double all = each * (double)counts->records;
    return all < 1e18 ? (uint64_t)all : 0; /* longer than any element lives: forged */
}

void vgc_control_bind(struct vgc_control *control, uint16_t number)
{
    const struct vgc_control_channel *channel = &control->channels[number];
    uint64_t word = vgc_ctl_bind(channel->generation, number, channel->level, vgc_control_sampling(channel));
    uint64_t place = offsetof(struct vgc_ctl_pe, bind) + sizeof(uint64_t) * channel->link.function;
    vgc_control_store(&control->area, vgc_control_pe_at(&control->area, channel->link.pe) + place, word);
}

/* ---- links ------------------------------------------------------------------------------------------------------ */

static uint32_t round_up(uint32_t value)
{
    uint32_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

/* Frees quarantined links whose elements have let go. */
static void reclaim(struct vgc_control *control)
{
    for (uint32_t i = control->num_quarantined; i-- > 0;) {
        struct vgc_control_quarantine *held = &control->quarantine[i];
        if (vgc_control_is_held(&control->area, held->pe))
            continue;
        vgc_control_link_give(control, held->offset);
        control->quarantined_bytes -= held->bytes;
        *held = control->quarantine[--control->num_quarantined];
    }
}

/* True if `bytes` may be allocated. Memory for a minimal ring of each unopened channel is kept back, but never more
 * than half of all memory. */
static bool is_affordable(const struct vgc_control *control, uint64_t bytes)
{
    uint64_t all = (uint64_t)control->memory.num_units * VGC_CONTROL_UNIT;
    uint64_t others =
        (uint64_t)(control->area.num_channels - control->num_open) * 2 * VGC_CONTROL_FEWEST_SLOTS * VGC_CTL_SLOT_BYTES;
    return control->memory.used + bytes + (others < all / 2 ? others : all / 2) <= all;
}

/* Makes the links of a channel, with a shorter out link if memory is short. False if there is no memory. */
static bool make_links(struct vgc_control *control, struct vgc_control_channel *channel,
                       const struct vgc_control_terms *terms)
{
    uint32_t slots = round_up(terms->slots > VGC_CONTROL_FEWEST_SLOTS ? terms->slots : VGC_CONTROL_FEWEST_SLOTS);
    uint64_t out = 0;
    for (; out == 0 && slots >= VGC_CONTROL_FEWEST_SLOTS; slots /= 2) {
        uint64_t bytes = (uint64_t)slots * VGC_CTL_SLOT_BYTES;
        if (slots == VGC_CONTROL_FEWEST_SLOTS || is_affordable(control, bytes))
            out = vgc_control_link_take(control, terms->function, bytes);
        channel->link.mask = slots - 1;
    }
    channel->link.offset = out;
    channel->in_bytes = terms->in_bytes == 0 ? 0 : round_up(terms->in_bytes);
    channel->in_offset = 0;
    if (out != 0 && channel->in_bytes != 0)
        channel->in_offset = vgc_control_memory_take(&control->memory, channel->in_bytes);
    if (out != 0 && (channel->in_bytes == 0 || channel->in_offset != 0))
        return true;
    if (out != 0)
        vgc_control_link_give(control, out);
    return false;
}

static void give_link(struct vgc_control *control, uint64_t offset)
{
    if (offset != 0)
        vgc_control_link_give(control, offset);
}

/* Ring positions never repeat: later rings start above the last position of this one, so that a stale `commit` in
 * reused memory is never taken for a new one. Clearing the memory instead would touch, and so use, all of it. */
static void reserve_positions(struct vgc_control *control, uint16_t number)
{
    const uint64_t most = UINT64_C(1) << 62; /* a head beyond is forged, and harms only its own guest */
    struct vgc_control_counts counts;
    vgc_control_counts(&control->area, number, &counts);
    uint64_t tail = control->channels[number].link.tail;
    uint64_t end = counts.head > tail && counts.head - tail < UINT32_MAX ? counts.head : tail;
    if (control->channels[number].phase == VGC_CONTROL_UNBOUND) /* hooks that hold the channel may still claim slots */
        end += VGC_CONTROL_HELD_SLOTS;
    if (end < most && end > control->next_position)
        control->next_position = end;
}

static void forget_channel(struct vgc_control *control, uint16_t number)
{
    struct vgc_control_channel *channel = &control->channels[number];
    uint16_t last = control->open[--control->num_open];
    control->open[channel->place] = last;
    control->channels[last].place = channel->place;
    control->elements[channel->link.pe].bound &= (uint8_t)~(1u << channel->link.function);
    channel->phase = VGC_CONTROL_NONE;
}

/* ---- open ------------------------------------------------------------------------------------------------------- */

static int check_one(struct vgc_control *control, const struct vgc_control_terms *terms, uint16_t pe, uint16_t number,
                     char *why)
{
    if (pe >= control->area.num_pes) {
        vgc_control_say(why, "processing element %u; allowed: 0..%u", pe, control->area.num_pes - 1);
        return -EINVAL;
    }
    if (number == 0 || number > control->area.num_channels) {
        vgc_control_say(why, "channel %u; allowed: 1..%u", number, control->area.num_channels);
        return -EINVAL;
    }
    if (control->channels[number].phase != VGC_CONTROL_NONE) {
        vgc_control_say(why, "channel %u is open already; allowed: a channel that is not open", number);
        return -EBUSY;
    }
    if (control->elements[pe].bound >> terms->function & 1) {
        vgc_control_say(why, "%s of element %u has a channel already; allowed: one channel", FUNCTIONS[terms->function],
                        pe);
        return -EBUSY;
    }
    return 0;
}

/* Reserves a channel's number, its element's function and its links. */
static int reserve(struct vgc_control *control, const struct vgc_control_terms *terms, uint16_t pe, uint16_t number,
                   uint32_t generation, char *why)
{
    int result = check_one(control, terms, pe, number, why);
    if (result != 0)
        return result;
    struct vgc_control_channel made = {
        .phase = VGC_CONTROL_BOUND,
        .level = (uint8_t)terms->level,
        .sample = (uint8_t)terms->sample,
        .generation = generation,
        .place = control->num_open,
        .link = {.pe = pe, .function = (uint8_t)terms->function, .policy = terms->policy}};
    bool samples = terms->function == VGC_CTL_PERF || terms->function == VGC_CTL_LOAD;
    made.link.tail = control->next_position;
    made.once = samples && terms->period_ns == 0;
    made.period_ns = terms->period_ns;
    made.due_ns = samples ? vgc_control_now_ns() + terms->period_ns : UINT64_MAX;
    if (!make_links(control, &made, terms)) {
        vgc_control_say(why, "no room for the links of channel %u: %llu bytes of %llu are used", number,
                        (unsigned long long)control->memory.used,
                        (unsigned long long)control->memory.num_units * VGC_CONTROL_UNIT);
        return -ENOMEM;
    }
    control->channels[number] = made;
    control->open[control->num_open++] = number;
    control->elements[pe].bound |= (uint8_t)(1u << terms->function);
    control->elements[pe].due |= samples; /* takes a first sample now; later samples are differences from it */
    return 0;
}

static void unreserve(struct vgc_control *control, uint16_t number)
{
    struct vgc_control_channel *channel = &control->channels[number];
    give_link(control, channel->link.offset);
    give_link(control, channel->in_offset);
    forget_channel(control, number);
}

/* Writes all fields of the channel's entry. Must run before vgc_control_bind(): an element that sees the binding then
 * sees these fields. */
static void fill_in(struct vgc_control *control, const struct vgc_control_terms *terms, uint16_t number)
{
    const struct vgc_control_channel *channel = &control->channels[number];
    struct vgc_ctl_channel entry = {.generation = channel->generation,
                                    .function = channel->link.function,
                                    .pe = channel->link.pe,
                                    .policy = terms->policy,
                                    .slots = (uint32_t)channel->link.mask + 1,
                                    .out = vgc_control_device_at(&control->area, channel->link.offset),
                                    .in = channel->in_bytes == 0 ? 0 : control->area.device + channel->in_offset,
                                    .in_bytes = channel->in_bytes,
                                    .wait_ns = terms->wait_ns,
                                    .tail = channel->link.tail,
                                    .out_offset = channel->link.offset,
                                    .head = channel->link.tail};
    vgc_control_write(&control->area, vgc_control_channel_at(&control->area, number), &entry, sizeof(entry));
}

static int check_terms(const struct vgc_control_terms *terms, char *why)
{
    if (terms->function >= VGC_CTL_FUNCTIONS || terms->policy > VGC_CTL_WAIT || terms->level > VGC_CTL_DEBUG ||
        terms->sample > VGC_CONTROL_MAX_SAMPLE || terms->slots > 1 << 20 || terms->in_bytes > 1 << 20) {
        vgc_control_say(why,
                        "function %u, policy %u, level %u, sample %u, %u slots, %u bytes of input; allowed: at "
                        "most 7, 2, 5, 32, 1048576, 1048576",
                        terms->function, terms->policy, terms->level, terms->sample, terms->slots, terms->in_bytes);
        return -EINVAL;
    }
    return 0;
}

int vgc_control_open(struct vgc_control *control, const struct vgc_control_terms *terms, const uint16_t *pes,
                     const uint16_t *channels, const uint32_t *generations, uint32_t count, char *why)
{
    int result = check_terms(terms, why);
    reclaim(control);
    uint32_t made = 0;
    while (result == 0 && made < count) {
        result = reserve(control, terms, pes[made], channels[made], generations[made], why);
        made += result == 0;
    }
    if (result != 0) {
        while (made > 0)
            unreserve(control, channels[--made]);
        return result;
    }
    for (uint32_t i = 0; i < count; i++) {
        fill_in(control, terms, channels[i]);
        vgc_control_bind(control, channels[i]);
        vgc_control_attend(control, pes[i]);
    }
    vgc_control_kick(control);
    return 0;
}

/* ---- set, unbind, close ----------------------------------------------------------------------------------------- */

/* Checks that all channels are bound; -EINVAL with `why` otherwise. */
static int check_bound(const struct vgc_control *control, const uint16_t *channels, uint32_t count, char *why)
{
    for (uint32_t i = 0; i < count; i++)
        if (channels[i] > control->area.num_channels || control->channels[channels[i]].phase != VGC_CONTROL_BOUND) {
            vgc_control_say(why, "channel %u is not open; allowed: an open channel", channels[i]);
            return -EINVAL;
        }
    return 0;
}

int vgc_control_set(struct vgc_control *control, const uint16_t *channels, uint32_t count, uint32_t level,
                    uint32_t sample, char *why)
{
    int result = check_bound(control, channels, count, why);
    if (result == 0 && (level > VGC_CTL_DEBUG || sample > VGC_CONTROL_MAX_SAMPLE)) {
        vgc_control_say(why, "level %u, sample %u; allowed: at most 5, 32", level, sample);
        result = -EINVAL;
    }
    for (uint32_t i = 0; result == 0 && i < count; i++) {
        control->channels[channels[i]].level = (uint8_t)level;
        control->channels[channels[i]].sample = (uint8_t)sample;
        vgc_control_bind(control, channels[i]);
    }
    return result;
}

int vgc_control_unbind(struct vgc_control *control, const uint16_t *channels, uint32_t count, char *why)
{
    int result = check_bound(control, channels, count, why);
    if (result != 0)
        return result;
    for (uint32_t i = 0; i < count; i++) {
        struct vgc_control_channel *channel = &control->channels[channels[i]];
        uint64_t row = vgc_control_pe_at(&control->area, channel->link.pe);
        vgc_control_store(&control->area,
                          row + offsetof(struct vgc_ctl_pe, bind) + sizeof(uint64_t) * channel->link.function, 0);
        channel->phase = VGC_CONTROL_UNBOUND;
        channel->reported = false;
        control->elements[channel->link.pe].bound &= (uint8_t)~(1u << channel->link.function);
        vgc_control_attend(control, channel->link.pe);
        control->elements[channel->link.pe].bound |=
            (uint8_t)(1u << channel->link.function); /* stays set until the channel is closed */
    }
    vgc_control_fence();
    vgc_control_kick(control);
    return 0;
}

uint32_t vgc_control_unsettled(struct vgc_control *control)
{
    uint32_t unsettled = 0;
    for (uint32_t i = 0; i < control->num_open; i++) {
        struct vgc_control_channel *channel = &control->channels[control->open[i]];
        if (channel->phase == VGC_CONTROL_UNBOUND && !vgc_control_is_held(&control->area, channel->link.pe))
            channel->phase = VGC_CONTROL_QUIET;
        unsettled +=
            channel->phase == VGC_CONTROL_UNBOUND || (channel->phase == VGC_CONTROL_QUIET && !channel->reported);
    }
    return unsettled;
}

/* Keeps a link's memory from being used again until its element lets go. If the list cannot grow, the memory is never
 * reused: a leak, but safe. */
static void quarantine(struct vgc_control *control, uint16_t pe, uint64_t offset, uint64_t bytes)
{
    if (offset == 0)
        return;
    control->quarantined_bytes += bytes;
    if (control->num_quarantined == control->room_quarantined) {
        uint32_t room = control->room_quarantined * 2 + 64;
        struct vgc_control_quarantine *more = realloc(control->quarantine, room * sizeof(*more));
        if (more == NULL)
            return;
        control->quarantine = more;
        control->room_quarantined = room;
    }
    control->quarantine[control->num_quarantined++] =
        (struct vgc_control_quarantine){.offset = offset, .bytes = (uint32_t)bytes, .pe = pe};
}

uint32_t vgc_control_close(struct vgc_control *control, const uint16_t *channels, uint32_t count)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct vgc_control_channel *channel = &control->channels[channels[i]];
        if (channels[i] > control->area.num_channels || channel->phase < VGC_CONTROL_UNBOUND)
            continue;
        reserve_positions(control, channels[i]);
        if (channel->phase == VGC_CONTROL_UNBOUND) {
            quarantine(control, channel->link.pe, channel->link.offset, (channel->link.mask + 1) * VGC_CTL_SLOT_BYTES);
            quarantine(control, channel->link.pe, channel->in_offset, channel->in_bytes);
            held++;
        } else {
            give_link(control, channel->link.offset);
            give_link(control, channel->in_offset);
        }
        forget_channel(control, channels[i]);
    }
    reclaim(control);
    return held;
}

/* ---- input ------------------------------------------------------------------------------------------------------ */

static void put_bytes(struct vgc_control *control, const struct vgc_control_channel *channel, const uint8_t *data,
                      uint32_t size)
{
    /* the first and last 8-byte words may also hold bytes that a kernel is reading; keeps those bytes */
    for (uint32_t done = 0; done < size;) {
        uint64_t position = (channel->in_head + done) & (channel->in_bytes - 1);
        uint64_t word_at = channel->in_offset + (position & ~UINT64_C(7));
        bool whole = (position & 7) == 0 &&
                     size - done >= 8; /* reading the old word is slow, and needed only for a part of it */
        uint64_t word = whole ? 0 : vgc_control_load(&control->area, word_at);
        uint8_t bytes[8];
        memcpy(bytes, &word, 8);
        for (uint64_t at = position & 7; at < 8 && done < size; at++)
            bytes[at] = data[done++];
        memcpy(&word, bytes, 8);
        vgc_control_store(&control->area, word_at, word);
    }
}

int vgc_control_send(struct vgc_control *control, uint16_t number, const uint8_t *data, uint32_t size, bool eof,
                     char *why)
{
    int result = check_bound(control, &number, 1, why);
    if (result != 0)
        return result;
    struct vgc_control_channel *channel = &control->channels[number];
    struct vgc_control_counts counts;
    vgc_control_counts(&control->area, number, &counts);
    uint64_t there = channel->in_head - counts.in_tail;
    uint64_t room = there <= channel->in_bytes ? channel->in_bytes - there : 0; /* more: overwritten by guest code */
    if (size > room) {
        vgc_control_say(why, "channel %u: %u bytes of input; allowed: %llu, until its kernel reads", number, size,
                        (unsigned long long)room);
        return size > channel->in_bytes ? -ENOSPC : -EAGAIN;
    }
    uint64_t entry = vgc_control_channel_at(&control->area, number);
    put_bytes(control, channel, data, size);
    channel->in_head += size;
    vgc_control_store(&control->area, entry + offsetof(struct vgc_ctl_channel, in_head), channel->in_head);
    if (eof)
        vgc_control_store(&control->area, entry + offsetof(struct vgc_ctl_channel, in_eof), 1);
    return 0;
}
