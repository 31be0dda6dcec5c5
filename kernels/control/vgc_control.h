/* The control area: what the GPU domain and the CPU domain of the control system share, and its records.
 *
 * One area per VM, in memory that both domains map at addresses of their own (`device` and `host` addresses are never
 * mixed: every address in here is the device's). Included by C11 (worker, daemon, CPU engine), by CUDA C++ (device
 * code of both engines) and read by cffi; so: fixed-width fields, no attributes, no atomics in the types. Whoever
 * accesses a field that another thread writes does so atomically, see platform.h.
 *
 * The area is believed by nobody: guest code can write all of it. The host copies before it checks, and keeps its own
 * counts of what it has taken.
 */
#ifndef VGC_CONTROL_H
#define VGC_CONTROL_H

#include <stdint.h>

enum {
    VGC_CTL_MAGIC = 0x4C544356,
    VGC_CTL_VERSION = 1,
    VGC_CTL_ABI = 1,            /* between hooks and firmware: struct vgc_ctl_modules */
    VGC_CTL_BUILT_IN_MAJOR = 1, /* version of the control code that engines are built with */
    VGC_CTL_BUILT_IN_MINOR = 0,
    VGC_CTL_BUILT_IN_PATCH = 0,
    VGC_CTL_FUNCTIONS = 8, /* places per processing element in the binding table */
    VGC_CTL_MAX_PES = 4096,
    VGC_CTL_MAX_CHANNELS = 16384, /* channel 0 is none */
    VGC_CTL_SLOT_BYTES = 64,
    VGC_CTL_FIRST_PAYLOAD = 32, /* bytes in a record's first slot */
    VGC_CTL_NEXT_PAYLOAD = 56,  /* and in each further one */
    VGC_CTL_MAX_PAYLOAD = 1024,
    VGC_CTL_COUNTERS = 24, /* user counters per processing element */
    VGC_CTL_GAUGES = 8,
};

/* What a channel is for. Numbers are on the wire and in recordings: they stay. */
enum vgc_ctl_function {
    VGC_CTL_STDIO = 0,
    VGC_CTL_PERF = 1,
    VGC_CTL_LOG = 2,
    VGC_CTL_FAULT = 3,
    VGC_CTL_LOAD = 4,
    VGC_CTL_FIRMWARE = 5,
    VGC_CTL_SNAPSHOT = 6,
};

/* What happens when a link is full. */
enum vgc_ctl_policy {
    VGC_CTL_DROP_NEW = 0,
    VGC_CTL_OVERWRITE_OLDEST = 1,
    VGC_CTL_WAIT = 2, /* until there is room or the deadline, then as DROP_NEW; standard input waits the same way */
};

/* What a record says; of the function in front. FORMAT: address of the format, then 8 bytes per argument. */
enum vgc_ctl_type {
    VGC_CTL_STDIO_TEXT = 1,       /* bytes that were printed */
    VGC_CTL_STDIO_FORMAT = 2,     /* vgc_printf */
    VGC_CTL_STDIO_WANTS = 3,      /* a kernel waits for input: u64 bytes wanted */
    VGC_CTL_STDIO_TOOK = 4,       /* bytes that a kernel was given */
    VGC_CTL_PERF_BLOCK_BEGIN = 1, /* u64 kernel (host's key, see vgc_ctl_pe), launch, threads */
    VGC_CTL_PERF_BLOCK_END = 2,   /* u64 kernel, launch, duration_ns */
    VGC_CTL_PERF_EVENT = 3,       /* u64 name address, i64 value */
    VGC_CTL_PERF_GAUGE = 4,       /* u64 name address, f64 value, f64 threshold crossed (only when one is) */
    VGC_CTL_PERF_SAMPLE = 5,      /* made by the host from vgc_ctl_pe: u64 blocks, warps, busy_ns, stall_ns */
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
    VGC_CTL_WARNING = 3, /* perf: and events and gauges */
    VGC_CTL_INFO = 4,    /* the usual one; perf: and blocks' begin and end */
    VGC_CTL_DEBUG = 5,
};

enum vgc_ctl_fault {
    VGC_CTL_FAULT_KERNEL = 1, /* the code did what it must not: address, instruction */
    VGC_CTL_FAULT_ASSERT = 2,
    VGC_CTL_FAULT_TRAP = 3,
    VGC_CTL_FAULT_DEADLINE = 4,
    VGC_CTL_FAULT_HUNG = 5,     /* by snapshots: no progress */
    VGC_CTL_FAULT_DEVICE = 6,   /* an error of the device itself: Xid */
    VGC_CTL_FAULT_DEADLOCK = 7, /* threads of a block wait for each other */
    VGC_CTL_FAULT_USER = 256,   /* and above: vgc_fault(code - 256) */
};

enum vgc_ctl_firmware_state {
    VGC_CTL_FW_STAGED = 1,
    VGC_CTL_FW_ACTIVE = 2,      /* activated at a poll point and healthy */
    VGC_CTL_FW_ROLLED_BACK = 3, /* the health check failed with `code`: the other slot is active again */
};

/* One slot of a link. Payload first, `commit` last (release): a slot at position p is there when commit == p + 1.
 * Records of more than VGC_CTL_FIRST_PAYLOAD bytes go on in the following slots (struct vgc_ctl_more), whose commit
 * is p + 1 with the top bit set (link.h: VGC_CTL_MORE) and which are written before the first one's commit. */
