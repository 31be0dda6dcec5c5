/* A hostile driver, and a daemon that does anything in any order, against the whole data plane.
 *
 * The input is a list of commands: requests (well framed, with ids and addresses that earlier ones returned, or with
 * anything), pokes into guest memory, rounds of the data plane, stops, restarts, memory tables, answers of the control
 * thread. Promises, besides those that checking_engine.c watches over: what is popped is returned exactly once, also
 * in the books that survive a worker; quotas add up; nothing is left at the end.
 */
#include <stdlib.h>

#include "checking_engine.h"
#include "input.h"
#include "internal.h"
#include "reuse.h"

#pragma clang attribute push(__attribute__((no_sanitize("coverage"))),                                                 \
                             apply_to = function) /* of the data plane alone */

enum {
    QUEUES = 2,
    NUM = 32,        /* descriptors of a queue */
    SLOTS = NUM / 4, /* a request's slot has 4 descriptors */
    REGION = REUSE_REGION_BYTES,
    AVAIL = 0x400,
    USED = 0x800,
    TABLES = 0x1000,
    QUEUE_BYTES = 0x2000,
    BUFFERS = QUEUES * QUEUE_BYTES,
    BUFFER_BYTES = 0x400, /* of a slot: readable half, writable half */
    HALF = BUFFER_BYTES / 2,
    MAX_PROGRAMS = 64,
    RECENT = 4,
    FIRST_ALLOC = 4096,
    DRAIN_ROUNDS = 100000,
    SEND_GRAPH = 14,
    SEND_SHARING = 15,
};
_Static_assert(BUFFERS + QUEUES * SLOTS * BUFFER_BYTES == REGION, "rings, then buffers");
static const uint64_t GPA = 0x40000000, UVA = 0x7f0000000000;

/* Kinds of results of requests. */
enum result { CONTEXT, PROGRAM, FUNCTION, EVENT, ADDRESS, GRAPH, KEY, KEY_END, RESULTS };

struct state {
    struct vgc_dp *dp;
    struct checking_engine engine;
    uint8_t *region;
    struct vgc_inflight *inflight; /* what survives a worker */
    bool event_idx, indirect;
    uint16_t seen_used[QUEUES];
    uint64_t recent[RESULTS][RECENT]; /* newest first */
    struct {
        uint32_t id, context;
    } programs[MAX_PROGRAMS];
    uint32_t num_programs;
};

static char why[VGC_DP_WHY];

/* ---- guest memory --------------------------------------------------------------------------------------------- */

static void write16(struct state *state, uint32_t offset, uint16_t value)
{
    memcpy(state->region + offset % (REGION - 1), &value, sizeof(value));
}

static uint16_t read16(const struct state *state, uint32_t offset)
{
    uint16_t value;
    memcpy(&value, state->region + offset, sizeof(value));
    return value;
}

static uint32_t buffer_of(uint32_t queue, uint32_t slot)
{
    return BUFFERS + (queue * SLOTS + slot) * BUFFER_BYTES;
}

static void publish(struct state *state, uint32_t queue, uint16_t head)
{
    uint32_t avail = queue * QUEUE_BYTES + AVAIL;
    uint16_t idx = read16(state, avail + 2);
    write16(state, avail + 4 + 2u * (idx % NUM), head);
    write16(state, avail + 2, (uint16_t)(idx + 1));
}

