/* Records whose contents come in pieces and are written straight into their slots, since stack is expensive: a GPU
 * reserves it in memory for every thread that can be resident.
 *
 * The contents are a function object that is called twice with a writer: first to count bytes, then to write them. */
#ifndef VGC_CUDA_WRITER_H
#define VGC_CUDA_WRITER_H

#include "execution.h"
#include "vgc_place.h"

#define VGC_CUDA_LOST (~0ull) /* no position */

/* Address of a record's payload byte at `offset`. Not inlined, like the functions below, to keep the code small. */
static __device__ __noinline__ uint8_t *vgc_cuda_at(const struct vgc_ctl_link link, uint64_t position, uint32_t offset)
{
    if (offset < VGC_CTL_FIRST_PAYLOAD)
        return vgc_ctl_link_first(&link, position)->payload + offset;
    offset -= VGC_CTL_FIRST_PAYLOAD;
    struct vgc_ctl_more *more = vgc_ctl_link_more(&link, position + 1 + offset / VGC_CTL_NEXT_PAYLOAD);
    return more->payload + offset % VGC_CTL_NEXT_PAYLOAD;
}

/* Writes a text from offset `length` on, cut off at a record's end; only counts if link.slots is NULL. Returns the new
 * length. */
static __device__ __noinline__ uint32_t vgc_cuda_text(const struct vgc_ctl_link link, uint64_t position,
                                                      uint32_t length, const char *from)
{
#pragma unroll 1
    for (; *from != 0 && length < VGC_CTL_MAX_PAYLOAD; from++, length++)
        if (link.slots != 0)
            *vgc_cuda_at(link, position, length) = (uint8_t)*from;
    return length;
}

struct vgc_cuda_writer {
    struct vgc_ctl_link link; /* slots NULL: only counts */
    uint64_t position;        /* of the record's first slot */
    uint32_t length;          /* bytes so far */

    /* Words must come before texts: they are then aligned in every slot. */
    __device__ void word(uint64_t value)
    {
        if (length + sizeof(value) > VGC_CTL_MAX_PAYLOAD)
            return;
        if (link.slots != 0)
            *(uint64_t *)vgc_cuda_at(link, position, length) = value;
        length += (uint32_t)sizeof(value);
    }

    __device__ void text(const char *from)
    {
        length = vgc_cuda_text(link, position, length, from);
    }

    __device__ void number(uint32_t value)
    {
        char digits[11];
        char *at = digits + 10;
        *at = 0;
#pragma unroll 1
        do
            *--at = (char)('0' + value % 10);
        while ((value /= 10) != 0);
        text(at);
    }
};

/* Commits a record whose payload is written: its further slots first, its first slot last. */
VGC_CTL_FN void vgc_cuda_commit(const struct vgc_ctl_unit *unit, const struct vgc_cuda_writer *writer,
                                const struct vgc_ctl_message *message, uint64_t number)
{
    struct vgc_ctl_record *first = vgc_ctl_link_first(&writer->link, writer->position);
    uint32_t slots = vgc_ctl_slots_for(writer->length);
    first->time_ns = vgc_ctl_now(unit);
    first->function_level = (uint8_t)(message->function << 4 | (message->level & 15));
    first->type = (uint8_t)message->type;
    first->length = (uint16_t)writer->length;
    first->pe = (uint16_t)unit->number;
    first->warp = (uint16_t)unit->warp;
    first->block = (uint32_t)unit->block;
    first->sequence = (uint32_t)number;
#pragma unroll 1
    for (uint32_t i = 1; i < slots; i++) {
        uint64_t at = writer->position + i;
        vgc_ctl_release64(&vgc_ctl_link_more(&writer->link, at)->commit, (at + 1) | VGC_CTL_MORE);
    }
    vgc_ctl_release64(&first->commit, writer->position + 1);
    vgc_ctl_store64(&unit->pe->last_record_ns, vgc_ctl_now(unit));
}

/* Claims slots for a record of a held channel; returns the position, or VGC_CUDA_LOST, then counted as lost. Not
 * inlined: every kernel would have a copy for each record that it may make. */
static __device__ __noinline__ uint64_t vgc_cuda_claim(struct vgc_ctl_channel *channel, const uint64_t *bind,
                                                       uint64_t word, uint32_t slots, bool hurry)
{
    struct vgc_cuda_unit here(0);
    struct vgc_ctl_link link;
    uint64_t position = 0;
    if (vgc_ctl_link_open(here.unit.place, channel, &link) &&
        vgc_ctl_link_claim(&here.unit, &link, slots, bind, word, hurry, &position))
        return position;
    vgc_ctl_add64(&channel->lost, 1);
    return VGC_CUDA_LOST;
}

template <class Contents>
VGC_CTL_FN bool vgc_cuda_record(const struct vgc_ctl_unit *unit, const struct vgc_ctl_execution *execution,
                                const struct vgc_ctl_message *message, const Contents &contents)
{
    struct vgc_ctl_channel *channel = execution->channel;
    uint64_t number = vgc_ctl_add64(&channel->records, 1);
    struct vgc_cuda_writer counting = {};
    struct vgc_cuda_writer writing = {};
    contents(counting);
    writing.position =
        vgc_cuda_claim(channel, execution->bind, execution->word, vgc_ctl_slots_for(counting.length), message->hurry);
    if (writing.position == VGC_CUDA_LOST || !vgc_ctl_link_open(unit->place, channel, &writing.link))
        return false;
    contents(writing);
    vgc_cuda_commit(unit, &writing, message, number);
    return true;
}

/* Makes a record like vgc_ctl_emit; `contents` take the place of the message's payload. */
template <class Contents>
VGC_CTL_FN bool vgc_cuda_emit(const struct vgc_ctl_unit *unit, const struct vgc_ctl_message *message,
                              const Contents &contents)
{
    struct vgc_ctl_execution execution;
    bool made = false;
    if (!vgc_ctl_hold(unit, message->function, &execution))
        return false;
    if (message->level <= vgc_ctl_bind_level(execution.word)) {
        bool sampled = vgc_ctl_bind_sample(execution.word) == 0 ||
                       vgc_ctl_is_sampled(&execution, vgc_ctl_add64(&execution.channel->execution, 1));
        made = sampled && vgc_cuda_record(unit, &execution, message, contents);
    }
    vgc_ctl_release(unit);
    return made;
}

#endif
