/* Internals of the control system's driver.
 *
 *   area.c     the area: mapping, layout, access       channel.c  channels: opening, binding, releasing
 *   memory.c   memory for links                        link.c     one link: reading and checking its records
 *   drain.c    packets of many channels' records       element.c  elements: attention, figures, snapshots
 *   governor.c cost of records, and sampling           salvage.c  records that a dead worker has left
 *   texts.c    texts that records name                 driver.c   creation and destruction of all of it
 *
 * Host and device addresses are never mixed: the driver works with *offsets* in the area. Device addresses are only
 * stored into the area, and only area.c knows host addresses.
 */
#ifndef VGC_CONTROL_INTERNAL_H
#define VGC_CONTROL_INTERNAL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cdef.h"
#include "kernels/control/binding.h"
#include "kernels/control/vgc_control.h"

enum {
    VGC_CONTROL_UNIT = 1024,     /* bytes of the smallest link */
    VGC_CONTROL_ORDERS = 16,     /* block sizes: up to 32 MiB */
    VGC_CONTROL_TEXTS = 8192,    /* most known addresses of texts; further ones are not looked up */
    VGC_CONTROL_TURN = 16 << 10, /* most bytes of a channel's records in one packet */
    VGC_CONTROL_MAX_SAMPLE = 32,
    VGC_CONTROL_HELD_SLOTS = 1 << 24, /* more slots than hooks that hold a closed channel can claim */
    VGC_CONTROL_MORE_SHIFT = 63,      /* see VGC_CTL_MORE of kernels/control/link.h */
};

/* ---- area.c --------------------------------------------------------------------------------------------------- */

struct vgc_control_area {
    uint8_t *host;
    uint64_t size;
    uint64_t device;
    struct vgc_engine *engine; /* NULL: no device, only the host's mapping */
    uint32_t num_pes;
    uint32_t num_channels;
    uint64_t pes; /* offsets of these three */
    uint64_t channels;
    uint64_t links;
    uint64_t urgent_bytes; /* first bytes of the links, which outlive errors of the device */
    int64_t clock_ns;      /* clock offset of an area whose engine is gone */
};

/* Maps the area and computes its layout; -errno with `why`. */
int vgc_control_area_map(struct vgc_control_area *area, int fd, uint64_t size, uint32_t num_pes, uint32_t num_channels,
                         bool writable, char *why);
void vgc_control_area_unmap(struct vgc_control_area *area);
/* Offset from elements' times to CLOCK_MONOTONIC, modulo 2^64. */
static inline uint64_t vgc_control_clock(const struct vgc_control_area *area)
{
    if (area->engine == NULL)
        return (uint64_t)area->clock_ns;
    return (uint64_t)atomic_load_explicit(&area->engine->control_clock_ns, memory_order_relaxed);
}

/* Attaches the engine and writes the area's head. */
int vgc_control_area_attach(struct vgc_control_area *area, struct vgc_engine *engine, int fd, char *why);

/* Copy `size` bytes, offset and size multiples of 8, word by word: no word is torn. Reads have acquire, writes release
 * semantics. */
void vgc_control_read(const struct vgc_control_area *area, uint64_t offset, void *to, uint64_t size);
void vgc_control_write(const struct vgc_control_area *area, uint64_t offset, const void *from, uint64_t size);
uint64_t vgc_control_load(const struct vgc_control_area *area, uint64_t offset);
void vgc_control_store(const struct vgc_control_area *area, uint64_t offset, uint64_t value);
void vgc_control_store32(const struct vgc_control_area *area, uint64_t offset, uint32_t value);
/* True if the area must be copied piecewise between host and device, which share no memory for it. */
bool vgc_control_is_apart(const struct vgc_control_area *area);
/* True if a hook of this element may hold a channel; also if the device cannot be asked now. */
bool vgc_control_is_held(const struct vgc_control_area *area, uint32_t pe);
/* Full memory barrier between host and elements (seq_cst). */
void vgc_control_fence(void);

/* Device address of an offset. */
uint64_t vgc_control_device_at(const struct vgc_control_area *area, uint64_t offset);
uint64_t vgc_control_pe_at(const struct vgc_control_area *area, uint32_t pe);
uint64_t vgc_control_channel_at(const struct vgc_control_area *area, uint32_t channel);

