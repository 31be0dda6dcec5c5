/* The control system's driver for Python: control memory, channels and links of one VM.
 *
 * All functions of one driver are called by one thread, the worker's control system thread (`vgc_salvage_*`: the
 * daemon's). Functions that return int return 0 or -errno; those with `why` (VGC_CONTROL_WHY bytes) write the reason
 * there. Nothing that guest code has written into the area can make any of them loop, crash or write elsewhere.
 */
#ifndef VGC_CONTROL_DRIVER_CDEF_H
#define VGC_CONTROL_DRIVER_CDEF_H

#include "vgc_engine.h"

enum {
    VGC_CONTROL_WHY = 256,
    VGC_CONTROL_UNKNOWN = 256, /* most new addresses of texts in one packet */
    VGC_CONTROL_SECTION = 56,  /* bytes in front of each channel's records in a packet */
    VGC_CONTROL_FEWEST_SLOTS = 32,
    VGC_CONTROL_STALL_MS = 10000, /* longest time for a hook to fill a slot that it has claimed */
};

struct vgc_control;
struct vgc_salvage;

/* Settings that channels are opened with. */
struct vgc_control_terms {
    uint32_t function; /* enum vgc_ctl_function */
    uint32_t policy;
    uint32_t level;
    uint32_t sample; /* keeps one record of 2^sample */
    uint32_t slots;  /* rounded up to a power of two; fewer if memory is short */
    uint32_t in_bytes;
    uint64_t wait_ns;
    uint64_t period_ns; /* perf, load: time between samples; 0: one sample only */
};

/* Header of a channel's records in a packet. */
struct vgc_control_section {
    uint16_t channel;
    uint16_t reserved;
    uint32_t generation;
    uint64_t taken;   /* elements' records so far, those that follow included; samples are not counted */
    uint64_t lost;    /* records made but not taken; exact in the last section of a channel */
    uint64_t skipped; /* records left out by sampling */
    uint64_t cost_ns; /* cost of all records, estimated from those that were measured */
    uint32_t forged;  /* slots that did not hold a valid record */
    uint32_t length;  /* bytes of records that follow */
    uint64_t made_ns; /* time at which the section was made, CLOCK_MONOTONIC */
};

/* Header of an element's counters and gauges in a packet of figures. */
struct vgc_control_figures {
    uint16_t pe;
    uint8_t counters;
    uint8_t gauges;
    uint32_t reserved;
    uint64_t blocks;
    uint64_t warps;
    uint64_t launches;
    uint64_t busy_ns; /* includes the running block */
    uint64_t stall_ns;
    uint64_t faults;
};

/* State of an element at `at_ns`. */
struct vgc_control_state {
    uint16_t pe;
    uint8_t answered; /* 0: the element did not answer */
    uint8_t reserved;
    uint32_t warps;
    uint64_t kernel; /* key: address of its name, if the engine has names; 0: idle */
    uint64_t launch;
    uint64_t block;
    uint64_t since_ns;
    uint64_t last_record_ns;
    uint64_t at_ns;
};

/* Result of an element's change to another firmware slot. */
struct vgc_control_firmware {
    uint16_t pe;
    uint8_t slot;  /* slot to change to */
    uint8_t state; /* enum vgc_ctl_firmware_state */
    uint32_t reserved;
    uint64_t version; /* version that the element runs now */
    uint64_t code;
};

/* Firmware of an element: slot that it runs, and the result of its last change. */
struct vgc_control_slot {
    uint8_t slot;
    uint8_t state; /* enum vgc_ctl_firmware_state; 0: it never changed, or is changing */
    uint16_t code; /* at most UINT16_MAX */
};

struct vgc_control_change {
    uint16_t channel;
    uint16_t sample; /* sampling shift in force now */
    uint32_t generation;
};

struct vgc_control_usage {
    uint64_t link_bytes;        /* size of the memory for links */
    uint64_t used_bytes;        /* part of link_bytes in use */
    uint64_t quarantined_bytes; /* part of used_bytes, held by elements that did not let go in time */
    uint32_t channels;
    uint32_t quarantined; /* number of such links */
};

/* State of the device since the area was attached. */
struct vgc_control_device {
    uint64_t clock_error_ns; /* largest error of elements' times at clock_read_ns; UINT64_MAX: unknown */
    uint64_t clock_read_ns;  /* CLOCK_MONOTONIC when the device's clock was read; 0: it is the same clock */
    uint32_t num_pes;        /* bound of elements' numbers; 0: as given to vgc_control_new */
    uint32_t reserved;
};

/* Maps the area (`size` bytes of `fd`, all zeros), lays it out and attaches the engine to it. `fd` stays the caller's.
 * `engine` may be NULL in tests. Returns NULL on failure. */
struct vgc_control *vgc_control_new(struct vgc_engine *engine, int fd, uint64_t size, uint32_t num_pes,
                                    uint32_t num_channels, char *why);
/* Unmaps the area. Only for tests: a worker's engine keeps its area until the process ends. */
void vgc_control_free(struct vgc_control *control);
/* Number of channels, including released ones that are not closed yet. */
uint32_t vgc_control_num_open(const struct vgc_control *control);
/* Device address of the area's first byte. */
uint64_t vgc_control_device(const struct vgc_control *control);
void vgc_control_usage(const struct vgc_control *control, struct vgc_control_usage *usage);
void vgc_control_ask_device(const struct vgc_control *control, struct vgc_control_device *device);

