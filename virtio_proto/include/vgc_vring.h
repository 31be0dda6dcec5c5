/* Split virtqueues [virtio 1.3 §2.7], driver side and device side, with INDIRECT_DESC and EVENT_IDX.
 *
 * The same code serves the host's data plane (device side), libvgc in the guest (driver side) and the
 * tests' fake driver. Nothing here allocates, blocks, logs or asserts on ring contents: the other side
 * may write anything at any time. Every 16/32/64-bit word that the other side can write is read once.
 *
 * Functions return 0 or a positive count on success and a negative errno on failure.
 */
#ifndef VGC_VRING_H
#define VGC_VRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgc_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VGC_DESC_F_NEXT = 1, VGC_DESC_F_WRITE = 2, VGC_DESC_F_INDIRECT = 4 };

struct vgc_desc { /* [virtio 1.3 §2.7.5] */
    uint64_t addr;
    uint32_t len;
    uint16_t flags;
    uint16_t next;
};

struct vgc_used_elem { /* [virtio 1.3 §2.7.8] */
    uint32_t id;
    uint32_t len;
};

/* Bytes of each part of a ring with `num` entries, EVENT_IDX words included, and their alignment. */
#define VGC_DESC_BYTES(num) ((size_t)16 * (num))
#define VGC_AVAIL_BYTES(num) ((size_t)6 + (size_t)2 * (num))
#define VGC_USED_BYTES(num) ((size_t)6 + (size_t)8 * (num))
enum { VGC_DESC_ALIGN = 16, VGC_AVAIL_ALIGN = 2, VGC_USED_ALIGN = 4 };

/* Addresses of a ring in this process. All three parts are shared with the other side. */
struct vgc_ring {
    struct vgc_desc *desc;
    uint16_t *avail; /* flags, idx, ring[num], used_event */
    uint16_t *used;  /* flags, idx, vgc_used_elem ring[num], avail_event */
    uint16_t num;    /* power of two, 1..VGC_MAX_QUEUE_SIZE */
};

/* ---- memory that the device may touch ------------------------------------------------------- */

struct vgc_mem_region {
    uint64_t gpa;  /* guest-physical address of the first byte */
    uint64_t uva;  /* frontend's virtual address of the first byte: vhost-user ring addresses use it */
    uint64_t size; /* bytes */
    uint8_t *host; /* address of its mapping in this process */
};

enum { VGC_MEM_MAX_REGIONS = 32 };

struct vgc_mem {
    uint32_t count;
    struct vgc_mem_region regions[VGC_MEM_MAX_REGIONS];
};

/* Host address of [gpa, gpa + len) if it lies wholly inside one region, else NULL. len 0 gives NULL.
 * Buffers may lie anywhere in the regions, over the rings too: all of it is the guest's memory, and the
 * device keeps no state there. */
uint8_t *vgc_mem_at_gpa(const struct vgc_mem *mem, uint64_t gpa, uint64_t len);
uint8_t *vgc_mem_at_uva(const struct vgc_mem *mem, uint64_t uva, uint64_t len);

/* ---- device side ---------------------------------------------------------------------------- */

struct vgc_span {
    uint8_t *base;
    uint32_t len;
};

/* A popped descriptor chain, translated. Readable spans come first, then the writable ones. */
struct vgc_chain {
    uint16_t head;
    uint16_t num_readable;
    uint16_t num_writable;
    uint64_t readable_len;
    uint64_t writable_len;
    struct vgc_span spans[VGC_MAX_CHAIN];
};

enum { VGC_INFLIGHT_WORDS = VGC_MAX_QUEUE_SIZE / 64 };

struct vgc_vq_device {
    struct vgc_ring ring;
    bool event_idx;
    bool indirect;
    uint16_t last_avail;     /* next avail entry to pop */
    uint16_t avail_seen;     /* avail.idx as last read and checked: entries before it may be popped */
    uint16_t used_idx;       /* next used entry to write: ours, never read back from the ring */
    uint16_t signalled_used; /* used_idx at the last call decision */
    bool signalled_valid;
    uint64_t inflight[VGC_INFLIGHT_WORDS]; /* heads popped and not yet pushed */
};

/* Checks sizes, alignment, placement (inside mem, parts not overlapping one another) and translates the
 * frontend's addresses. `base` is the avail index to start from; used_idx starts at the ring's own used.idx.
 * -EINVAL num; -EFAULT a part outside the memory; -EBADMSG unaligned or overlapping parts. */
