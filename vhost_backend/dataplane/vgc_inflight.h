/* The in-flight memory, which survives a worker.
 *
 * A sealed memfd per VM, created by the daemon, mapped shared by all workers of the VM in turn. It tells which
 * descriptor chains a worker has popped and not yet returned, so that the next worker can answer each exactly once, and
 * holds the black box: status and text of the request that a worker died over.
 *
 * A worker may contain guest code, so readers (the daemon, the next worker) treat every field as hostile: they check
 * ranges and trust nothing. All stores are in the order that recovery relies on:
 *
 *   pop:   heads |= head;  last_avail += 1
 *   push:  last_push = head;  (used ring);  heads &= ~head;  used_idx += 1
 *
 * Recovery [vhost-user: Inflight I/O tracking]: if the ring's used.idx is not used_idx, last_push was returned but
 * not yet removed from `heads`; if the avail entry at last_avail names a head in `heads`, it was popped but not
 * counted.
 *
 * Mirrored by vhost_backend/daemon/inflight.py; a test compares the two.
 */
#ifndef VGC_INFLIGHT_H
#define VGC_INFLIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "vgc_wire.h"

enum {
    VGC_INFLIGHT_MAGIC = 0x46504756, /* "VGPF" */
    VGC_INFLIGHT_VERSION = 1,
    VGC_BLACK_BOX_TEXT = 1024,
};

struct vgc_inflight_queue {
    uint32_t started;    /* 1 from the ring's first start until the daemon zeroes the memory for a fresh device */
    uint16_t last_avail; /* next avail entry to pop */
    uint16_t used_idx;   /* used index after the last completed push */
    uint16_t last_push;  /* head of the push that was begun last */
    uint16_t reserved[11];
    uint64_t heads[VGC_MAX_QUEUE_SIZE / 64]; /* bit h: the chain at head h is in flight */
};

/* Black box: a worker that dies over a request writes its status and text here before it exits; the next worker answers
 * that request with them and clears `valid`. */
enum { VGC_BLACK_BOX_REQUEST = 1, VGC_BLACK_BOX_NO_REQUEST = 2 }; /* only text, for the daemon's log */

struct vgc_black_box {
    uint32_t valid; /* 0, or one of the above; written last */
    uint32_t queue;
    uint32_t head;
    uint32_t status; /* enum vgc_status */
    uint32_t detail;
    uint32_t text_len;
    uint8_t text[VGC_BLACK_BOX_TEXT]; /* UTF-8, not terminated */
};

struct vgc_inflight {
    uint32_t magic; /* magic and version are written by the daemon */
    uint32_t version;
    uint64_t progress; /* requests finished by all workers so far: a heartbeat under load */
    uint64_t pieces;   /* pieces of long copies and fills done so far: they move on while no request ends */
    uint64_t reserved[5];
    struct vgc_inflight_queue queues[VGC_MAX_QUEUES];
    struct vgc_black_box black_box;
    uint64_t tail_reserved;
};

#ifdef __cplusplus
#define _Static_assert static_assert
#endif
_Static_assert(sizeof(struct vgc_inflight_queue) == 64, "one cache line per queue");
_Static_assert(offsetof(struct vgc_inflight, queues) == 64, "vgc_inflight.queues");
_Static_assert(offsetof(struct vgc_inflight, black_box) == 64 + 64 * VGC_MAX_QUEUES, "vgc_inflight.black_box");
_Static_assert(sizeof(struct vgc_black_box) == 24 + VGC_BLACK_BOX_TEXT, "vgc_black_box");
_Static_assert(sizeof(struct vgc_inflight) == 64 + 64 * VGC_MAX_QUEUES + 1048 + 8, "vgc_inflight");

#endif
