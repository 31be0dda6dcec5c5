/* The control system's user-mode driver, as Python calls it: control memory, channels and links of one VM.
 *
 * Everything of one driver is called by one thread, the worker's control system thread (`vgc_salvage_*`: the
 * daemon's). Functions that return int return 0 or -errno, with the reason in `why` (VGC_CONTROL_WHY bytes) if they
 * have one. Nothing that guest code has written into the area can make any of them loop, crash or write elsewhere.
 */
#ifndef VGC_CONTROL_DRIVER_CDEF_H
#define VGC_CONTROL_DRIVER_CDEF_H

#include "vgc_engine.h"

enum {
    VGC_CONTROL_WHY = 256,
    VGC_CONTROL_UNKNOWN = 256, /* addresses of texts that one packet can bring up */
    VGC_CONTROL_SECTION = 56,  /* bytes in front of each channel's records in a packet */
    VGC_CONTROL_FEWEST_SLOTS = 32,
    VGC_CONTROL_STALL_MS = 10000, /* for so long an element that is in a hook may take to fill a slot */
};

struct vgc_control;
struct vgc_salvage;

/* On what terms channels are opened. */
struct vgc_control_terms {
    uint32_t function; /* enum vgc_ctl_function */
    uint32_t policy;
    uint32_t level;
    uint32_t sample; /* one record of two to the power of this */
    uint32_t slots;  /* rounded up to a power of two; fewer if memory is short */
    uint32_t in_bytes;
    uint64_t wait_ns;
    uint64_t period_ns; /* perf, load: a sample so often; 0: one */
};

/* In front of a channel's records in a packet. */
struct vgc_control_section {
    uint16_t channel;
    uint16_t reserved;
    uint32_t generation;
    uint64_t taken; /* records of elements so far, those that follow included; the samples among them are not counted */
    uint64_t lost;  /* records that were made and are gone; exact in the last section of a channel */
    uint64_t skipped; /* by sampling */
    uint64_t cost_ns; /* of making records: measured for some of them, reckoned for all */
    uint32_t forged;  /* slots that were no records */
    uint32_t length;  /* bytes of records that follow */
    uint64_t made_ns; /* when the section was made, CLOCK_MONOTONIC */
};

/* In front of an element's counters and gauges in a packet of figures. */
struct vgc_control_figures {
    uint16_t pe;
    uint8_t counters;
    uint8_t gauges;
    uint32_t reserved;
    uint64_t blocks;
    uint64_t warps;
    uint64_t launches;
    uint64_t busy_ns; /* the running block's part too */
    uint64_t stall_ns;
    uint64_t faults;
};

/* What an element was doing at `at_ns`. */
struct vgc_control_state {
    uint16_t pe;
    uint8_t answered; /* 0: silent */
    uint8_t reserved;
    uint32_t warps;
    uint64_t kernel; /* key: address of its name, where the engine has those; 0: none */
    uint64_t launch;
    uint64_t block;
    uint64_t since_ns;
    uint64_t last_record_ns;
    uint64_t at_ns;
};

/* What became of an element's change to another firmware slot. */
struct vgc_control_firmware {
    uint16_t pe;
    uint8_t slot;  /* that it was to change to */
    uint8_t state; /* enum vgc_ctl_firmware_state */
    uint32_t reserved;
    uint64_t version; /* that it runs now */
    uint64_t code;
};

struct vgc_control_change {
    uint16_t channel;
    uint16_t sample; /* in force now */
    uint32_t generation;
};

struct vgc_control_usage {
    uint64_t link_bytes;        /* there are for links */
    uint64_t used_bytes;        /* of them */
    uint64_t quarantined_bytes; /* of those, held by elements that did not let go in time */
    uint32_t channels;
    uint32_t quarantined; /* links */
};

/* Maps the area (`size` bytes of `fd`, all zeros, the caller's), lays it out and attaches the engine to it. NULL
 * engine: nothing is attached, for tests. NULL on failure. */
struct vgc_control *vgc_control_new(struct vgc_engine *engine, int fd, uint64_t size, uint32_t num_pes,
                                    uint32_t num_channels, char *why);
/* Unmaps it; for tests: a worker's engine keeps its area until the process ends. */
void vgc_control_free(struct vgc_control *control);
/* Channels that there are, released ones too until they are closed. */
uint32_t vgc_control_num_open(const struct vgc_control *control);
/* Where elements see the area's first byte. */
uint64_t vgc_control_device(const struct vgc_control *control);
void vgc_control_usage(const struct vgc_control *control, struct vgc_control_usage *usage);

/* Makes `count` channels and binds them: all or none. */
int vgc_control_open(struct vgc_control *control, const struct vgc_control_terms *terms, const uint16_t *pes,
                     const uint16_t *channels, const uint32_t *generations, uint32_t count, char *why);