/* One readable buffer, cut in two if asked, and one writable; direct or in a table. */
static void frame(struct state *state, uint32_t queue, uint32_t slot, uint32_t readable, uint32_t cut,
                  uint32_t writable)
{
    uint64_t at = GPA + buffer_of(queue, slot);
    bool in_table = state->indirect && slot % 2;
    uint16_t base = in_table ? 0 : (uint16_t)(slot * 4);
    struct vgc_desc descs[3];
    uint32_t count = 0;
    cut = cut < readable ? cut : 0;
    if (cut > 0)
        descs[count++] = (struct vgc_desc){at, cut, 0, 0};
    descs[count++] = (struct vgc_desc){at + cut, readable - cut, 0, 0};
    if (writable > 0)
        descs[count++] = (struct vgc_desc){at + HALF, writable, VGC_DESC_F_WRITE, 0};
    for (uint32_t i = 0; i + 1 < count; i++) {
        descs[i].flags |= VGC_DESC_F_NEXT;
        descs[i].next = (uint16_t)(base + i + 1);
    }
    uint32_t where = queue * QUEUE_BYTES + (in_table ? TABLES + slot * 64 : slot * 64);
    memcpy(state->region + where, descs, count * sizeof(descs[0]));
    if (in_table) {
        struct vgc_desc head = {GPA + where, count * (uint32_t)sizeof(descs[0]), VGC_DESC_F_INDIRECT, 0};
        memcpy(state->region + queue * QUEUE_BYTES + slot * 64, &head, sizeof(head));
    }
    publish(state, queue, (uint16_t)(slot * 4));
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

static void remember(struct state *state, enum result kind, uint64_t value)
{
    uint64_t *recent = state->recent[kind];
    memmove(recent + 1, recent, (RECENT - 1) * sizeof(*recent));
    recent[0] = value;
}

/* Mostly the newest of its kind. */
static uint64_t take_recent(const struct state *state, struct input *input, enum result kind)
{
    uint8_t choice = take8(input);
    return state->recent[kind][choice < 0xc0 ? 0 : choice % RECENT];
}

/* Eight bytes of a body, of a kind that the input chooses. */
static uint64_t take_word(const struct state *state, struct input *input)
{
    uint8_t choice = take8(input);
    switch (choice % 8) {
    case 0:
        return choice >> 4;
    case 1: /* two small numbers, as in the geometry of a launch */
        return (choice >> 4 & 3) | (uint64_t)(choice >> 6) << 32;
    case 2:
        return take_recent(state, input, ADDRESS) + (choice >> 4) * 8u;
    case 3:
        return (uint32_t)take_recent(state, input, PROGRAM);
    case 4:
        return (uint32_t)take_recent(state, input, FUNCTION) | (uint64_t)(choice >> 4) << 32;
    case 5:
        return (uint32_t)take_recent(state, input, EVENT);
    case 6:
        return take8(input);
    default:
        return take64(input);
    }
}

static uint32_t body_bytes(uint16_t opcode)
{
    switch (opcode) {
    case VGC_OP_QUERY:
    case VGC_OP_PROGRAM_UNLOAD:
    case VGC_OP_FUNCTION_LOOKUP:
    case VGC_OP_GLOBAL_LOOKUP:
    case VGC_OP_ALLOC:
    case VGC_OP_FREE:
    case VGC_OP_EVENT_DESTROY:
    case VGC_OP_EVENT_RECORD:
    case VGC_OP_EVENT_WAIT:
    case VGC_OP_EVENT_QUERY:
    case VGC_OP_EVENT_SYNC:
    case VGC_OP_EVENT_EXPORT:
    case VGC_OP_MEMORY_EXPORT:
    case VGC_OP_MEMORY_CLOSE:
        return 8;
    case VGC_OP_EVENT_OPEN:
    case VGC_OP_MEMORY_OPEN:
        return sizeof(struct vgc_body_key);
    case VGC_OP_PROGRAM_LOAD:
        return sizeof(struct vgc_body_program_load);
    case VGC_OP_COPY_IN:
    case VGC_OP_COPY_OUT:
    case VGC_OP_COPY_DEVICE:
        return sizeof(struct vgc_body_copy);
    case VGC_OP_FILL:
        return sizeof(struct vgc_body_fill);
    case VGC_OP_LAUNCH:
        return sizeof(struct vgc_body_launch);
    case VGC_OP_CALL:
        return sizeof(struct vgc_body_call);
    case VGC_OP_ARRAY_CREATE:
        return sizeof(struct vgc_body_array_create);
    case VGC_OP_ARRAY_DESTROY:
        return sizeof(struct vgc_body_array);
    case VGC_OP_COPY_BOX:
        return sizeof(struct vgc_body_copy_box);
    case VGC_OP_TEXTURE_CREATE:
        return sizeof(struct vgc_body_texture_create);
    case VGC_OP_SURFACE_CREATE:
        return sizeof(struct vgc_body_surface_create);
    case VGC_OP_OBJECT_DESTROY:
        return sizeof(struct vgc_body_object);
    case VGC_OP_GRAPH_CREATE:
    case VGC_OP_GRAPH_UPDATE:
        return sizeof(struct vgc_body_graph_nodes);
    case VGC_OP_GRAPH_LAUNCH:
    case VGC_OP_GRAPH_DESTROY:
        return sizeof(struct vgc_body_graph);
    case VGC_OP_MARKS:
        return sizeof(struct vgc_body_marks);
    default:
        return 0;
    }
}

static const uint16_t OPCODES[] = {
    VGC_OP_NOP,          VGC_OP_QUERY,          VGC_OP_CONTEXT_CREATE,  VGC_OP_CONTEXT_DESTROY,
    VGC_OP_PROGRAM_LOAD, VGC_OP_PROGRAM_UNLOAD, VGC_OP_FUNCTION_LOOKUP, VGC_OP_GLOBAL_LOOKUP,
    VGC_OP_ALLOC,        VGC_OP_FREE,           VGC_OP_COPY_IN,         VGC_OP_COPY_OUT,
    VGC_OP_COPY_DEVICE,  VGC_OP_FILL,           VGC_OP_LAUNCH,          VGC_OP_CALL,
    VGC_OP_EVENT_CREATE, VGC_OP_EVENT_DESTROY,  VGC_OP_EVENT_RECORD,    VGC_OP_EVENT_WAIT,
};

/* Apart from the others, so that older inputs of the corpus keep their meaning. */
static const uint16_t TEXTURE_OPCODES[] = {
    VGC_OP_ARRAY_CREATE,   VGC_OP_ARRAY_DESTROY,  VGC_OP_COPY_BOX,
    VGC_OP_TEXTURE_CREATE, VGC_OP_SURFACE_CREATE, VGC_OP_OBJECT_DESTROY,
};

static uint16_t take_opcode(struct input *input)
{
    uint8_t choice = take8(input);
    size_t count = sizeof(OPCODES) / sizeof(OPCODES[0]);
    if (choice >= 0xf0 && choice < 0xfc)
        return TEXTURE_OPCODES[choice % 6];
    return choice < 0xf0 ? OPCODES[choice % count] : take16(input);
}

/* A slot that is not in flight, if there is one. */
static uint32_t free_slot(const struct state *state, uint32_t queue)
{
    const struct vgc_vq_device *vq = &state->dp->queues[queue].vq;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (!(vq->inflight[0] >> (slot * 4) & 1))
            return slot;
    return 0;
}

static void send_request(struct state *state, struct input *input)
{
    uint8_t shape = take8(input);
    uint32_t queue = shape & 1;
    uint32_t slot = free_slot(state, queue);
    uint8_t *at = state->region + buffer_of(queue, slot);
    struct vgc_request request = {.opcode = take_opcode(input)};
    if (request.opcode != VGC_OP_CONTEXT_CREATE)
        request.context = (uint32_t)take_recent(state, input, CONTEXT);
    request.stream = shape >> 1 & 3;
    memcpy(at, &request, sizeof(request));
    uint32_t size = sizeof(request);
    if (request.opcode == VGC_OP_CONTEXT_CREATE) {
        uint64_t fingerprint = VGC_WIRE_FINGERPRINT ^ shape >> 7;
        memcpy(at + size, &fingerprint, sizeof(fingerprint));
        size += (uint32_t)sizeof(fingerprint);
    }
    for (uint32_t i = 0; i < body_bytes(request.opcode); i += 8, size += 8) {
        uint64_t word = take_word(state, input);
        memcpy(at + size, &word, sizeof(word));
    }
    if (request.opcode == VGC_OP_ARRAY_CREATE && !(shape & 128)) { /* a format that exists */
        uint32_t format[3] = {VGC_CHANNEL_KIND_FLOAT, 32, 1};
        memcpy(at + sizeof(request) + offsetof(struct vgc_body_array_create, kind), format, sizeof(format));
    }
    uint32_t trailing = shape & 8 ? take8(input) : 0;
    take_bytes(input, at + size, trailing);
    size += trailing;
    uint32_t writable = shape & 16 ? take8(input) : shape & 32 ? HALF : sizeof(struct vgc_response);
    frame(state, queue, slot, size, shape & 64 ? take8(input) : 0, writable);
}

/* Addresses at both ends of an allocation. */
static uint64_t take_edge(const struct state *state, struct input *input)
{
    uint8_t choice = take8(input);
    uint64_t offset = choice & 1 ? FIRST_ALLOC - (choice >> 1) : choice >> 1;
    return take_recent(state, input, ADDRESS) + offset;
}

/* COPY or FILL, right in every number but perhaps its range. */
static void send_copy(struct state *state, struct input *input)
{
    static const uint16_t opcodes[] = {VGC_OP_COPY_IN, VGC_OP_COPY_OUT, VGC_OP_COPY_DEVICE, VGC_OP_FILL};
    uint8_t shape = take8(input);
    uint32_t queue = shape & 1;
    uint32_t slot = free_slot(state, queue);
    uint8_t *at = state->region + buffer_of(queue, slot);
    uint16_t opcode = opcodes[shape >> 1 & 3];
    uint32_t size = take8(input), readable = sizeof(struct vgc_request), writable = sizeof(struct vgc_response);
    struct vgc_request request = {.opcode = opcode, .context = (uint32_t)take_recent(state, input, CONTEXT)};
    memcpy(at, &request, sizeof(request));
    if (opcode == VGC_OP_FILL) {
        struct vgc_body_fill fill = {.dst = take_edge(state, input), .size = size, .unit = 1};
        memcpy(at + readable, &fill, sizeof(fill));
        readable += sizeof(fill);
    } else {
        struct vgc_body_copy copy = {.size = size};
        copy.dst = opcode != VGC_OP_COPY_OUT ? take_edge(state, input) : 0;
        copy.src = opcode != VGC_OP_COPY_IN ? take_edge(state, input) : 0;
        memcpy(at + readable, &copy, sizeof(copy));
        readable += (uint32_t)sizeof(copy) + (opcode == VGC_OP_COPY_IN ? size : 0);
        writable += opcode == VGC_OP_COPY_OUT ? size : 0;
    }
    frame(state, queue, slot, readable, shape & 64 ? take8(input) : 0, writable);
}

/* A CALL of "k" with buffers, right in every number: the fuzzer would not soon find one by itself. */
static void send_call(struct state *state, struct input *input)
{
    uint8_t shape = take8(input);
    uint32_t queue = shape & 1;
    uint32_t slot = free_slot(state, queue);
    uint8_t *at = state->region + buffer_of(queue, slot);
    uint32_t in = take8(input) % 64, out = take8(input) % 64;
    struct {
        struct vgc_request request;
        struct vgc_body_call body;
        char name[1];
        uint8_t rest[3 * sizeof(struct vgc_call_arg) + 4 + 64];
    } __attribute__((packed)) call = {
        .request = {.opcode = VGC_OP_CALL,
                    .context = (uint32_t)take_recent(state, input, CONTEXT),
                    .stream = shape >> 1 & 3},
        .body = {.grid = {1, 1, 1}, .block = {take8(input), 1, 1}, .name_len = 1, .num_args = 3, .value_len = 4},
        .name = {'k'},
    };
    uint32_t kind = shape & 8 ? VGC_ARG_KIND_INOUT : VGC_ARG_KIND_OUT;
    struct vgc_call_arg args[3] = {
        {.kind = VGC_ARG_KIND_IN, .size = in}, {.kind = VGC_ARG_KIND_VALUE, .size = 4}, {.kind = kind, .size = out}};
    uint32_t payload = in + (shape & 8 ? out : 0);
    payload = payload < 64 ? payload : 64;
    memcpy(call.rest, args, sizeof(args));
    memcpy(at, &call, sizeof(call));
    frame(state, queue, slot, (uint32_t)(sizeof(call) - 64 + payload), shape & 64 ? take8(input) : 0,
          (uint32_t)sizeof(struct vgc_response) + out);
}

static uint32_t put_bytes(uint8_t *at, uint32_t size, const void *bytes, size_t len)
{
    memcpy(at + size, bytes, len);
    return size + (uint32_t)len;
}

/* A node at `at`, right in every number but perhaps its ranges and its dependency; returns its size. */
static uint32_t put_node(const struct state *state, struct input *input, uint8_t *at)
{
    static const uint16_t opcodes[] = {VGC_OP_NOP, VGC_OP_COPY_DEVICE, VGC_OP_FILL, VGC_OP_LAUNCH};
    uint8_t shape = take8(input);
    struct vgc_graph_node head = {opcodes[shape & 3], shape >> 7};
    uint32_t dep = shape >> 4 & 3;
    uint32_t size = put_bytes(at, 0, &head, sizeof(head));
    if (head.num_deps > 0)
        size = put_bytes(at, size, &dep, sizeof(dep));
    if (head.opcode == VGC_OP_COPY_DEVICE) {
        struct vgc_body_copy copy = {take_edge(state, input), take_edge(state, input), shape >> 2 & 3};
        size = put_bytes(at, size, &copy, sizeof(copy));
    } else if (head.opcode == VGC_OP_FILL) {
        struct vgc_body_fill fill = {.dst = take_edge(state, input), .size = shape >> 2 & 3, .unit = 1};
        size = put_bytes(at, size, &fill, sizeof(fill));
    } else if (head.opcode == VGC_OP_LAUNCH) {
        struct vgc_body_launch launch = {.function = (uint32_t)take_recent(state, input, FUNCTION),
                                         .grid = {1, 1, 1},
                                         .block = {1 + (shape >> 2 & 3), 1, 1},
                                         .param_len = CHECKING_KERNELS[0].param_bytes};
        static const uint8_t params[64];
        size = put_bytes(at, size, &launch, sizeof(launch));
        size = put_bytes(at, size, params, launch.param_len);
    }
    return size;
}

/* GRAPH_*, mostly right, of up to four nodes. */
static void send_graph(struct state *state, struct input *input)
{
    static const uint16_t opcodes[] = {VGC_OP_GRAPH_CREATE, VGC_OP_GRAPH_UPDATE, VGC_OP_GRAPH_LAUNCH,
                                       VGC_OP_GRAPH_LAUNCH, VGC_OP_GRAPH_CREATE, VGC_OP_GRAPH_DESTROY,
                                       VGC_OP_GRAPH_LAUNCH, VGC_OP_GRAPH_UPDATE};
    uint8_t shape = take8(input);
    uint32_t queue = shape & 1;
    uint32_t slot = free_slot(state, queue);
    uint8_t *at = state->region + buffer_of(queue, slot);
    struct vgc_request request = {.opcode = opcodes[shape >> 1 & 7],
                                  .context = (uint32_t)take_recent(state, input, CONTEXT),
                                  .stream = shape >> 4 & 3};
    uint32_t graph = request.opcode == VGC_OP_GRAPH_CREATE ? 0 : (uint32_t)take_recent(state, input, GRAPH);
    uint32_t size = put_bytes(at, 0, &request, sizeof(request));
    if (body_bytes(request.opcode) == sizeof(struct vgc_body_graph)) {
        struct vgc_body_graph body = {graph, 0};
        size = put_bytes(at, size, &body, sizeof(body));
    } else {
        uint32_t begin = size + (uint32_t)sizeof(struct vgc_body_graph_nodes), end = begin;
        uint32_t count = 1 + take8(input) % 4;
        for (uint32_t i = 0; i < count; i++)
            end += put_node(state, input, at + end);
        struct vgc_body_graph_nodes body = {graph, count, end - begin, 0};
        put_bytes(at, size, &body, sizeof(body));
        size = end;
        if (shape & 64)
            at[sizeof(request) + take16(input) % (size - sizeof(request))] ^= take8(input);
    }
    frame(state, queue, slot, size, shape & 128 ? take8(input) : 0, HALF);
}

/* Requests for sharing memory and events, mostly right, from either of the latest contexts. */
static void send_sharing(struct state *state, struct input *input)
{
    static const uint16_t opcodes[] = {VGC_OP_MEMORY_EXPORT, VGC_OP_MEMORY_OPEN,  VGC_OP_MEMORY_CLOSE,
                                       VGC_OP_FREE,          VGC_OP_EVENT_EXPORT, VGC_OP_EVENT_OPEN,
                                       VGC_OP_EVENT_SYNC,    VGC_OP_EVENT_RECORD};
    uint8_t shape = take8(input);
    uint32_t queue = shape & 1;
    uint32_t slot = free_slot(state, queue);
    uint8_t *at = state->region + buffer_of(queue, slot);
    struct vgc_request request = {.opcode = opcodes[shape >> 1 & 7],
                                  .context = (uint32_t)state->recent[CONTEXT][shape >> 4 & 1],
                                  .stream = shape >> 5 & 3};
    uint32_t size = put_bytes(at, 0, &request, sizeof(request));
    uint8_t which = take8(input) % RECENT;
    if (body_bytes(request.opcode) == sizeof(struct vgc_body_key)) {
        struct vgc_body_key body = {{state->recent[KEY][which], state->recent[KEY_END][which]}};
        size = put_bytes(at, size, &body, sizeof(body));
    } else {
        bool is_event = request.opcode >= VGC_OP_EVENT_CREATE;
        uint64_t body = is_event ? (uint32_t)state->recent[EVENT][which] : state->recent[ADDRESS][which];
        size = put_bytes(at, size, &body, sizeof(body));
    }
    frame(state, queue, slot, size, 0, HALF);
}

/* ---- the data plane's side ------------------------------------------------------------------------------------ */

static uint64_t popcount(const uint64_t *words)
{
    uint64_t count = 0;
    for (int i = 0; i < VGC_INFLIGHT_WORDS; i++)
        count += (uint64_t)__builtin_popcountll(words[i]);
    return count;
}

/* Bytes charged for the nodes of graphs and of launches, each plan once. */
static uint64_t plan_bytes(const struct vgc_dp *dp)
{
    const struct vgc_plan *seen[16] = {0};
    uint64_t total = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < VGC_MAX_GRAPHS; i++)
        if (dp->graphs[i].id != 0)
            total += dp->graphs[i].plan->charged;
    for (uint32_t i = 0; i <= dp->config.queue_depth; i++) {
        const struct vgc_plan *plan = dp->reqs[i].plan;
        bool is_new = plan != NULL;
        for (uint32_t k = 0; k < VGC_MAX_GRAPHS && is_new; k++)
            is_new = dp->graphs[k].id == 0 || dp->graphs[k].plan != plan;
        for (uint32_t k = 0; k < count && is_new; k++)
            is_new = seen[k] != plan;
        if (!is_new)
            continue;
        PROMISE(count < 16);
        seen[count++] = plan;
        total += plan->charged;
    }
    return total;
}