__attribute__((format(printf, 2, 3))) void vgc_control_say(char *why, const char *format, ...);
uint64_t vgc_control_now_ns(void);

/* ---- memory.c ------------------------------------------------------------------------------------------------- */

struct vgc_control_memory {
    uint64_t base;
    uint64_t used;
    uint32_t num_units;
    uint32_t free[VGC_CONTROL_ORDERS]; /* lists of free blocks, by first unit */
    uint8_t *order;                    /* order of the block that begins at a unit */
    uint32_t *next;
    uint32_t *previous;
};

int vgc_control_memory_init(struct vgc_control_memory *memory, uint64_t base, uint64_t size);
void vgc_control_memory_close(struct vgc_control_memory *memory);
/* Takes a block of at least `size` bytes, rounded up to a power of two of units and aligned to that; returns its
 * offset, 0 if there is no room. */
uint64_t vgc_control_memory_take(struct vgc_control_memory *memory, uint64_t size);
void vgc_control_memory_give(struct vgc_control_memory *memory, uint64_t offset);
/* Takes memory for a link of this function: faults and stdio, the last records of a failing kernel, get the area's
 * urgent memory while there is any. */
uint64_t vgc_control_link_take(struct vgc_control *control, uint32_t function, uint64_t size);
void vgc_control_link_give(struct vgc_control *control, uint64_t offset);

/* ---- link.c --------------------------------------------------------------------------------------------------- */

/* The host's end of an out link. */
struct vgc_control_link {
    uint64_t offset; /* of the slots in the area */
    uint64_t mask;   /* slots - 1 */
    uint32_t policy;
    uint16_t pe;
    uint8_t function;
    uint64_t tail;
    uint64_t stalled_ns; /* time since which the slot at `tail` is claimed and empty; 0: it is not */
    uint64_t taken;
    uint32_t forged;
};

/* Copies whole records before `head` into `to` and advances `link`; returns the bytes. `final`: no hook fills slots any
 * more, so empty ones are skipped at once. `head_at`: offset of the link's head, for links that overwrite. */
uint32_t vgc_control_link_drain(const struct vgc_control_area *area, struct vgc_control_link *link, uint64_t head,
                                uint64_t head_at, uint64_t now_ns, bool final, uint8_t *to, uint32_t size);

/* ---- texts.c -------------------------------------------------------------------------------------------------- */

struct vgc_control_texts {
    uint64_t known[2 * VGC_CONTROL_TEXTS]; /* hash table */
    uint32_t count;
    uint32_t unknown_count;
    uint64_t unknown[VGC_CONTROL_UNKNOWN];
};

/* Notes the addresses of texts that a record has. */
void vgc_control_note_texts(struct vgc_control *control, const uint8_t *record);
void vgc_control_note_text(struct vgc_control *control, uint64_t address);

/* ---- channel.c ------------------------------------------------------------------------------------------------ */

enum vgc_control_phase {
    VGC_CONTROL_NONE,
    VGC_CONTROL_BOUND,
    VGC_CONTROL_UNBOUND, /* elements may hold it */
    VGC_CONTROL_QUIET,   /* no element holds it */
};

/* The driver's state of a channel. */
struct vgc_control_channel {
    uint8_t phase; /* enum vgc_control_phase */
    uint8_t level;
    uint8_t sample; /* as requested */
    uint8_t raised; /* steps that the governor has added to `sample` */
    uint32_t generation;
    uint32_t place; /* index in the list of open channels */
    uint64_t in_offset;
    uint32_t in_bytes;
    bool once;     /* a single sample was requested and is not made yet */
    bool reported; /* its last section was put into a packet */
    uint64_t in_head;
    uint64_t period_ns;
    uint64_t due_ns; /* time of the next sample; UINT64_MAX: never */
    uint64_t made;   /* number of samples, which the driver makes itself */
    struct vgc_control_link link;
    uint64_t reported_lost; /* by the last section */
    uint64_t reported_skipped;
    uint64_t reported_ns;      /* time of the last section */
    uint64_t governed_records; /* counts at the governor's last run */
    uint64_t governed_cost_ns;
    uint64_t governed_cost_records;
};