int vgc_vq_device_init(struct vgc_vq_device *vq, const struct vgc_mem *mem, uint16_t num, uint64_t desc_uva,
                       uint64_t avail_uva, uint64_t used_uva, uint16_t base, bool event_idx, bool indirect);

/* Pops the next chain.
 *  1         chain filled in; the head is in flight until vgc_vq_push
 *  0         no chain is available
 *  -EBADMSG  the chain is malformed (loop, too long, bad address, order, indirect rules, ...): chain->head is
 *            in flight and must be pushed with len 0
 *  -EIO      the queue itself can no longer be trusted (avail.idx jumped, head out of range or already in
 *            flight): stop serving it */
int vgc_vq_pop(struct vgc_vq_device *vq, const struct vgc_mem *mem, struct vgc_chain *chain);

/* Re-walks the chain at `head` that an earlier instance popped (recovery), and marks it in flight. Results as
 * for vgc_vq_pop; -EIO, and nothing done, if head is out of range. */
int vgc_vq_rewalk(struct vgc_vq_device *vq, const struct vgc_mem *mem, uint16_t head, struct vgc_chain *chain);

/* True if a chain may be available; at most one relaxed load. */
bool vgc_vq_has_avail(const struct vgc_vq_device *vq);

/* Pushes `head` as used, with `len` bytes written. -EINVAL, and nothing done, if head is not in flight. */
int vgc_vq_push(struct vgc_vq_device *vq, uint16_t head, uint32_t len);

/* True if the driver must be called for the chains pushed since the last call of this. [virtio 1.3 §2.7.7] */
bool vgc_vq_should_call(struct vgc_vq_device *vq);

/* Enables or disables kicks. enable returns true if a chain became available meanwhile. */
bool vgc_vq_enable_kick(struct vgc_vq_device *vq);
void vgc_vq_disable_kick(struct vgc_vq_device *vq);

/* ---- driver side ---------------------------------------------------------------------------- */

struct vgc_sg {
    uint64_t gpa;
    uint32_t len;
};

struct vgc_vq_driver {
    struct vgc_ring ring;
    bool event_idx;
    uint16_t free_head;
    uint16_t num_free;
    uint16_t avail_idx;                     /* shadow of avail.idx */
    uint16_t last_used;                     /* next used entry to take */
    uint16_t kicked_idx;                    /* avail_idx at the last kick decision */
    uint16_t chain_len[VGC_MAX_QUEUE_SIZE]; /* descriptors used by the chain at head; 0: no chain */
    uint16_t next[VGC_MAX_QUEUE_SIZE];      /* free list, private: the ring's own `next` is only written */
    void *token[VGC_MAX_QUEUE_SIZE];
};

/* Takes over zeroed ring memory. -EINVAL for a bad num. */
int vgc_vq_driver_init(struct vgc_vq_driver *vq, struct vgc_ring ring, bool event_idx);

/* Takes over a ring that another process has used; -EBUSY unless it is idle (avail.idx == used.idx). */
int vgc_vq_driver_attach(struct vgc_vq_driver *vq, struct vgc_ring ring, bool event_idx);

/* Publishes a chain: n_readable then n_writable entries of sg. With table != NULL it uses one indirect descriptor,
 * and table (at table_gpa, with room for all entries) must stay untouched until the chain returns.
 * Returns the head; -ENOSPC if the ring is full, -EINVAL for an empty or over-long chain. */
int vgc_vq_add(struct vgc_vq_driver *vq, const struct vgc_sg *sg, uint16_t n_readable, uint16_t n_writable,
               struct vgc_desc *table, uint64_t table_gpa, void *token);

/* True if the device must be kicked for the chains added since the last call of this. */
bool vgc_vq_should_kick(struct vgc_vq_driver *vq);

/* Takes a used chain: 1 and *token, *len; 0 if none is used; -EIO if the device returned a head that is not in flight.
 * *len comes from the device: bound it by the offered length before use. */
int vgc_vq_take(struct vgc_vq_driver *vq, void **token, uint32_t *len);

/* Enables or disables calls (interrupts). enable returns true if a used entry appeared meanwhile. */
bool vgc_vq_enable_call(struct vgc_vq_driver *vq);
void vgc_vq_disable_call(struct vgc_vq_driver *vq);

#ifdef __cplusplus
}
#endif
#endif