static void check_books(const struct state *state)
{
    const struct vgc_dp *dp = state->dp;
    uint64_t in_flight = 0;
    for (uint32_t i = 0; i < QUEUES; i++) {
        const struct vgc_queue *queue = &dp->queues[i];
        PROMISE(queue->in_flight == popcount(queue->vq.inflight));
        PROMISE(memcmp(queue->vq.inflight, queue->shared->heads, sizeof(queue->vq.inflight)) == 0);
        in_flight += queue->in_flight;
    }
    PROMISE(dp->in_flight == in_flight);
    uint64_t for_plans = plan_bytes(dp);
    PROMISE(dp->plan_bytes == for_plans);
    PROMISE(dp->memory_used == checking_engine_charged(&state->engine) + for_plans);
    PROMISE(dp->memory_used <= dp->config.memory_bytes);
}

/* Remembers what requests returned. */
static void look_at_used(struct state *state)
{
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        uint16_t until = state->dp->queues[queue].vq.used_idx;
        for (; state->seen_used[queue] != until; state->seen_used[queue]++) {
            uint32_t entry = queue * QUEUE_BYTES + USED + 4 + 8u * (state->seen_used[queue] % NUM);
            uint32_t slot = read16(state, entry) / 4u % SLOTS;
            uint16_t opcode = read16(state, buffer_of(queue, slot));
            struct vgc_response response;
            memcpy(&response, state->region + buffer_of(queue, slot) + HALF, sizeof(response));
            if (opcode == VGC_OP_CONTEXT_CREATE)
                remember(state, CONTEXT, response.value);
            if (opcode == VGC_OP_MEMORY_EXPORT || opcode == VGC_OP_EVENT_EXPORT) {
                remember(state, KEY, response.value);
                remember(state, KEY_END, response.aux);
            } else if (opcode == VGC_OP_EVENT_CREATE || opcode == VGC_OP_EVENT_OPEN || opcode == VGC_OP_ARRAY_CREATE)
                remember(state, EVENT, response.value); /* ids of either are of one form */
            else if (opcode == VGC_OP_GRAPH_CREATE)
                remember(state, GRAPH, response.value);
            else if (opcode == VGC_OP_ALLOC || opcode == VGC_OP_TEXTURE_CREATE || opcode == VGC_OP_SURFACE_CREATE)
                remember(state, ADDRESS, response.value);
        }
    }
}