/* Binds channels on other terms. */
int vgc_control_set(struct vgc_control *control, const uint16_t *channels, uint32_t count, uint32_t level,
                    uint32_t sample, char *why);
/* No hook finds the channels from now on; those that have are still at it. */
int vgc_control_unbind(struct vgc_control *control, const uint16_t *channels, uint32_t count, char *why);
/* Channels that were unbound and that elements still hold, or whose records were not all taken. */
uint32_t vgc_control_unsettled(struct vgc_control *control);
/* Gives up channels that were unbound. What an element holds is not used again until it lets go: returns how many. */
uint32_t vgc_control_close(struct vgc_control *control, const uint16_t *channels, uint32_t count);

/* Bytes for a channel's in link, all or none: -EAGAIN if there is no room now, -ENOSPC if there never is so much. */
int vgc_control_send(struct vgc_control *control, uint16_t channel, const uint8_t *data, uint32_t size, bool eof,
                     char *why);
/* Only these elements may take blocks; count 0: all. */
int vgc_control_confine(struct vgc_control *control, const uint16_t *pes, uint32_t count, char *why);
/* Has elements change to a firmware slot at their next poll point. */
int vgc_control_activate(struct vgc_control *control, const uint16_t *pes, uint32_t count, uint32_t slot, char *why);
/* What became of that, for elements that have dealt with it since the last call. */
uint32_t vgc_control_firmware(struct vgc_control *control, struct vgc_control_firmware *states, uint32_t max);
/* The names of an element's gauges, VGC_CTL_GAUGES of them, 0 where there is none; and bounds for one. */
void vgc_control_gauges(struct vgc_control *control, uint32_t pe, uint64_t *names);
void vgc_control_bound_gauge(struct vgc_control *control, uint32_t pe, uint32_t gauge, double low, double high);

/* Copies records out of the links into `to`: sections, each followed by its records. Bytes; 0: there is nothing.
 * Nothing counts as taken before vgc_control_drained(sent). A turn for each channel, beginning where the last call
 * has ended. */
uint32_t vgc_control_drain(struct vgc_control *control, uint64_t now_ns, uint8_t *to, uint32_t size);
void vgc_control_drained(struct vgc_control *control, bool sent);
/* Figures of the elements whose time has come: struct vgc_control_figures, counters, gauges. Same rules. */
uint32_t vgc_control_figures(struct vgc_control *control, uint64_t now_ns, uint8_t *to, uint32_t size);
void vgc_control_figured(struct vgc_control *control, bool sent);
/* When the next sample or figures are due; UINT64_MAX: never. */
uint64_t vgc_control_due_ns(const struct vgc_control *control);

/* Addresses of texts in the last packet that were in none before; at most VGC_CONTROL_UNKNOWN. */
uint32_t vgc_control_unknown(const struct vgc_control *control, uint64_t *addresses);
/* The daemon knows what is at this address. */
void vgc_control_know(struct vgc_control *control, uint64_t address);
/* Programs come and go: addresses may hold other texts now. */
void vgc_control_forget(struct vgc_control *control);
/* The text at a device address, as vgc_engine_ops.control_text; -ENOTSUP without that. */
int vgc_control_text(struct vgc_control *control, uint64_t address, char *text, uint32_t size);

/* Looks at all elements at once, for a snapshot: `states` has room for all. `asked`: before the engine was asked
 * (vgc_control_ask), without which engines that cannot look answer only for what their elements have noted. Returns
 * how many have answered. */
uint32_t vgc_control_look(struct vgc_control *control, uint64_t asked_ns, struct vgc_control_state *states);
/* Has elements note what they do from their next block on, or no longer. */
void vgc_control_ask(struct vgc_control *control, bool on);
bool vgc_control_can_look(const struct vgc_control *control);

/* The governor: reckons what records have cost each element since the last call, and samples more coarsely where that
 * is over `budget_ppm` of its time, more finely again where it is far below. `changes` has room for `max`. */
uint32_t vgc_control_govern(struct vgc_control *control, uint64_t now_ns, uint32_t budget_ppm,
                            struct vgc_control_change *changes, uint32_t max);

/* What a dead worker has left: the same drain over its area, of whose contents nothing is believed. NULL on failure. */
struct vgc_salvage *vgc_salvage_new(int fd, uint64_t size, uint32_t num_pes, uint32_t num_channels, char *why);
void vgc_salvage_free(struct vgc_salvage *salvage);
/* All links together have no more slots than this, as the daemon knows: guest code could write that they have. */
void vgc_salvage_limit(struct vgc_salvage *salvage, uint64_t slots);
/* A section of the channel's next records into `to`; `taken` is what the worker's sections have said so far. The
 * bytes; 0: there is nothing more of this channel. Call it until then. */
uint32_t vgc_salvage_drain(struct vgc_salvage *salvage, uint16_t channel, uint32_t generation, uint32_t function,
                           uint16_t pe, uint64_t taken, uint8_t *to, uint32_t size);

#endif
