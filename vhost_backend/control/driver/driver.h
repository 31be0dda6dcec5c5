/* Inside the driver of the control system's CPU domain.
 *
 *   area.c     the area: mapping, layout, access       channel.c  channels: opened, bound, released
 *   memory.c   memory for links                        link.c     one link: records out of it, checked
 *   drain.c    packets of many channels' records       element.c  elements: attention, figures, snapshots
 *   governor.c what records cost, and sampling         salvage.c  what a dead worker has left
 *
 * Host and device addresses are never mixed: inside here everything is an *offset* in the area; device addresses are
 * only ever stored into it, and host addresses are known to area.c alone.
 */
#ifndef VGC_CONTROL_DRIVER_H
#define VGC_CONTROL_DRIVER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cdef.h"
#include "kernels/control/binding.h"
#include "kernels/control/vgc_control.h"

enum {
    VGC_CONTROL_UNIT = 1024,     /* bytes: the smallest link */
    VGC_CONTROL_ORDERS = 16,     /* block sizes: up to 32 MiB */
    VGC_CONTROL_TEXTS = 8192,    /* addresses of texts that are remembered; more are not looked up */
    VGC_CONTROL_TURN = 16 << 10, /* bytes of records of one channel in one packet */
    VGC_CONTROL_MAX_SAMPLE = 32,
    VGC_CONTROL_HELD_SLOTS = 1 << 24, /* more than hooks that hold a closed channel can claim */
    VGC_CONTROL_MORE_SHIFT = 63,      /* see VGC_CTL_MORE of kernels/control/link.h */
};

/* ---- area.c --------------------------------------------------------------------------------------------------- */

struct vgc_control_area {
    uint8_t *host;
    uint64_t size;
    uint64_t device;
    struct vgc_engine *engine; /* NULL: the host's mapping is all there is */
    uint32_t num_pes;
    uint32_t num_channels;
    uint64_t pes; /* offsets */
    uint64_t channels;
    uint64_t links;
    uint64_t urgent_bytes; /* of the links: the first ones, which outlive the device's errors */
    int64_t clock_ns;      /* of an area whose engine is gone */
};

/* Maps the area and finds where everything is in it; -errno with `why`. */
int vgc_control_area_map(struct vgc_control_area *area, int fd, uint64_t size, uint32_t num_pes, uint32_t num_channels,
                         bool writable, char *why);
void vgc_control_area_unmap(struct vgc_control_area *area);
/* What to add to elements' times to have CLOCK_MONOTONIC; modulo 2^64. */
static inline uint64_t vgc_control_clock(const struct vgc_control_area *area)
{
    return (uint64_t)(area->engine == NULL ? area->clock_ns : area->engine->control_clock_ns);
}

/* Attaches the engine and writes the area's head. */
int vgc_control_area_attach(struct vgc_control_area *area, struct vgc_engine *engine, int fd, char *why);

/* Copies `size` bytes, both multiples of 8, word by word: each word is seen whole. What is read after a read is not
 * older than it; what was written before a write is seen before it. */
void vgc_control_read(const struct vgc_control_area *area, uint64_t offset, void *to, uint64_t size);
void vgc_control_write(const struct vgc_control_area *area, uint64_t offset, const void *from, uint64_t size);
uint64_t vgc_control_load(const struct vgc_control_area *area, uint64_t offset);
void vgc_control_store(const struct vgc_control_area *area, uint64_t offset, uint64_t value);
void vgc_control_store32(const struct vgc_control_area *area, uint64_t offset, uint32_t value);
/* Must the area be moved piece by piece between host and device? */
bool vgc_control_is_apart(const struct vgc_control_area *area);
/* What was written before is seen by whoever's writes are read after. */
void vgc_control_fence(void);

/* Where elements see what is at an offset. */
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
    uint32_t free[VGC_CONTROL_ORDERS]; /* lists of units where free blocks begin */
    uint8_t *order;                    /* of the block that begins at a unit */
    uint32_t *next;
    uint32_t *previous;
};

int vgc_control_memory_init(struct vgc_control_memory *memory, uint64_t base, uint64_t size);
void vgc_control_memory_close(struct vgc_control_memory *memory);
/* Offset of a block of at least `size` bytes, aligned to its size up to a power of two of units; 0: there is none. */
uint64_t vgc_control_memory_take(struct vgc_control_memory *memory, uint64_t size);
void vgc_control_memory_give(struct vgc_control_memory *memory, uint64_t offset);
/* The same for a link of this function: what somebody says who is about to fail has the area's urgent memory, as far as
 * that goes. */
uint64_t vgc_control_link_take(struct vgc_control *control, uint32_t function, uint64_t size);
void vgc_control_link_give(struct vgc_control *control, uint64_t offset);

/* ---- link.c --------------------------------------------------------------------------------------------------- */

/* The host's end of an out link. */
struct vgc_control_link {
    uint64_t offset; /* of its slots */
    uint64_t mask;   /* slots - 1 */
    uint32_t policy;
    uint16_t pe;
    uint8_t function;
    uint64_t tail;
    uint64_t stalled_ns; /* since when the slot at `tail` is claimed and empty; 0: it is not */
    uint64_t taken;
    uint32_t forged;
};

/* Copies whole records that lie before `head` into `to`, moving on `link`; the bytes. `final`: nobody fills slots any
 * more, so an empty one is passed over at once. `head_at`: offset of the link's head, for links that overwrite. */