/* Does one round of vgc_dp_run(). */
static bool work(struct state *state)
{
    struct vgc_dp *dp = state->dp;
    bool busy = vgc_reap(dp);
    for (uint32_t i = 0; i < dp->num_active; i++)
        busy |= vgc_queue_serve(dp, dp->active[i]);
    busy |= dp->engine->ops->poll(dp->engine);
    look_at_used(state);
    return busy;
}

static void load_program(struct state *state, const struct vgc_cold *cold)
{
    struct vgc_dp *dp = state->dp;
    int id = state->num_programs < MAX_PROGRAMS ? vgc_dp_program_add(dp, cold->engine_context, 0) : -ENOSPC;
    if (id < 0) {
        vgc_dp_cold_complete(dp, cold->token, VGC_STATUS_RESOURCES_EXHAUSTED, 0, 0, 0, "too many programs");
        return;
    }
    int function = vgc_dp_function_add(dp, (uint32_t)id, &CHECKING_KERNELS[0], "_Z1k", "k");
    PROMISE(function > 0 && vgc_dp_function_add(dp, (uint32_t)id, &CHECKING_KERNELS[1], "nop", "nop") > 0);
    if (vgc_dp_global_add(dp, (uint32_t)id, CHECKING_GLOBAL, CHECKING_GLOBAL_BYTES) < 0) {
        PROMISE(dp->num_allocs == VGC_MAX_ALLOCATIONS);
        PROMISE(vgc_dp_program_remove(dp, (uint32_t)id) == 0);
        vgc_dp_cold_complete(dp, cold->token, VGC_STATUS_RESOURCES_EXHAUSTED, 0, 0, 0, "too many allocations");
        return;
    }
    state->programs[state->num_programs].id = (uint32_t)id;
    state->programs[state->num_programs++].context = cold->engine_context;
    PROMISE(vgc_dp_program_publish(dp) == 0);
    remember(state, PROGRAM, (uint32_t)id);
    remember(state, FUNCTION, (uint32_t)function);
    uint32_t len = cold->writable_len < 64 ? (uint32_t)cold->writable_len : 64;
    uint8_t table[64] = {0};
    PROMISE(vgc_dp_cold_write(dp, cold->token, 0, table, len) == 0);
    PROMISE(vgc_dp_cold_complete(dp, cold->token, VGC_STATUS_OK, (uint32_t)id, 0, len, NULL) == 0);
}

