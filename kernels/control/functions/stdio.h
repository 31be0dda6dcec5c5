/* Function module of standard input and output. */
#ifndef VGC_CONTROL_FUNCTIONS_STDIO_H
#define VGC_CONTROL_FUNCTIONS_STDIO_H

#include "../execution.h"

VGC_CTL_FN bool vgc_ctl_stdio_emit(const struct vgc_ctl_unit *unit, uint32_t type, const uint8_t *payload,
                                   uint32_t length)
{
    struct vgc_ctl_message message = {VGC_CTL_STDIO, VGC_CTL_INFO, type, length, payload, 0, false};
    return vgc_ctl_emit(unit, &message);
}

/* Sends text of any length, in as many records as it needs. */
VGC_CTL_FN void vgc_ctl_stdio_text(const struct vgc_ctl_unit *unit, const uint8_t *text, uint32_t length)
{
    while (length != 0) {
        uint32_t part = length < VGC_CTL_MAX_PAYLOAD ? length : VGC_CTL_MAX_PAYLOAD;
        vgc_ctl_stdio_emit(unit, VGC_CTL_STDIO_TEXT, text, part);
        text += part;
        length -= part;
    }
}

/* Takes bytes from the in link of the channel that is bound now. `took`: bytes taken. True: more may come later. */
VGC_CTL_FN bool vgc_ctl_stdio_look(const struct vgc_ctl_unit *unit, uint8_t *to, uint32_t size, uint32_t *took,
                                   uint64_t *wait_ns)
{
    struct vgc_ctl_execution execution;
    *took = 0;
    if (!vgc_ctl_hold(unit, VGC_CTL_STDIO, &execution))
        return false;
    bool ended = vgc_ctl_acquire64(&execution.channel->in_eof) !=
                 0; /* loaded before the ring: bytes put in before the end are taken */
    bool open = vgc_ctl_load64(&execution.channel->in) != 0 && !ended;
    *took = vgc_ctl_link_take(unit->place, execution.channel, to, size);
    *wait_ns = vgc_ctl_load64(&execution.channel->wait_ns);
    vgc_ctl_release(unit);
    return open;
}

/* Reads up to `size` bytes of this element's standard input, as soon as there are any. 0: the input has ended, no bytes
 * came before the channel's deadline, no channel is bound, or the launch is being stopped. Tells the host that the
 * kernel waits, and which bytes it took. */
VGC_CTL_FN uint32_t vgc_ctl_stdio_read(const struct vgc_ctl_unit *unit, uint8_t *to, uint32_t size)
{
    uint32_t took = 0;
    uint64_t begin = 0, wait_ns = 0, wanted = size;
    if (vgc_ctl_bound(unit, VGC_CTL_STDIO) == 0 || size == 0)
        return 0;
    for (uint32_t round = 0; vgc_ctl_stdio_look(unit, to, size, &took, &wait_ns) && took == 0; round++) {
        uint64_t now = vgc_ctl_now(unit);
        if (round == 0) {
            begin = now;
            vgc_ctl_stdio_emit(unit, VGC_CTL_STDIO_WANTS, (const uint8_t *)&wanted, sizeof(wanted));
        }
        if (now - begin >= wait_ns || vgc_ctl_is_stopped(unit))
            return 0;
        vgc_ctl_relax(unit, round);
    }
    for (uint32_t told = 0; told < took; told += VGC_CTL_MAX_PAYLOAD)
        vgc_ctl_stdio_emit(unit, VGC_CTL_STDIO_TOOK, to + told,
                           took - told < VGC_CTL_MAX_PAYLOAD ? took - told : VGC_CTL_MAX_PAYLOAD);
    return took;
}

#endif
