/* Bytes of a descriptor chain as one stream, for any framing [virtio 1.3 §2.7.4]. Callers have checked the bounds. */
#include "internal.h"

/* Finds the span of byte `*offset`, and makes the offset relative to it. */
static const struct vgc_span *seek(const struct vgc_span *spans, uint64_t *offset)
{
    while (*offset >= spans->len) {
        *offset -= spans->len;
        spans++;
    }
    return spans;
}

void vgc_gather(const struct vgc_span *spans, uint64_t offset, void *to, uint64_t len)
{
    uint8_t *out = to;
    if (len == 0)
        return;
    for (const struct vgc_span *span = seek(spans, &offset);; span++) {
        uint64_t part = span->len - offset < len ? span->len - offset : len;
        memcpy(out, span->base + offset, part);
        out += part;
        len -= part;
        offset = 0;
        if (len == 0)
            return;
    }
}

void vgc_scatter(const struct vgc_span *spans, uint64_t offset, const void *from, uint64_t len)
{
    const uint8_t *in = from;
    if (len == 0)
        return;
    for (const struct vgc_span *span = seek(spans, &offset);; span++) {
        uint64_t part = span->len - offset < len ? span->len - offset : len;
        memcpy(span->base + offset, in, part);
        in += part;
        len -= part;
        offset = 0;
        if (len == 0)
            return;
    }
}

uint32_t vgc_slice(const struct vgc_span *spans, uint64_t offset, uint64_t len, struct vgc_span *to)
{
    uint32_t count = 0;
    if (len == 0)
        return 0;
    for (const struct vgc_span *span = seek(spans, &offset);; span++) {
        uint64_t part = span->len - offset < len ? span->len - offset : len;
        to[count++] = (struct vgc_span){span->base + offset, (uint32_t)part};
        len -= part;
        offset = 0;
        if (len == 0)
            return count;
    }
}