/* Unloads program `id`, or all of a context. */
static void unload(struct state *state, uint32_t id, uint32_t context)
{
    for (uint32_t i = state->num_programs; i-- > 0;) {
        if (state->programs[i].id != id && state->programs[i].context != context)
            continue;
        PROMISE(vgc_dp_program_remove(state->dp, state->programs[i].id) == 0);
        state->programs[i] = state->programs[--state->num_programs];
    }
}

/* Serves cold requests like the worker's main thread. */
static bool serve_cold(struct state *state)
{
    struct vgc_dp *dp = state->dp;
    struct vgc_cold cold;
    uint8_t bytes[REGION / 64];
    if (vgc_dp_cold_take(dp, &cold) == 0)
        return false;
    uint64_t len = cold.readable_len < sizeof(bytes) ? cold.readable_len : sizeof(bytes);
    PROMISE(vgc_dp_cold_read(dp, cold.token, cold.readable_len - len, bytes, len) == 0);
    PROMISE(vgc_dp_cold_read(dp, cold.token, cold.readable_len, bytes, 1) == -ERANGE);
    PROMISE(vgc_dp_cold_write(dp, cold.token, cold.writable_len, bytes, 1) == -ERANGE);
    switch (cold.opcode) {
    case VGC_OP_PROGRAM_LOAD:
        load_program(state, &cold);
        break;
    case VGC_OP_PROGRAM_UNLOAD: {
        struct vgc_body_program_unload body;
        memcpy(&body, cold.body, sizeof(body));
        unload(state, body.program, 0);
        PROMISE(vgc_dp_cold_complete(dp, cold.token, VGC_STATUS_OK, 0, 0, 0, NULL) == 0);
        break;
    }
    case VGC_OP_CONTEXT_DESTROY:
        PROMISE(cold.engine_context != 0);
        unload(state, 0, cold.engine_context);
        PROMISE(vgc_dp_context_free(dp, cold.engine_context) == 0);
        PROMISE(vgc_dp_cold_complete(dp, cold.token, VGC_STATUS_OK, 0, 0, 0, NULL) == 0);
        break;
    default:
        PROMISE(vgc_dp_cold_complete(dp, cold.token, VGC_STATUS_NOT_FOUND, 0, 0, 0, "no such name") == 0);
        break;
    }
    PROMISE(vgc_dp_cold_complete(dp, cold.token, VGC_STATUS_OK, 0, 0, 0, NULL) == -ENOENT);
    look_at_used(state);
    return true;
}

