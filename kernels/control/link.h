/* Links: rings of slots from a processing element to the host (several producers, one consumer)
 * and rings of bytes from the host to the element (one producer, several consumers).
 *
 * A slot at position p is there when its `commit` says so: p + 1 in a record's first slot, p + 1 | VGC_CTL_MORE in
 * its further slots, so that a consumer that was overtaken (OVERWRITE_OLDEST) finds the next first slot.
 * First slots are committed last. Rings are trusted no more than the rest of the area: positions are masked and the
 * ring itself is checked to lie in the area, so a wild `head` or `tail` loses records and does nothing else.
 */
#ifndef VGC_CONTROL_LINK_H
#define VGC_CONTROL_LINK_H

#include "unit.h"

#define VGC_CTL_MORE 0x8000000000000000ull

VGC_CTL_FN uint32_t vgc_ctl_slots_for(uint32_t length)
{
    return length <= VGC_CTL_FIRST_PAYLOAD
               ? 1
               : 1 + (length - VGC_CTL_FIRST_PAYLOAD + VGC_CTL_NEXT_PAYLOAD - 1) / VGC_CTL_NEXT_PAYLOAD;
}

/* A checked link: no field of the channel is read twice. */
struct vgc_ctl_link {
    struct vgc_ctl_channel *channel;
    uint8_t *slots; /* NULL: no link */
    uint64_t mask;  /* of positions */
    uint32_t policy;
};

/* Checks the channel's out link; false if it has none, or one that does not lie in the area. */
VGC_CTL_FN bool vgc_ctl_link_open(const struct vgc_ctl_place *place, struct vgc_ctl_channel *channel,
                                  struct vgc_ctl_link *link)
{
    uint64_t slots = vgc_ctl_load32(&channel->slots);
    link->channel = channel;
    link->policy = vgc_ctl_load32(&channel->policy);
    link->mask = slots - 1;
    link->slots = 0;
    if (slots != 0 && (slots & link->mask) == 0)
        link->slots = vgc_ctl_inside(place, vgc_ctl_load64(&channel->out), slots * VGC_CTL_SLOT_BYTES);
    return link->slots != 0;
}

VGC_CTL_FN struct vgc_ctl_record *vgc_ctl_link_first(const struct vgc_ctl_link *link, uint64_t position)
{
    return (struct vgc_ctl_record *)(link->slots + (position & link->mask) * VGC_CTL_SLOT_BYTES);
}

VGC_CTL_FN struct vgc_ctl_more *vgc_ctl_link_more(const struct vgc_ctl_link *link, uint64_t position)
{
    return (struct vgc_ctl_more *)(link->slots + (position & link->mask) * VGC_CTL_SLOT_BYTES);
}

/* Claims `needed` slots if that many are free. */
VGC_CTL_FN bool vgc_ctl_link_try(const struct vgc_ctl_link *link, uint32_t needed, uint64_t *position)
{
    struct vgc_ctl_channel *channel = link->channel;
    for (;;) {
        uint64_t head = vgc_ctl_load64(&channel->head);
        uint64_t taken = vgc_ctl_acquire64(&channel->tail);
        if (head - taken > link->mask + 1 - needed)
            return false;
        if (vgc_ctl_cas64(&channel->head, head, head + needed)) {
            *position = head;
            return true;
        }
    }
}

/* Claims the next `needed` slots, even if they hold unread records. A reader sees by `commit` that they changed. */
VGC_CTL_FN uint64_t vgc_ctl_link_overwrite(const struct vgc_ctl_link *link, uint32_t needed)
{
    uint64_t position = vgc_ctl_add64(&link->channel->head, needed);
    for (uint32_t i = 0; i < needed; i++)
        vgc_ctl_store64(&vgc_ctl_link_more(link, position + i)->commit, 0);
    vgc_ctl_fence();
    return position;
}

/* Claims slots by the channel's policy; false: the record is lost. `word`: the binding; a change of it ends a wait.
 * `hurry`: never waits for room. */
VGC_CTL_FN bool vgc_ctl_link_claim(const struct vgc_ctl_unit *unit, const struct vgc_ctl_link *link, uint32_t needed,
                                   const uint64_t *bind, uint64_t word, bool hurry, uint64_t *position)
{
    if (needed > link->mask + 1)
        return false;
    if (link->policy == VGC_CTL_OVERWRITE_OLDEST) {
        *position = vgc_ctl_link_overwrite(link, needed);
        return true;
    }
    if (vgc_ctl_link_try(link, needed, position))
        return true;
    if (link->policy != VGC_CTL_WAIT || hurry)
        return false;
    uint64_t begin = vgc_ctl_now(unit), wait = vgc_ctl_load64(&link->channel->wait_ns);
    for (uint32_t round = 0; vgc_ctl_now(unit) - begin < wait; round++) {
        if (vgc_ctl_load64(bind) != word || vgc_ctl_is_stopped(unit))
            return false;
        vgc_ctl_relax(unit, round);
        if (vgc_ctl_link_try(link, needed, position))
            return true;
    }
    return false;
}

/* Writes a record into the slots claimed at `position` and commits it. `head`: the fields of the first slot other than
 * commit and payload. */
VGC_CTL_FN void vgc_ctl_link_put(const struct vgc_ctl_link *link, uint64_t position, const struct vgc_ctl_record *head,
                                 const uint8_t *payload)
{
    struct vgc_ctl_record *first = vgc_ctl_link_first(link, position);
    uint32_t done = head->length < VGC_CTL_FIRST_PAYLOAD ? head->length : VGC_CTL_FIRST_PAYLOAD;
    vgc_ctl_copy(&first->time_ns, &head->time_ns, sizeof(*head) - sizeof(head->commit) - sizeof(head->payload));
    vgc_ctl_copy(first->payload, payload, done);
    for (uint64_t at = position + 1; done < head->length; at++) {
        struct vgc_ctl_more *more = vgc_ctl_link_more(link, at);
        uint32_t left = head->length - done;
        uint32_t part = left < VGC_CTL_NEXT_PAYLOAD ? left : VGC_CTL_NEXT_PAYLOAD;
        vgc_ctl_copy(more->payload, payload + done, part);
        vgc_ctl_release64(&more->commit, (at + 1) | VGC_CTL_MORE);
        done += part;
    }
    vgc_ctl_release64(&first->commit, position + 1);
}

/* Takes up to `size` bytes that the host has put into the channel's in link; 0 if it is empty now. */
VGC_CTL_FN uint32_t vgc_ctl_link_take(const struct vgc_ctl_place *place, struct vgc_ctl_channel *channel, uint8_t *to,
                                      uint32_t size)
{
    uint64_t bytes = vgc_ctl_load32(&channel->in_bytes);
    const uint8_t *ring = vgc_ctl_inside(place, vgc_ctl_load64(&channel->in), bytes);
    if (ring == 0 || bytes == 0 || (bytes & (bytes - 1)) != 0)
        return 0;
    for (;;) {
        uint64_t tail = vgc_ctl_load64(&channel->in_tail);
        uint64_t there = vgc_ctl_acquire64(&channel->in_head) - tail;
        if (there == 0 || there > bytes) /* empty, or overwritten by guest code */
            return 0;
        uint32_t taken = there < size ? (uint32_t)there : size;
        for (uint32_t i = 0; i < taken; i++)
            to[i] = ring[(tail + i) & (bytes - 1)];
        if (vgc_ctl_cas64(&channel->in_tail, tail, tail + taken))
            return taken;
    }
}

#endif
