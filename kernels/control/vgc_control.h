/* Layout of the control area, which the host and the processing elements (PEs) share, and of its records.
 *
 * Each VM has one area, in memory that host and device map at addresses of their own. Host and device addresses are
 * never mixed: every address in here is a device address. Included by C11 (worker, daemon, CPU engine), by CUDA C++
 * (device code of both engines) and read by cffi; hence fixed-width fields, no attributes, no atomics in the types.
 * Fields that another thread writes are accessed atomically, see platform.h.
 *
 * Nothing in the area is trusted: guest code can write all of it. The host copies before it checks, and keeps its own
 * counts of the records it has taken.
 */
#ifndef VGC_CONTROL_H
#define VGC_CONTROL_H

#include <stdint.h>

enum {
    VGC_CTL_MAGIC = 0x4C544356,
    VGC_CTL_VERSION = 1,
    VGC_CTL_ABI = 1,            /* ABI between hooks and firmware: struct vgc_ctl_modules */
    VGC_CTL_BUILT_IN_MAJOR = 1, /* version of the control code that engines are built with */
    VGC_CTL_BUILT_IN_MINOR = 0,
    VGC_CTL_BUILT_IN_PATCH = 0,
    VGC_CTL_FUNCTIONS = 8, /* places per processing element in the binding table */
    VGC_CTL_MAX_PES = 4096,
    VGC_CTL_MAX_CHANNELS = 16384, /* number 0 means no channel */
    VGC_CTL_SLOT_BYTES = 64,
    VGC_CTL_FIRST_PAYLOAD = 32, /* bytes in a record's first slot */
    VGC_CTL_NEXT_PAYLOAD = 56,  /* bytes in each further slot */
    VGC_CTL_MAX_PAYLOAD = 1024,
    VGC_CTL_COUNTERS = 24, /* user counters per processing element */
    VGC_CTL_GAUGES = 8,
};

/* Functions of channels. The numbers are on the wire and in recordings, so they never change. */
enum vgc_ctl_function {
    VGC_CTL_STDIO = 0,
    VGC_CTL_PERF = 1,
    VGC_CTL_LOG = 2,
    VGC_CTL_FAULT = 3,
    VGC_CTL_LOAD = 4,
    VGC_CTL_FIRMWARE = 5,
    VGC_CTL_SNAPSHOT = 6,
};

/* Policy for a record that finds its link full. */
enum vgc_ctl_policy {
    VGC_CTL_DROP_NEW = 0,
    VGC_CTL_OVERWRITE_OLDEST = 1,
    VGC_CTL_WAIT = 2, /* waits for room until the deadline, then drops; standard input waits the same way */
};

/* Types of records, by function. FORMAT: address of the format, then 8 bytes per argument. */
enum vgc_ctl_type {
    VGC_CTL_STDIO_TEXT = 1,       /* bytes that were printed */
    VGC_CTL_STDIO_FORMAT = 2,     /* vgc_printf */
    VGC_CTL_STDIO_WANTS = 3,      /* a kernel waits for input: u64 bytes wanted */
    VGC_CTL_STDIO_TOOK = 4,       /* bytes that a kernel has read */
    VGC_CTL_PERF_BLOCK_BEGIN = 1, /* u64 kernel (key, see vgc_ctl_pe.kernel), launch, threads */
    VGC_CTL_PERF_BLOCK_END = 2,   /* u64 kernel, launch, duration_ns */
    VGC_CTL_PERF_EVENT = 3,       /* u64 name address, i64 value */
    VGC_CTL_PERF_GAUGE = 4,       /* u64 name address, f64 value, f64 threshold that was crossed */
    VGC_CTL_PERF_SAMPLE = 5,      /* host's sample of vgc_ctl_pe: u64 blocks, warps, busy_ns, stall_ns */
    VGC_CTL_LOG_FORMAT = 1,
    VGC_CTL_FAULT_TEXT = 1,     /* u64 code (enum vgc_ctl_fault), then text */
    VGC_CTL_FAULT_FORMAT = 2,   /* vgc_fault: u64 code, format, arguments */
    VGC_CTL_LOAD_SAMPLE = 1,    /* u64 busy_ns, blocks, launches, since_ns */
    VGC_CTL_FIRMWARE_STATE = 1, /* u64 version, slot (0 A, 1 B), enum vgc_ctl_firmware_state, code */
    VGC_CTL_SNAPSHOT_STATE = 1, /* u64 kernel, launch, block, since_ns */
};