/* ---- the daemon's side ------------------------------------------------------------------------------------------ */

static void spawn(struct state *state)
{
    struct vgc_dp_config config = {.engine = &state->engine.base,
                                   .inflight_fd = REUSE_INFLIGHT_FD,
                                   .num_queues = QUEUES,
                                   .queue_depth = 8,
                                   .memory_bytes = 1 << 20,
                                   .deadline_ns = UINT64_MAX / 2,
                                   .max_contexts = 4,
                                   .max_streams = 4};
    state->dp = vgc_dp_create(&config, why);
    PROMISE(state->dp != NULL);
}

static int set_memory(struct state *state, uint32_t count)
{
    struct vgc_dp_region region = {.gpa = GPA, .uva = UVA, .size = REGION, .fd = REUSE_REGION_FD};
    return vgc_dp_set_memory(state->dp, &region, count, why);
}

static int start_queue(struct state *state, uint32_t index, uint16_t base, bool recover)
{
    uint64_t at = UVA + index * QUEUE_BYTES;
    struct vgc_dp_ring ring = {.size = NUM,
                               .base = base,
                               .desc_uva = at,
                               .avail_uva = at + AVAIL,
                               .used_uva = at + USED,
                               .event_idx = state->event_idx,
                               .indirect = state->indirect,
                               .enabled = true,
                               .recover = recover,
                               .kick_fd = -1,
                               .call_fd = -1,
                               .err_fd = -1};
    int error = vgc_dp_queue_start(state->dp, index, &ring, why);
    if (error == 0)
        state->seen_used[index] = state->dp->queues[index].vq.used_idx;
    return error;
}

