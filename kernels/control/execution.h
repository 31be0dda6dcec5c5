/* Finding the channel that is bound for a function on this processing element, and making a record for it.
 *
 * The host clears the word, waits until `readers` is 0, then frees the channel. So a hook first counts itself in
 * `readers` (seq_cst), then loads the word again: a word that is still there names a channel that stays until the hook
 * leaves. All state of an execution is in its channel, so function modules are re-entrant.
 */
#ifndef VGC_CONTROL_EXECUTION_H
#define VGC_CONTROL_EXECUTION_H

#include "binding.h"
#include "link.h"

enum {
    VGC_CTL_COST_EVERY = 64,     /* the cost of one record of this many is measured */
    VGC_CTL_COST_MAX_NS = 10000, /* a longer time includes an interruption or a wait, and is not counted */
};

/* A function's channel on this element, held until vgc_ctl_release(). */
struct vgc_ctl_execution {
    struct vgc_ctl_channel *channel;
    const uint64_t *bind;
    uint64_t word; /* value of *bind when the channel was held */
};

/* A record to be made. */
struct vgc_ctl_message {
    uint32_t function; /* enum vgc_ctl_function */
    uint32_t level;
    uint32_t type;
    uint32_t length; /* bytes of payload; bytes beyond VGC_CTL_MAX_PAYLOAD are cut off */
    const uint8_t *payload;
    uint64_t time_ns; /* 0: now */
    bool hurry;       /* never waits for room, even if the channel's policy is WAIT */
};

/* ---- bindings ------------------------------------------------------------------------------------------------ */

/* The binding table's word for a function; all that an unbound hook loads. */
VGC_CTL_FN uint64_t vgc_ctl_bound(const struct vgc_ctl_unit *unit, uint32_t function)
{
    return vgc_ctl_load64(&unit->pe->bind[function]);
}

/* The channel that a word names; NULL if the number or generation does not fit any channel. */
VGC_CTL_FN struct vgc_ctl_channel *vgc_ctl_channel_of(const struct vgc_ctl_unit *unit, uint64_t word)
{
    uint32_t number = vgc_ctl_bind_channel(word);
    if (unit->place == 0 || number == 0 || number >= unit->place->num_channels)
        return 0;
    struct vgc_ctl_channel *channel = &unit->place->channels[number];
    return vgc_ctl_load32(&channel->generation) == vgc_ctl_bind_generation(word) ? channel : 0;
}

/* Holds the channel that is bound for the function; false, with nothing held, if no channel is bound. */
VGC_CTL_FN bool vgc_ctl_hold(const struct vgc_ctl_unit *unit, uint32_t function, struct vgc_ctl_execution *execution)
{
    execution->bind = &unit->pe->bind[function];
    if (vgc_ctl_load64(execution->bind) == 0)
        return false;
    vgc_ctl_readers_enter(&unit->pe->readers);
    execution->word = vgc_ctl_acquire64(execution->bind); /* pairs with the host's release store of the word */
    execution->channel = vgc_ctl_channel_of(unit, execution->word);
    if (execution->channel != 0)
        return true;
    vgc_ctl_readers_leave(&unit->pe->readers);
    return false;
}

VGC_CTL_FN void vgc_ctl_release(const struct vgc_ctl_unit *unit)
{
    vgc_ctl_readers_leave(&unit->pe->readers);
}

/* ---- records ------------------------------------------------------------------------------------------------- */

VGC_CTL_FN void vgc_ctl_note_cost(struct vgc_ctl_channel *channel, uint64_t cost_ns)
{
    if (cost_ns > VGC_CTL_COST_MAX_NS)
        return;
    vgc_ctl_add64(&channel->cost_ns, cost_ns);
    vgc_ctl_add64(&channel->cost_records, 1);
}

/* Makes a record for a held channel: numbers it and puts it into the link, or counts it as lost. */
VGC_CTL_FN bool vgc_ctl_record(const struct vgc_ctl_unit *unit, const struct vgc_ctl_execution *execution,
                               const struct vgc_ctl_message *message)
{
    struct vgc_ctl_channel *channel = execution->channel;
    struct vgc_ctl_link link;
    struct vgc_ctl_record head;
    uint64_t number = vgc_ctl_add64(&channel->records, 1), position = 0;
    uint64_t now = message->time_ns != 0 ? message->time_ns : vgc_ctl_now(unit);
    bool measured = number % VGC_CTL_COST_EVERY == 0;
    uint64_t begin = measured ? vgc_ctl_now(unit) : 0;
    head.time_ns = now;
    head.function_level = (uint8_t)(message->function << 4 | (message->level & 15));
    head.type = (uint8_t)message->type;
    head.length = (uint16_t)(message->length < VGC_CTL_MAX_PAYLOAD ? message->length : VGC_CTL_MAX_PAYLOAD);
    head.pe = (uint16_t)unit->number;
    head.warp = (uint16_t)unit->warp;
    head.block = (uint32_t)unit->block;
    head.sequence = (uint32_t)number;
    if (!vgc_ctl_link_open(unit->place, channel, &link) ||
        !vgc_ctl_link_claim(unit, &link, vgc_ctl_slots_for(head.length), execution->bind, execution->word,
                            message->hurry, &position)) {
        vgc_ctl_add64(&channel->lost, 1);
        return false;
    }
    vgc_ctl_link_put(&link, position, &head, message->payload);
    vgc_ctl_store64(&unit->pe->last_record_ns, now);
    if (measured)
        vgc_ctl_note_cost(channel, vgc_ctl_now(unit) - begin);
    return true;
}

/* True if sampling keeps the record or block with this `number`; counts it as skipped otherwise. */
VGC_CTL_FN bool vgc_ctl_is_sampled(const struct vgc_ctl_execution *execution, uint64_t number)
{
    uint32_t shift = vgc_ctl_bind_sample(execution->word);
    if (shift == 0 || (number & ((1ull << (shift & 63)) - 1)) == 0)
        return true;
    vgc_ctl_add64(&execution->channel->skipped, 1);
    return false;
}

/* True if the channel's level leaves the record out (a larger number is less severe). Standard input and output have no
 * levels. */
VGC_CTL_FN bool vgc_ctl_is_filtered(const struct vgc_ctl_message *message, uint64_t word)
{
    bool has_levels =
        message->function == VGC_CTL_LOG || message->function == VGC_CTL_PERF || message->function == VGC_CTL_FAULT;
    return has_levels && message->level > vgc_ctl_bind_level(word);
}

/* Makes a record if its function is bound: holds the channel, filters by level, samples, records, releases. True if the
 * record is in the link. */
VGC_CTL_FN bool vgc_ctl_emit(const struct vgc_ctl_unit *unit, const struct vgc_ctl_message *message)
{
    struct vgc_ctl_execution execution;
    bool made = false;
    if (!vgc_ctl_hold(unit, message->function, &execution))
        return false;
    if (!vgc_ctl_is_filtered(message, execution.word)) {
        bool sampled = vgc_ctl_bind_sample(execution.word) == 0 ||
                       vgc_ctl_is_sampled(&execution, vgc_ctl_add64(&execution.channel->execution, 1));
        made = sampled && vgc_ctl_record(unit, &execution, message);
    }
    vgc_ctl_release(unit);
    return made;
}

#endif