/* Makes and binds `count` channels: all or none. */
int vgc_control_open(struct vgc_control *control, const struct vgc_control_terms *terms, const uint16_t *pes,
                     const uint16_t *channels, const uint32_t *generations, uint32_t count, char *why);
/* Changes level and sampling of bound channels. */
int vgc_control_set(struct vgc_control *control, const uint16_t *channels, uint32_t count, uint32_t level,
                    uint32_t sample, char *why);
/* Unbinds channels: hooks find them no longer; hooks that hold one already may finish. */
int vgc_control_unbind(struct vgc_control *control, const uint16_t *channels, uint32_t count, char *why);
/* Number of unbound channels that elements still hold, or whose records were not all taken. */
uint32_t vgc_control_unsettled(struct vgc_control *control);
/* Closes unbound channels. Links that elements still hold are not used again until they let go; returns the number of
 * channels with such links. */
uint32_t vgc_control_close(struct vgc_control *control, const uint16_t *channels, uint32_t count);

/* Puts bytes into a channel's in link, all or none. -EAGAIN: no room now; -ENOSPC: more than the link can hold. */
int vgc_control_send(struct vgc_control *control, uint16_t channel, const uint8_t *data, uint32_t size, bool eof,
                     char *why);
/* Confines work: only these elements may take blocks; count 0: all. */
int vgc_control_confine(struct vgc_control *control, const uint16_t *pes, uint32_t count, char *why);
/* Makes elements change to a firmware slot at their next poll point. */
int vgc_control_activate(struct vgc_control *control, const uint16_t *pes, uint32_t count, uint32_t slot, char *why);
/* Firmware states of elements that changed since the last call. */
uint32_t vgc_control_firmware(struct vgc_control *control, struct vgc_control_firmware *states, uint32_t max);
/* Firmware of all elements. */
void vgc_control_slots(struct vgc_control *control, struct vgc_control_slot *slots);
/* Addresses of the names of an element's VGC_CTL_GAUGES gauges, 0 for a free one; and sets the bounds of a gauge. */
void vgc_control_gauges(struct vgc_control *control, uint32_t pe, uint64_t *names);
void vgc_control_bound_gauge(struct vgc_control *control, uint32_t pe, uint32_t gauge, double low, double high);

/* Copies records out of the links into `to`: sections, each followed by its records. Returns the bytes, 0 if there are
 * no records. Records count as taken only after vgc_control_drained(sent). Channels take turns, beginning where the
 * last call ended. */
uint32_t vgc_control_drain(struct vgc_control *control, uint64_t now_ns, uint8_t *to, uint32_t size);
void vgc_control_drained(struct vgc_control *control, bool sent);
/* Copies figures of the elements that are due: struct vgc_control_figures, counters, gauges. To be followed by
 * vgc_control_figured(), as above. */
uint32_t vgc_control_figures(struct vgc_control *control, uint64_t now_ns, uint8_t *to, uint32_t size);
void vgc_control_figured(struct vgc_control *control, bool sent);
/* Time at which the next sample or figures are due; UINT64_MAX: never. */
uint64_t vgc_control_due_ns(const struct vgc_control *control);

/* Addresses of texts in the last packet that are not known yet; at most VGC_CONTROL_UNKNOWN. */
uint32_t vgc_control_unknown(const struct vgc_control *control, uint64_t *addresses);
/* Marks an address as known to the daemon. */
void vgc_control_know(struct vgc_control *control, uint64_t address);
/* Forgets all known addresses: after programs were loaded or unloaded they may hold other texts. */
void vgc_control_forget(struct vgc_control *control);
/* Copies the text at a device address, see vgc_engine_ops.control_text; -ENOTSUP if the engine has none. */
int vgc_control_text(struct vgc_control *control, uint64_t address, char *text, uint32_t size);

/* Takes a snapshot of all elements; `states` has room for all. Engines without control_look answer only for elements
 * that have noted a block since `asked_ns`, the time before vgc_control_ask(). Returns the number of elements that have
 * answered. */
uint32_t vgc_control_look(struct vgc_control *control, uint64_t asked_ns, struct vgc_control_state *states);
/* Makes elements note their state from their next block on, or stop doing so. */
void vgc_control_ask(struct vgc_control *control, bool on);
bool vgc_control_can_look(const struct vgc_control *control);

/* Governor: estimates the cost of each element's records since the last call, samples more coarsely where that is over
 * `budget_ppm` of the element's time, and more finely again where it is far below. `changes` has room for `max`. */
uint32_t vgc_control_govern(struct vgc_control *control, uint64_t now_ns, uint32_t budget_ppm,
                            struct vgc_control_change *changes, uint32_t max);

/* Salvage: drains the area of a dead worker. Nothing in the area is trusted. NULL on failure. */
struct vgc_salvage *vgc_salvage_new(int fd, uint64_t size, uint32_t num_pes, uint32_t num_channels, char *why);
void vgc_salvage_free(struct vgc_salvage *salvage);
/* Bounds the slots of all links together, by a count of the daemon's: guest code could have forged those in the area.
 */
void vgc_salvage_limit(struct vgc_salvage *salvage, uint64_t slots);
/* Copies a section with the channel's next records into `to`; `taken` is the count of the worker's last section.
 * Returns the bytes. To be called until it returns 0: nothing more of this channel. */
uint32_t vgc_salvage_drain(struct vgc_salvage *salvage, uint16_t channel, uint32_t generation, uint32_t function,
                           uint16_t pe, uint64_t taken, uint8_t *to, uint32_t size);

#endif