uint32_t vgc_control_link_drain(const struct vgc_control_area *area, struct vgc_control_link *link, uint64_t head,
                                uint64_t head_at, uint64_t now_ns, bool final, uint8_t *to, uint32_t size);

/* ---- channel.c ------------------------------------------------------------------------------------------------ */

enum vgc_control_phase {
    VGC_CONTROL_NONE,
    VGC_CONTROL_BOUND,
    VGC_CONTROL_UNBOUND, /* elements may hold it */
    VGC_CONTROL_QUIET,   /* none does */
};

/* The host's half of a channel. */
struct vgc_control_channel {
    uint8_t phase; /* enum vgc_control_phase */
    uint8_t level;
    uint8_t sample; /* as it was asked for */
    uint8_t raised; /* by the governor */
    uint32_t generation;
    uint32_t place; /* in the list of open channels */
    uint64_t in_offset;
    uint32_t in_bytes;
    bool once;     /* one sample was asked for, and is still to be made */
    bool reported; /* its last section has everything that there is to say */
    uint64_t in_head;
    uint64_t period_ns;
    uint64_t due_ns; /* of the next sample; UINT64_MAX: never */
    uint64_t made;   /* samples, which the driver makes itself */
    struct vgc_control_link link;
    uint64_t said_lost; /* in the last section */
    uint64_t said_skipped;
    uint64_t said_ns;          /* when */
    uint64_t governed_records; /* at the governor's last look */
    uint64_t governed_cost_ns;
    uint64_t governed_cost_records;
};

/* The elements' line of a channel, copied. */
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
_Static_assert(sizeof(struct vgc_control_counts) == 64, "one line");
_Static_assert(sizeof(struct vgc_control_section) == VGC_CONTROL_SECTION, "as packets.py has it");

struct vgc_control_quarantine {
    uint64_t offset;
    uint32_t bytes;
    uint16_t pe;
};

/* The sampling in force. */
static inline uint32_t vgc_control_sampling(const struct vgc_control_channel *channel)
{
    uint32_t sample = channel->sample + channel->raised;
    return sample < VGC_CONTROL_MAX_SAMPLE ? sample : VGC_CONTROL_MAX_SAMPLE;
}

/* Writes the binding of a channel. */
void vgc_control_bind(struct vgc_control *control, uint16_t number);
void vgc_control_counts(const struct vgc_control_area *area, uint32_t number, struct vgc_control_counts *counts);
/* What all records of a channel have cost, reckoned from those that were measured. */
uint64_t vgc_control_cost(const struct vgc_control_counts *counts);

/* ---- element.c ------------------------------------------------------------------------------------------------ */

struct vgc_control_element {
    uint8_t bound; /* bit per function */
    bool confined;
    bool asked;           /* for a snapshot */
    bool due;             /* figures */
    bool changing;        /* to another firmware slot */
    bool testing;         /* it has begun to, and that was told */
    bool watched;         /* it has changed: that it goes back by itself will be told */
    uint8_t slot;         /* that it was told to change to */
    uint64_t attended_ns; /* blocks that begin from here on are noted; 0: none are */
    uint64_t unnoted_ns;  /* that it was busy with blocks which had begun before */
};

/* Writes the attention word of an element; the caller kicks. */
void vgc_control_attend(struct vgc_control *control, uint32_t pe);
void vgc_control_kick(struct vgc_control *control);
/* A record of the element's counters, as perf and load make them, into `to`; its bytes. */
uint32_t vgc_control_sample(struct vgc_control *control, struct vgc_control_channel *channel, uint64_t now_ns,
                            uint8_t *to);

/* ---- drain.c -------------------------------------------------------------------------------------------------- */

/* What a channel was before a packet that may not be sent. */
struct vgc_control_before {
    uint16_t number;
    bool once;
    bool reported;
    uint64_t due_ns;
    uint64_t made;
    uint64_t said_lost;
    uint64_t said_skipped;
    uint64_t said_ns;
    struct vgc_control_link link;
};

struct vgc_control_texts {
    uint64_t known[2 * VGC_CONTROL_TEXTS]; /* hash table */
    uint32_t count;
    uint32_t unknown_count;
    uint64_t unknown[VGC_CONTROL_UNKNOWN];
};

/* Notes the addresses of texts that a record has. */
void vgc_control_note_texts(struct vgc_control *control, const uint8_t *record);
void vgc_control_note_text(struct vgc_control *control, uint64_t address);

enum { VGC_CONTROL_MAX_SECTIONS = 1024 };

struct vgc_control {
    struct vgc_control_area area;
    struct vgc_control_memory memory;
    struct vgc_control_memory urgent;
    struct vgc_control_channel *channels; /* by number */
    struct vgc_control_element *elements;
    uint16_t *open; /* numbers of channels that there are */
    uint32_t num_open;
    uint32_t turn;                 /* whose it is next */
    struct vgc_ctl_channel *ahead; /* of an area apart: channels ahead_first.. as they were when the round began */
    uint32_t ahead_first;
    uint32_t ahead_count;
    uint64_t next_position; /* of slots: no link has had it or one behind */
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
    uint32_t num_changing; /* elements that are changing, or watched */
    uint64_t governed_ns;
    uint64_t *costs; /* by element, for the governor */
};

#endif