/* Copy of the cache line of a channel that elements write. */
struct vgc_control_counts {
    uint64_t head;
    uint64_t lost;
    uint64_t skipped;
    uint64_t records;
    uint64_t cost_ns;
    uint64_t cost_records;
    uint64_t in_tail;
    uint64_t execution;
};
_Static_assert(sizeof(struct vgc_control_counts) == 64, "one cache line");
_Static_assert(sizeof(struct vgc_control_section) == VGC_CONTROL_SECTION, "as packets.py has it");

struct vgc_control_quarantine {
    uint64_t offset;
    uint32_t bytes;
    uint16_t pe;
};

/* Sampling shift in force. */
static inline uint32_t vgc_control_sampling(const struct vgc_control_channel *channel)
{
    uint32_t sample = channel->sample + channel->raised;
    return sample < VGC_CONTROL_MAX_SAMPLE ? sample : VGC_CONTROL_MAX_SAMPLE;
}

/* Writes the binding of a channel. */
void vgc_control_bind(struct vgc_control *control, uint16_t number);
void vgc_control_counts(const struct vgc_control_area *area, uint32_t number, struct vgc_control_counts *counts);
/* Cost of all records of a channel, estimated from those that were measured. */
uint64_t vgc_control_cost(const struct vgc_control_counts *counts);

/* ---- element.c ------------------------------------------------------------------------------------------------ */

struct vgc_control_element {
    uint8_t bound; /* bit per function */
    bool confined;
    bool asked;           /* a snapshot is under way */
    bool due;             /* its figures are to be sent */
    bool changing;        /* is to change to another firmware slot */
    bool testing;         /* the change has begun, and that was reported */
    bool watched;         /* has changed; if it rolls back by itself, that is reported */
    uint8_t slot;         /* firmware slot to change to */
    uint64_t attended_ns; /* blocks that begin after this time are noted in the row; 0: blocks are not attended */
    uint64_t unnoted_ns;  /* busy time with blocks that began before attended_ns, which the row does not have */
};

/* Writes the attention word of an element; the caller kicks. */
void vgc_control_attend(struct vgc_control *control, uint32_t pe);
void vgc_control_kick(struct vgc_control *control);
/* Writes a sample record of the element's counters, for perf or load, into `to`; returns its bytes. */
uint32_t vgc_control_sample(struct vgc_control *control, struct vgc_control_channel *channel, uint64_t now_ns,
                            uint8_t *to);

/* ---- drain.c -------------------------------------------------------------------------------------------------- */

/* State of a channel before a packet, to undo it if the packet cannot be sent. */
struct vgc_control_before {
    uint16_t number;
    bool once;
    bool reported;
    uint64_t due_ns;
    uint64_t made;
    uint64_t reported_lost;
    uint64_t reported_skipped;
    uint64_t reported_ns;
    struct vgc_control_link link;
};

enum { VGC_CONTROL_MAX_SECTIONS = 1024 };

struct vgc_control {
    struct vgc_control_area area;
    struct vgc_control_memory memory;
    struct vgc_control_memory urgent;
    struct vgc_control_channel *channels; /* by number */
    struct vgc_control_element *elements;
    uint16_t *open; /* numbers of the channels in use */
    uint32_t num_open;
    uint32_t turn; /* index in `open` of the channel that was drained last */
    struct vgc_ctl_channel
        *ahead; /* if the area is apart: copy of the channels from ahead_first on, read at the begin of a round */
    uint32_t ahead_first;
    uint32_t ahead_count;
    uint64_t next_position; /* first position that no link has used yet */
    struct vgc_control_quarantine *quarantine;
    uint32_t num_quarantined;
    uint32_t room_quarantined;
    uint64_t quarantined_bytes;
    struct vgc_control_texts texts;
    struct vgc_control_before before[VGC_CONTROL_MAX_SECTIONS];
    uint32_t num_before;
    uint32_t turn_before;
    uint32_t figured; /* element after the last one in the packet of figures */
    uint32_t figured_before;
    uint32_t num_changing; /* number of elements that are changing or watched */
    uint64_t governed_ns;
    uint64_t *costs; /* per element, for the governor */
};

#endif
