/* Hot loops of the benchmarks: the driver side of a virtqueue, and the bare primitives beside it.
 *
 * Functions return 0 (or what they say) on success and a negative errno on failure; -ETIMEDOUT when the other
 * side did not answer within VGCB_PATIENCE_NS, -EIO when it answered what was not asked.
 */
#ifndef VGCB_H
#define VGCB_H

#include <stdint.h>

#include "vgc_vring.h"

#define VGCB_PATIENCE_NS 5000000000ull

enum { VGCB_MAX_SG = 8 };

/* A prepared chain: the same one is published again and again. */
struct vgcb_request {
    struct vgc_sg sg[VGCB_MAX_SG];
    uint16_t n_readable;
    uint16_t n_writable;
};

struct vgcb_queue {
    struct vgc_vq_driver vq;
    int kick_fd;
    int call_fd;
    uint64_t kicks; /* times the device had to be kicked */
    uint64_t calls; /* times the driver slept on call_fd */
};

/* Bytes of ring memory that vgcb_queue_open wants, and the offsets of its three parts (desc is first). */
uint64_t vgcb_ring_bytes(uint16_t num);
uint64_t vgcb_avail_offset(uint16_t num);
uint64_t vgcb_used_offset(uint16_t num);

/* Lays an empty ring out at `base` (zeroed here). */
int vgcb_queue_open(struct vgcb_queue *queue, uint8_t *base, uint16_t num, bool event_idx, int kick_fd, int call_fd);

/* `count` round trips, one at a time, the driver spinning; ns_out[i] is the time of each. */
int vgcb_polled(struct vgcb_queue *queue, const struct vgcb_request *request, uint32_t count, uint64_t *ns_out);

/* The same with both sides asleep: before each, the driver rests idle_ns, then it sleeps until called. */
int vgcb_sleeping(struct vgcb_queue *queue, const struct vgcb_request *request, uint32_t count, uint64_t idle_ns,
                  uint64_t *ns_out);

/* `count` requests with up to `depth` of them in flight (requests[0..depth)); *ns_out is the time of all. */
int vgcb_pipelined(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth, uint64_t count,
                   uint64_t *ns_out);

/* Every request once, in their order, all in flight at once; *ns_out is the time until the last is done, spinning. */
int vgcb_batch(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t count, uint64_t *ns_out);

/* Keeps `depth` requests in flight until the clock shows until_ns, then waits for the last. *done: how many ended
 * between from_ns and until_ns. Rests a little whenever none has, so that many drivers leave the CPUs to devices. */
int vgcb_throughput(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth, uint64_t from_ns,
                    uint64_t until_ns, uint64_t *done);

/* CLOCK_MONOTONIC, as the loops read it. */
uint64_t vgcb_clock(void);

/* One round trip: spins for spin_ns, then sleeps until called. */
int vgcb_round_trip(struct vgcb_queue *queue, const struct vgcb_request *request, uint64_t spin_ns,
                    uint64_t patience_ns, uint64_t *ns_out);

/* Two processes and two eventfds, nothing else: `count` round trips with a rest of idle_ns before each.
 * The partner runs on partner_cpu. */
int vgcb_eventfd_ping_pong(int partner_cpu, uint32_t count, uint64_t idle_ns, uint64_t *ns_out);

/* Two processes and one shared cache line each way, both spinning: what the hardware allows at best. */
int vgcb_cache_line_ping_pong(int partner_cpu, uint32_t count, uint64_t *ns_out);

/* `count` memcpys of `size` bytes, the time of each. */
void vgcb_memcpy(uint8_t *dst, const uint8_t *src, uint64_t size, uint64_t slice, uint32_t count, uint64_t *ns_out);

#endif