enum vgc_ctl_level {
    VGC_CTL_OFF = 0,
    VGC_CTL_CRITICAL = 1, /* perf: counters only */
    VGC_CTL_ERROR = 2,
    VGC_CTL_WARNING = 3, /* perf: events and gauges, too */
    VGC_CTL_INFO = 4,    /* default; perf: begin and end of blocks, too */
    VGC_CTL_DEBUG = 5,
};

enum vgc_ctl_fault {
    VGC_CTL_FAULT_KERNEL = 1, /* illegal address or instruction */
    VGC_CTL_FAULT_ASSERT = 2,
    VGC_CTL_FAULT_TRAP = 3,
    VGC_CTL_FAULT_DEADLINE = 4,
    VGC_CTL_FAULT_HUNG = 5,     /* no progress between snapshots */
    VGC_CTL_FAULT_DEVICE = 6,   /* an error of the device itself: Xid */
    VGC_CTL_FAULT_DEADLOCK = 7, /* threads of a block wait for each other */
    VGC_CTL_FAULT_USER = 256,   /* this and above: vgc_fault(code - 256) */
};

enum vgc_ctl_firmware_state {
    VGC_CTL_FW_STAGED = 1,
    VGC_CTL_FW_ACTIVE = 2,      /* activated at a poll point and healthy */
    VGC_CTL_FW_ROLLED_BACK = 3, /* the health check failed with `code`: the other slot is active again */
};

/* First slot of a record in a link. A record of more than VGC_CTL_FIRST_PAYLOAD bytes continues in the following slots
 * (struct vgc_ctl_more).
 *
 * Writer: payload, then the commits of further slots, then the commit of the first slot (release). The slot at
 * position p is valid when its commit is p + 1 (first slot), or p + 1 with the top bit set (further slots; link.h:
 * VGC_CTL_MORE). */
struct vgc_ctl_record {
    uint64_t commit;
    uint64_t time_ns;       /* device's clock; CPU engine: CLOCK_MONOTONIC */
    uint8_t function_level; /* function << 4 | level */
    uint8_t type;
    uint16_t length; /* bytes of payload in all slots together */
    uint16_t pe;
    uint16_t warp;
    uint32_t block; /* linear index in the grid, low 32 bits */
    /* low 32 bits of the record's number in its channel; lost records are numbered too, so a gap is a loss */
    uint32_t sequence;
    uint8_t payload[32];
};

struct vgc_ctl_more {
    uint64_t commit;
    uint8_t payload[56];
};

struct vgc_ctl_counter {
    uint64_t name; /* device address of the name; 0: free */
    int64_t value;
};

struct vgc_ctl_gauge {
    uint64_t name;
    double value;
    double low; /* thresholds: a record is made when the value leaves or re-enters [low, high] */
    double high;
};

/* Bits of vgc_ctl_pe.attention, the word that hooks of blocks load first: reasons to look further. A processing element
 * attends to blocks while VGC_CTL_ATTEND_BLOCKS is set; an attended block is one that begins then. */
enum {
    VGC_CTL_ATTEND_BLOCKS = 1, /* perf, load or snapshot are bound: begin and end of blocks are counted */
    VGC_CTL_ATTEND_FIRMWARE = 2,
    VGC_CTL_ATTEND_CONFINED = 4, /* the element takes no further blocks */
};