static void restart_queue(struct state *state, struct input *input)
{
    uint32_t index = take8(input) % QUEUES;
    int base = vgc_dp_queue_stop(state->dp, index);
    if (base >= 0 && take8(input) % 8 == 0)
        work(state); /* requests end while the ring is away */
    if (base >= 0)
        start_queue(state, index, (uint16_t)base, false);
    else if (state->dp->queues[index].in_flight == 0)
        start_queue(state, index, take16(input), false);
}

/* The worker dies and a new one takes over: guest memory and books stay as they are at this moment. A dead worker
 * may have been a hostile one: then its books hold anything. */
static void replace_worker(struct state *state, struct input *input)
{
    static uint8_t region[REGION];
    struct vgc_inflight books = *state->inflight;
    struct checking_engine fresh;
    uint64_t lost[QUEUES];
    uint8_t hostile = take8(input);
    memcpy(region, state->region, REGION);
    for (uint32_t i = 0; i < QUEUES; i++)
        lost[i] = state->dp->queues[i].in_flight;
    vgc_dp_destroy(state->dp);
    checking_engine_init(&fresh);
    fresh.late = state->engine.late;
    fresh.region_visible = state->engine.region_visible;
    state->engine = fresh;
    state->num_programs = 0;
    memcpy(state->region, region, REGION);
    if (hostile % 4 == 0)
        take_bytes(input, (uint8_t *)books.queues + hostile / 4 * 4, 4);
    *state->inflight = books;
    spawn(state);
    PROMISE(set_memory(state, 1) == 0);
    for (uint32_t i = 0; i < QUEUES; i++) {
        uint16_t used = read16(state, i * QUEUE_BYTES + USED + 2);
        if (start_queue(state, i, books.queues[i].last_avail, true) != 0)
            continue;
        uint16_t answered = (uint16_t)(state->dp->queues[i].vq.used_idx - used);
        PROMISE(hostile % 4 == 0 || used != books.queues[i].used_idx || answered == lost[i]);
        PROMISE(state->dp->queues[i].in_flight == 0);
    }
}