struct vgc_ctl_record {
    uint64_t commit;
    uint64_t time_ns;       /* of the device; CPU engine: CLOCK_MONOTONIC */
    uint8_t function_level; /* function << 4 | level */
    uint8_t type;
    uint16_t length; /* bytes of payload, of all slots together */
    uint16_t pe;
    uint16_t warp;
    uint32_t block;    /* linear index in its grid, low 32 bits */
    uint32_t sequence; /* records made for this channel before it, lost ones too (low 32 bits): gaps are losses */
    uint8_t payload[32];
};

struct vgc_ctl_more {
    uint64_t commit;
    uint8_t payload[56];
};

struct vgc_ctl_counter {
    uint64_t name; /* device address of the text; 0: free */
    int64_t value;
};

struct vgc_ctl_gauge {
    uint64_t name;
    double value;
    double low; /* a record is made when the value leaves [low, high], and when it comes back */
    double high;
};

/* Bits of vgc_ctl_pe.attention: why a hook must look further than that one word. */
enum {
    VGC_CTL_ATTEND_BLOCKS = 1, /* perf, load or snapshot are bound: block begin and end count */
    VGC_CTL_ATTEND_FIRMWARE = 2,
    VGC_CTL_ATTEND_CONFINED = 4, /* take no further blocks */
};

/* One processing element: 1 KiB. */
struct vgc_ctl_pe {
    /* line 0, the host's: the binding table's row */
    uint64_t bind[8];
    /* line 1, the host's */
    uint32_t attention;       /* the one load of an unbound hook */
    uint32_t firmware_wanted; /* slot + 1 to activate at the next poll point; 0: none */
    uint64_t reserved1[7];
    /* line 2, the element's: readers and execution */
    uint64_t readers;  /* hooks of this element that hold a binding now: a released channel is freed when it was 0 */
    uint64_t kernel;   /* the host's key of the kernel that runs (CPU engine: address of its name), 0: none */
    uint64_t launch;   /* number of the launch */
    uint64_t block;    /* linear index */
    uint64_t since_ns; /* of the block, when blocks are attended; of the element's part in the launch otherwise */
    uint64_t last_record_ns;
    uint32_t warps;
    uint32_t firmware_slot;
    uint64_t firmware_version;
    /* line 3, the element's: counted while blocks are attended */
    uint64_t blocks;
    uint64_t warps_done;
    uint64_t busy_ns;
    uint64_t stall_ns; /* between blocks of one launch */
    uint64_t launches;
    uint64_t launches_seen;
    uint64_t faults;
    uint64_t ended_ns; /* of the last block, while blocks are attended */
    struct vgc_ctl_gauge gauges[8];
    struct vgc_ctl_counter counters[24];
    uint64_t snapshot_seen; /* generation of the snapshot binding that it has answered */
    /* what became of the last `firmware_wanted`, which the element clears when it has dealt with it */
    uint32_t firmware_state; /* enum vgc_ctl_firmware_state; 0: there was none */
    uint32_t firmware_tried; /* the slot */
    uint64_t firmware_code;
    uint64_t busy_since_ns; /* of an element that blocks share: since when it has had some */
    uint64_t reserved4[12];
};

/* One channel: 256 bytes. */
struct vgc_ctl_channel {
    /* lines 0 and 1, the host's; written before the channel is bound */
    uint32_t generation;
    uint16_t function;
    uint16_t pe;
    uint32_t policy;
    uint32_t slots;      /* of the out link, a power of two */
    uint64_t out;        /* device address of the out link; 0: none */
    uint64_t in;         /* device address of the in link (standard input); 0: none */
    uint32_t in_bytes;   /* of the in link, a power of two: it is a ring of bytes */
    uint32_t instance;   /* number of the function's instance in the CPU domain, for who reads a dump */
    uint64_t wait_ns;    /* WAIT and vgc_read: for how long at most */
    uint64_t in_head;    /* bytes that the host has put in */
    uint64_t in_eof;     /* 1: and there will be no more */
    uint64_t tail;       /* slots that the host has taken */
    uint64_t taken;      /* records in them; with out_offset what the daemon needs when the worker has died */
    uint64_t out_offset; /* of the out link in the area */
    uint64_t reserved1[5];
    /* lines 2 and 3, the elements' */
    uint64_t head;    /* slots claimed */
    uint64_t lost;    /* records that found no room */
    uint64_t skipped; /* records left out by sampling */
    uint64_t records; /* made, lost ones too */
    uint64_t cost_ns; /* of the records whose cost was measured */
    uint64_t cost_records;
    uint64_t in_tail;   /* bytes that kernels have taken */
    uint64_t execution; /* the execution module's own: nothing of it is kept anywhere else, so modules are re-entrant */
    uint64_t reserved2[8];
};

/* The area begins with this; offsets are from its first byte, multiples of 64 and known before anybody maps it: written
 * by the host before control_attach(), which refuses what does not fit. */
struct vgc_ctl_area {
    uint32_t magic;
    uint32_t version;
    uint32_t num_pes;
    uint32_t num_channels;
    uint64_t size;
    uint64_t pes;      /* struct vgc_ctl_pe[num_pes] */
    uint64_t channels; /* struct vgc_ctl_channel[num_channels] */
    uint64_t links;    /* the rest */
    int64_t clock_ns;  /* what to add to elements' times to have CLOCK_MONOTONIC; known once it is attached */
    uint64_t reserved;
};

#endif