/* Row of a processing element: 1 KiB. */
struct vgc_ctl_pe {
    /* cache line 0, written by the host: the binding table's row */
    uint64_t bind[8];
    /* line 1, written by the host */
    uint32_t attention;       /* VGC_CTL_ATTEND_ bits; all that an unbound hook of a block loads */
    uint32_t firmware_wanted; /* slot + 1 to activate at the next poll point; 0: none */
    uint64_t reserved1[7];
    /* line 2, written by the element: readers and execution */
    uint64_t readers;  /* hooks of this element that hold a channel now: a released channel is freed once this was 0 */
    uint64_t kernel;   /* key of the running kernel, chosen by the host side of the engine (CPU engine: address of its
                        * name); 0: idle */
    uint64_t launch;   /* number of the launch */
    uint64_t block;    /* linear index */
    uint64_t since_ns; /* start of the current block if blocks are counted (VGC_CTL_ATTEND_BLOCKS), else start of this
                        * element's work on the launch */
    uint64_t last_record_ns;
    uint32_t warps;
    uint32_t firmware_slot;
    uint64_t firmware_version;
    /* line 3, written by the element: counted while VGC_CTL_ATTEND_BLOCKS is set */
    uint64_t blocks;
    uint64_t warps_done;
    uint64_t busy_ns;
    uint64_t stall_ns; /* between blocks of one launch */
    uint64_t launches;
    uint64_t launches_seen;
    uint64_t faults;
    uint64_t ended_ns; /* end of the last attended block */
    struct vgc_ctl_gauge gauges[8];
    struct vgc_ctl_counter counters[24];
    uint64_t snapshot_seen; /* generation of the snapshot binding that was answered last */
    /* result of the last `firmware_wanted`, which the element clears once it has dealt with it */
    uint32_t firmware_state; /* enum vgc_ctl_firmware_state; 0: no change yet */
    uint32_t firmware_tried; /* slot that was tried */
    uint64_t firmware_code;
    uint64_t busy_since_ns; /* GPUs: start of the present period in which at least one block is resident */
    uint64_t reserved4[12];
};

/* Channel: 256 bytes. */
struct vgc_ctl_channel {
    /* cache lines 0 and 1, written by the host, before the channel is bound */
    uint32_t generation;
    uint16_t function;
    uint16_t pe;
    uint32_t policy;
    uint32_t slots;      /* size of the out link, a power of two */
    uint64_t out;        /* device address of the out link; 0: no link */
    uint64_t in;         /* device address of the in link (standard input); 0: no link */
    uint32_t in_bytes;   /* size of the in link, a ring of bytes; a power of two */
    uint32_t instance;   /* number of the function's instance on the host, for readers of a dump */
    uint64_t wait_ns;    /* longest wait of policy WAIT and of vgc_read */
    uint64_t in_head;    /* bytes that the host has put in */
    uint64_t in_eof;     /* 1: no more bytes will come */
    uint64_t tail;       /* slots that the host has taken */
    uint64_t taken;      /* records in them; the daemon reads this and out_offset when the worker has died */
    uint64_t out_offset; /* offset of the out link in the area */
    uint64_t reserved1[5];
    /* lines 2 and 3, written by the elements */
    uint64_t head;    /* slots claimed */
    uint64_t lost;    /* records without room */
    uint64_t skipped; /* records left out by sampling */
    uint64_t records; /* records made, lost ones included */
    uint64_t cost_ns; /* total of the records whose cost was measured */
    uint64_t cost_records;
    uint64_t in_tail;   /* bytes that kernels have taken */
    uint64_t execution; /* count by which sampling chooses records; kept here so that function modules are re-entrant */
    uint64_t reserved2[8];
};

/* Header of the area, written by the host before control_attach(), which refuses values that do not fit. Offsets count
 * from the area's first byte and are multiples of 64. */
struct vgc_ctl_area {
    uint32_t magic;
    uint32_t version;
    uint32_t num_pes;
    uint32_t num_channels;
    uint64_t size;
    uint64_t pes;      /* struct vgc_ctl_pe[num_pes] */
    uint64_t channels; /* struct vgc_ctl_channel[num_channels] */
    uint64_t links;    /* the rest */
    int64_t clock_ns;  /* added to elements' times gives CLOCK_MONOTONIC; known once the area is attached */
    uint64_t reserved;
};

#endif
