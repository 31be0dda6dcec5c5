/* Host's end of an out link: reads whole records from a ring that guest code can write.
 *
 * A slot is copied before it is checked, and compared again where an element may have overwritten it meanwhile. Each
 * step advances `tail` or ends the round, and a round has no more steps than the ring has slots.
 */
#include "internal.h"

#include <string.h>

enum step { STEP_TAKEN, STEP_PASSED, STEP_EMPTY, STEP_FULL };

/* One round over a link. */
struct round {
    const struct vgc_control_area *area;
    struct vgc_control_link *link;
    uint64_t head;
    uint64_t head_at;
    uint8_t *to;
    uint32_t size;
    uint32_t used;
};

static uint64_t slot_at(const struct vgc_control_link *link, uint64_t position)
{
    return link->offset + (position & link->mask) * VGC_CTL_SLOT_BYTES;
}

static uint64_t more_commit(uint64_t position)
{
    return (position + 1) | UINT64_C(1) << VGC_CONTROL_MORE_SHIFT;
}

static uint32_t slots_for(uint32_t length)
{
    return length <= VGC_CTL_FIRST_PAYLOAD
               ? 1
               : 1 + (length - VGC_CTL_FIRST_PAYLOAD + VGC_CTL_NEXT_PAYLOAD - 1) / VGC_CTL_NEXT_PAYLOAD;
}

/* Skips to the oldest slot that can still hold its record, if more slots were claimed than the ring has: older ones
 * were overwritten, or guest code has forged `head`. */
static void resynchronise(struct round *round)
{
    struct vgc_control_link *link = round->link;
    if (round->head - link->tail <= link->mask + 1)
        return;
    if (link->policy == VGC_CTL_OVERWRITE_OLDEST) {
        link->tail = round->head - (link->mask + 1);
    } else {
        link->tail = round->head;
        link->forged++;
    }
    link->stalled_ns = 0;
}

/* Copies the payload; false if one of its slots is not committed. */
static bool copy_payload(const struct round *round, const struct vgc_ctl_record *first, uint8_t *to)
{
    const struct vgc_control_link *link = round->link;
    uint32_t done = first->length < VGC_CTL_FIRST_PAYLOAD ? first->length : VGC_CTL_FIRST_PAYLOAD;
    memcpy(to, first->payload, done);
    for (uint64_t at = link->tail + 1; done < first->length; at++) {
        struct vgc_ctl_more more;
        vgc_control_read(round->area, slot_at(link, at), &more, sizeof(more));
        uint32_t left = first->length - done;
        uint32_t part = left < VGC_CTL_NEXT_PAYLOAD ? left : VGC_CTL_NEXT_PAYLOAD;
        if (more.commit != more_commit(at))
            return false;
        memcpy(to + done, more.payload, part);
        done += part;
    }
    return true;
}

/* True if the slots still hold the record that was copied; only links that overwrite can have changed them. */
static bool is_still_there(const struct round *round, uint32_t slots)
{
    const struct vgc_control_link *link = round->link;
    if (link->policy != VGC_CTL_OVERWRITE_OLDEST)
        return true;
    if (vgc_control_load(round->area, slot_at(link, link->tail)) != link->tail + 1)
        return false;
    for (uint64_t at = link->tail + 1; at < link->tail + slots; at++)
        if (vgc_control_load(round->area, slot_at(link, at)) != more_commit(at))
            return false;
    return true;
}

static enum step pass(struct round *round, bool forged)
{
    round->link->tail++;
    round->link->stalled_ns = 0;
    round->link->forged += forged;
    return STEP_PASSED;
}

/* Takes the record whose first slot is at `tail`, if it is valid. */
static enum step take(struct round *round, const struct vgc_ctl_record *first)
{
    struct vgc_control_link *link = round->link;
    uint32_t slots = slots_for(first->length);
    bool overwrites = link->policy == VGC_CTL_OVERWRITE_OLDEST;
    if (first->length > VGC_CTL_MAX_PAYLOAD || first->function_level >> 4 != link->function || first->pe != link->pe ||
        slots > round->head - link->tail || slots > link->mask + 1)
        return pass(round, true);
    uint32_t bytes = 24 + ((first->length + 7u) & ~7u);
    if (bytes > round->size - round->used)
        return STEP_FULL;
    uint8_t *to = round->to + round->used;
    memset(to + bytes - 8, 0, 8);
    memcpy(to, &first->time_ns, 24);
    uint64_t time_ns = first->time_ns + vgc_control_clock(round->area);
    memcpy(to, &time_ns, sizeof(time_ns));
    if (!copy_payload(round, first, to + 24) || !is_still_there(round, slots))
        return pass(round, !overwrites);
    link->tail += slots;
    link->stalled_ns = 0;
    link->taken++;
    round->used += bytes;
    return STEP_TAKEN;
}

/* True if no hook of the element runs. The hook that claimed a slot before `head` was read has then filled it or died.
 */
static bool no_hook_runs(const struct round *round)
{
    return !vgc_control_is_held(round->area, round->link->pe);
}

static bool is_filled(const struct round *round)
{
    const struct vgc_control_link *link = round->link;
    uint64_t commit = vgc_control_load(round->area, slot_at(link, link->tail));
    return commit == link->tail + 1 || commit == more_commit(link->tail);
}

/* Waits for, or skips, the slot at `tail`, which was claimed and is not filled. */
static enum step wait_for(struct round *round, uint64_t now_ns, bool final)
{
    struct vgc_control_link *link = round->link;
    if (link->policy == VGC_CTL_OVERWRITE_OLDEST) {
        uint64_t head = vgc_control_load(round->area, round->head_at);
        if (head - link->tail > link->mask + 1) {
            round->head = head;
            resynchronise(round);
            return STEP_PASSED;
        }
    }
    if (final)
        return pass(round, true);
    if (no_hook_runs(round))
        return is_filled(round) ? STEP_PASSED : pass(round, true);
    if (link->stalled_ns == 0)
        link->stalled_ns = now_ns;
    if (now_ns - link->stalled_ns < VGC_CONTROL_STALL_MS * UINT64_C(1000000))
        return STEP_EMPTY;
    uint64_t since = link->stalled_ns; /* the following slots, if empty, have waited for the same time */
    pass(round, true);
    link->stalled_ns = since;
    return STEP_PASSED;
}

static enum step step(struct round *round, uint64_t now_ns, bool final)
{
    const struct vgc_control_link *link = round->link;
    struct vgc_ctl_record first;
    vgc_control_read(round->area, slot_at(link, link->tail), &first, sizeof(first));
    if (first.commit == link->tail + 1)
        return take(round, &first);
    if (first.commit ==
        more_commit(link->tail)) /* a further slot of a record whose first slot was overwritten, or nonsense */
        return pass(round, link->policy != VGC_CTL_OVERWRITE_OLDEST);
    return wait_for(round, now_ns, final);
}

uint32_t vgc_control_link_drain(const struct vgc_control_area *area, struct vgc_control_link *link, uint64_t head,
                                uint64_t head_at, uint64_t now_ns, bool final, uint8_t *to, uint32_t size)
{
    struct round round = {.area = area, .link = link, .head = head, .head_at = head_at, .to = to, .size = size};
    resynchronise(&round);
    for (uint64_t steps = 0; steps <= link->mask && link->tail != round.head; steps++) {
        enum step done = step(&round, now_ns, final);
        if (done == STEP_EMPTY || done == STEP_FULL)
            break;
    }
    return round.used;
}
