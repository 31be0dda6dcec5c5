/* Hot loops of the benchmarks: the driver side of a virtqueue, and bare primitives.
 *
 * Functions return 0 (unless they say otherwise) on success and a negative errno on failure; -ETIMEDOUT if the other
 * side did not answer within VGCB_PATIENCE_NS, -EIO if it answered a request that was not sent.
 */
#ifndef VGCB_H
#define VGCB_H

#include <stdint.h>

#include "vgc_vring.h"

#define VGCB_PATIENCE_NS 60000000000ull

enum { VGCB_MAX_SG = 8 };

/* Prepared chain, which is published repeatedly. */
struct vgcb_request {
    struct vgc_sg sg[VGCB_MAX_SG];
    uint16_t n_readable;
    uint16_t n_writable;
};

struct vgcb_queue {
    struct vgc_vq_driver vq;
    int kick_fd;
    int call_fd;
    uint64_t kicks; /* number of kicks that the device needed */
    uint64_t calls; /* number of times that the driver slept on call_fd */
};

/* Bytes of ring memory that vgcb_queue_open needs, and the offsets of its parts (desc is first). */
uint64_t vgcb_ring_bytes(uint16_t num);
uint64_t vgcb_avail_offset(uint16_t num);
uint64_t vgcb_used_offset(uint16_t num);

/* Lays out an empty ring at `base`, which it zeroes. */
int vgcb_queue_open(struct vgcb_queue *queue, uint8_t *base, uint16_t num, bool event_idx, int kick_fd, int call_fd);

/* Measures `count` round trips, one at a time, while the driver spins; ns_out[i] is the time of each. */
int vgcb_polled(struct vgcb_queue *queue, const struct vgcb_request *request, uint32_t count, uint64_t *ns_out);

/* Measures round trips with both sides asleep: before each, the driver rests idle_ns, then it sleeps until called. */
int vgcb_sleeping(struct vgcb_queue *queue, const struct vgcb_request *request, uint32_t count, uint64_t idle_ns,
                  uint64_t *ns_out);

/* Measures `count` requests with up to `depth` of them in flight (requests[0..depth)); *ns_out is the time of all. */
int vgcb_pipelined(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth, uint64_t count,
                   uint64_t *ns_out);

/* Measures all requests, in order and in flight at once, while the driver spins; *ns_out is the time of all. */
int vgcb_batch(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t count, uint64_t *ns_out);

/* Sends all requests in order, as fast as the ring has room, and sleeps until the last is done. */
int vgcb_stream(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t count, uint64_t *ns_out);

/* Keeps `depth` requests in flight until until_ns, then waits for the last. *done: number that ended between from_ns
 * and until_ns. Rests a little whenever none has ended, so that many drivers leave the CPUs to devices. */
int vgcb_throughput(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth, uint64_t from_ns,
                    uint64_t until_ns, uint64_t *done);

/* Requests that are kept in flight until they are stopped, and the time at which each has ended. */
struct vgcb_sustained {
    int32_t stop; /* atomic; see vgcb_stop */
    uint64_t *ns;
    uint64_t capacity; /* of ns: it ends when there is no more room, too */
    uint64_t done;
};

/* Keeps `depth` requests in flight, then waits for the last; sleeps whenever none has ended. */
int vgcb_sustain(struct vgcb_queue *queue, const struct vgcb_request *requests, uint32_t depth,
                 struct vgcb_sustained *sustained);
void vgcb_stop(struct vgcb_sustained *sustained); /* may be called by another thread */

/* Reads CLOCK_MONOTONIC, the clock of the loops. */
uint64_t vgcb_clock(void);

/* Measures one round trip: spins for spin_ns, then sleeps until called. */
int vgcb_round_trip(struct vgcb_queue *queue, const struct vgcb_request *request, uint64_t spin_ns,
                    uint64_t patience_ns, uint64_t *ns_out);

/* Measures `count` round trips between two processes with two eventfds, with a rest of idle_ns before each.
 * The partner runs on partner_cpu. */
int vgcb_eventfd_ping_pong(int partner_cpu, uint32_t count, uint64_t idle_ns, uint64_t *ns_out);

/* Measures round trips between two spinning processes with a shared cache line each way: the hardware's limit. */
int vgcb_cache_line_ping_pong(int partner_cpu, uint32_t count, uint64_t *ns_out);

/* Measures `count` waits of nap_ns for an idle epoll set, as the data plane naps, with a timer slack of slack_ns;
 * ns_out[i] is the time of each. Restores the thread's slack. */
int vgcb_naps(uint32_t count, uint64_t nap_ns, uint64_t slack_ns, uint64_t *ns_out);

/* Measures `count` memcpys of `size` bytes; ns_out[i] is the time of each. */
void vgcb_memcpy(uint8_t *dst, const uint8_t *src, uint64_t size, uint64_t slice, uint32_t count, uint64_t *ns_out);

#endif