static void command(struct state *state, struct input *input)
{
    uint8_t choice = take8(input);
    /* older inputs of the corpus keep their meaning */
    switch (choice >= 0xfc ? SEND_GRAPH : choice == 0xfb ? SEND_SHARING : choice % 14) {
    case SEND_SHARING:
        send_sharing(state, input);
        break;
    case SEND_GRAPH:
        send_graph(state, input);
        break;
    case 0:
    case 1:
    case 2:
    case 3:
        send_request(state, input);
        break;
    case 4:
        send_call(state, input);
        break;
    case 5:
        work(state);
        break;
    case 6:
        work(state);
        while (serve_cold(state))
            ;
        break;
    case 7: {
        uint32_t offset = take32(input);
        write16(state, offset, take16(input));
        break;
    }
    case 8:
        restart_queue(state, input);
        break;
    case 9:
        set_memory(state, take8(input) % 2);
        break;
    case 10:
        state->engine.late = !state->engine.late;
        state->engine.fail_next = take8(input) % 4;
        break;
    case 12:
        send_copy(state, input);
        break;
    case 11:
        replace_worker(state, input);
        break;
    default: {
        uint32_t index;
        vgc_dp_queue_enable(state->dp, take8(input) % QUEUES, take8(input) % 4 != 0);
        while (vgc_dp_broken_take(state->dp, &index, why))
            PROMISE(index < QUEUES && why[0] != '\0');
        break;
    }
    }
    check_books(state);
}

/* ---- a whole life -------------------------------------------------------------------------------------------------
 */

static void send_plain(struct state *state, uint16_t opcode, const void *body, uint32_t size)
{
    struct vgc_request request = {.opcode = opcode, .context = (uint32_t)state->recent[CONTEXT][0]};
    uint32_t slot = free_slot(state, 0);
    uint8_t *at = state->region + buffer_of(0, slot);
    memcpy(at, &request, sizeof(request));
    if (size > 0)
        memcpy(at + sizeof(request), body, size);
    frame(state, 0, slot, (uint32_t)sizeof(request) + size, 0, sizeof(struct vgc_response));
    while (work(state) || serve_cold(state))
        ;
}

/* Requests that every application begins with, so that the fuzzer need not find them. */
static void warm_up(struct state *state)
{
    const struct vgc_body_context_create create = {VGC_WIRE_FINGERPRINT};
    send_plain(state, VGC_OP_CONTEXT_CREATE, &create, sizeof(create));
    send_plain(state, VGC_OP_PROGRAM_LOAD, &(struct vgc_body_program_load){0}, sizeof(struct vgc_body_program_load));
    send_plain(state, VGC_OP_ALLOC, &(struct vgc_body_alloc){FIRST_ALLOC}, sizeof(struct vgc_body_alloc));
    send_plain(state, VGC_OP_EVENT_CREATE, NULL, 0);
    PROMISE(state->recent[CONTEXT][0] && state->recent[FUNCTION][0] && state->recent[ADDRESS][0] &&
            state->recent[EVENT][0]);
}

static void begin(struct state *state, uint8_t config)
{
    state->event_idx = config & 1;
    state->indirect = config & 2;
    checking_engine_init(&state->engine);
    state->engine.late = config & 4;
    state->engine.region_visible = config & 8;
    reuse_begin();
    state->region = reuse_region();
    state->inflight = reuse_inflight();
    state->inflight->magic = VGC_INFLIGHT_MAGIC;
    state->inflight->version = VGC_INFLIGHT_VERSION;
    spawn(state);
    PROMISE(set_memory(state, 1) == 0);
    for (uint32_t i = 0; i < QUEUES; i++)
        PROMISE(start_queue(state, i, 0, false) == 0);
    if (config & 16)
        warm_up(state);
}

/* Whatever was begun comes to its end, and goes back to queues that can take it. */
static void drain(struct state *state)
{
    set_memory(state, 1);
    state->engine.late = false;
    for (uint32_t i = 0; i < QUEUES; i++)
        vgc_dp_queue_enable(state->dp, i, false); /* nothing new */
    bool busy = true;
    for (int round = 0; busy; round++) {
        PROMISE(round < DRAIN_ROUNDS);
        busy = work(state);
        while (serve_cold(state))
            busy = true;
    }
    check_books(state);
    for (uint32_t i = 0; i < QUEUES; i++)
        PROMISE(!vgc_queue_can_push(&state->dp->queues[i]) || state->dp->queues[i].in_flight == 0);
    PROMISE(state->dp->ops_queued == 0 && state->dp->launches == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct state state;
    struct input input = {data, size};
    state = (struct state){0};
    begin(&state, take8(&input));
    while (input.size > 0)
        command(&state, &input);
    drain(&state);
    vgc_dp_destroy(state.dp);
    PROMISE(state.engine.first == NULL && state.engine.num_allocs == 0);
    reuse_end();
    return 0;
}

#pragma clang attribute pop
