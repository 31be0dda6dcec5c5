/* A hostile driver against the device side of vring.c.
 *
 * The input is a list of commands that write ring memory or call the device side. Promises: no access outside the
 * region (AddressSanitizer watches: it is an allocation of its own size), every span inside it, every popped head
 * pushed exactly once, whatever the guest's buffers overwrite.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "input.h"
#include "vgc_vring.h"

#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function) /* of vring.c alone */

enum {
    REGION = 1 << 15,
    DESC = 0,
    AVAIL = 0x1000,
    USED = 0x1800,
    TABLES = 0x3000, /* indirect tables */
    DATA = 0x5000,
};
static const uint64_t GPA = 0x40000000, UVA = 0x7f0000000000;

struct state {
    struct vgc_mem mem;
    struct vgc_vq_device vq;
    struct vgc_chain chain;
    uint8_t *region;
    uint16_t num;
    bool event_idx, indirect;
    bool popped[VGC_MAX_QUEUE_SIZE];
};

static void start(struct state *state, uint16_t base)
{
    int error = vgc_vq_device_init(&state->vq, &state->mem, state->num, UVA + DESC, UVA + AVAIL, UVA + USED, base,
                                   state->event_idx, state->indirect);
    PROMISE(error == 0);
}

static void write16(struct state *state, uint32_t offset, uint16_t value)
{
    memcpy(state->region + offset % (REGION - 1), &value, sizeof(value));
}

/* Mostly addresses that lead somewhere, so that the interesting paths are found. */
static uint64_t take_address(struct input *input)
{
    uint8_t kind = take8(input);
    switch (kind % 4) {
    case 0:
        return GPA + DATA + (kind >> 2) * 64;
    case 1:
        return GPA + TABLES + (kind >> 2) * 16;
    case 2:
        return GPA + take16(input);
    default:
        return take64(input);
    }
}

static void write_desc(struct state *state, struct input *input)
{
    uint8_t at = take8(input);
    uint32_t offset = at & 0x80 ? TABLES + (at & 0x7fu) * 16 : DESC + at % state->num * 16u;
    struct vgc_desc desc = {.addr = take_address(input)};
    uint8_t shape = take8(input);
    desc.flags = shape & 7;
    desc.len = shape & 8 ? take32(input) : (shape >> 4) * 16u;
    desc.next = shape & 8 ? take16(input) : take8(input);
    memcpy(state->region + offset, &desc, sizeof(desc));
}

static void publish(struct state *state, struct input *input)
{
    uint16_t idx;
    memcpy(&idx, state->region + AVAIL + 2, sizeof(idx));
    write16(state, AVAIL + 4 + 2u * (idx % state->num), take8(input));
    write16(state, AVAIL + 2, (uint16_t)(idx + 1));
}

/* Does to the guest's buffers what a device may do. */
static void use_spans(struct state *state, struct input *input)
{
    const struct vgc_chain *chain = &state->chain;
    uint64_t readable = 0, writable = 0;
    uint8_t fill = take8(input);
    volatile uint8_t sink = 0;
    for (uint32_t i = 0; i < (uint32_t)chain->num_readable + chain->num_writable; i++) {
        struct vgc_span span = chain->spans[i];
        PROMISE(span.len > 0 && span.base >= state->region && span.base + span.len <= state->region + REGION);
        if (i < chain->num_readable) {
            readable += span.len;
            sink ^= span.base[0] ^ span.base[span.len - 1];
        } else {
            writable += span.len;
            memset(span.base, fill, span.len);
        }
    }
    PROMISE(chain->num_readable + chain->num_writable >= 1);
    PROMISE(readable == chain->readable_len && writable == chain->writable_len);
}

static void check_walk(struct state *state, struct input *input, int result)
{
    PROMISE(result == 1 || result == -EBADMSG);
    PROMISE(state->chain.head < state->num);
    state->popped[state->chain.head] = true;
    if (result == 1)
        use_spans(state, input);
}

static void pop(struct state *state, struct input *input)
{
    uint16_t before = state->vq.last_avail;
    bool were_popped[VGC_MAX_QUEUE_SIZE];
    memcpy(were_popped, state->popped, sizeof(were_popped));
    int result = vgc_vq_pop(&state->vq, &state->mem, &state->chain);
    if (result == 0 || result == -EIO) {
        PROMISE(state->vq.last_avail == before);
        return;
    }
    check_walk(state, input, result);
    PROMISE(!were_popped[state->chain.head]);
    PROMISE(state->vq.last_avail == (uint16_t)(before + 1));
}

static void push(struct state *state, struct input *input)
{
    uint16_t head = take16(input);
    bool expected = head < state->num && state->popped[head];
    int result = vgc_vq_push(&state->vq, head, take32(input));
    PROMISE(result == (expected ? 0 : -EINVAL));
    if (expected)
        state->popped[head] = false;
}

/* A worker dies and the next one takes over: it knows what was in flight. */
static void recover(struct state *state, struct input *input)
{
    start(state, state->vq.last_avail);
    for (uint16_t head = 0; head < state->num; head++)
        if (state->popped[head])
            check_walk(state, input, vgc_vq_rewalk(&state->vq, &state->mem, head, &state->chain));
    PROMISE(vgc_vq_rewalk(&state->vq, &state->mem, state->num, &state->chain) == -EIO);
}

static void command(struct state *state, struct input *input)
{
    switch (take8(input) % 12) {
    case 0:
    case 1:
    case 2:
        write_desc(state, input);
        break;
    case 3:
    case 4:
        publish(state, input);
        break;
    case 5:
    case 6:
        pop(state, input);
        break;
    case 7:
        push(state, input);
        break;
    case 8: {
        uint32_t offset = take16(input);
        write16(state, offset, take16(input));
        break;
    }
    case 9:
        recover(state, input);
        break;
    case 10:
        if (!vgc_vq_enable_kick(&state->vq) && !vgc_vq_has_avail(&state->vq))
            vgc_vq_disable_kick(&state->vq);
        break;
    default:
        vgc_vq_should_call(&state->vq);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct state state;
    static uint8_t *region;
    struct input input = {data, size};
    uint8_t config = take8(&input);
    if (region == NULL)
        region = aligned_alloc(4096, REGION);
    PROMISE(region != NULL);
    memset(region, 0, REGION);
    state = (struct state){.region = region,
                           .num = (uint16_t)(1u << (config & 7)),
                           .event_idx = config & 8,
                           .indirect = config & 16,
                           .mem = {1, {{GPA, UVA, REGION, region}}}};
    start(&state, 0);
    while (input.size > 0)
        command(&state, &input);
    for (uint16_t head = 0; head < state.num; head++)
        PROMISE(vgc_vq_push(&state.vq, head, 0) == (state.popped[head] ? 0 : -EINVAL));
    return 0;
}

#pragma clang attribute pop
