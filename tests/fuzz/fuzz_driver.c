/* A hostile device against libvgc: used rings, responses, payloads, and a configuration space that changes.
 *
 * The input says what a program asks of libvgc, and what the device does whenever it is kicked or has its turn: it
 * answers with any bytes, returns any head, writes anywhere in the region and in its configuration. Promises: no access
 * outside the region and the caller's memory (AddressSanitizer watches), a request ends once, slots and the count of
 * requests in flight add up, results are those that vgc.h names, and nothing is left at the end.
 */
#include <fcntl.h>
#include <stdlib.h>

#include "input.h"
#include "internal.h"

#pragma clang attribute push(__attribute__((no_sanitize("coverage"))), apply_to = function) /* of libvgc alone */

enum {
    REGION = 1 << 19,
    CLEARED = 0x30000, /* rings, and what a run can use of the heap, so that runs are independent */
    RING = 16,
    MAX_JOBS = 8,
    MAX_ACTS = 4,
    MAX_BYTES = 4096,
    STATE_FD = 1000000,
};
static const uint64_t GPA = UINT64_C(1) << 32;

static struct {
    struct vgc_transport transport;
    struct vgc_device device;
    struct vgc_state shared;
    struct vgc_config config; /* as the device shows it */
    struct input *input;
    uint16_t seen; /* the device's place in the avail ring */
    struct vgc_job *jobs[MAX_JOBS];
    struct vgc_program *program;
    struct vgc_event *event;
    uint64_t address;
} life;

/* ---- the device ------------------------------------------------------------------------------------------------- */

static uint8_t *at_gpa(uint64_t gpa, uint64_t len)
{
    uint64_t offset = gpa - GPA;
    return offset <= REGION && len <= REGION - offset ? life.transport.region + offset : NULL;
}

static void push_used(const struct vgc_ring *ring, uint32_t head, uint32_t len)
{
    uint16_t idx = ring->used[1];
    uint32_t entry[2] = {head, len};
    memcpy((uint8_t *)ring->used + 4 + idx % RING * sizeof(entry), entry, sizeof(entry));
    ring->used[1] = (uint16_t)(idx + 1);
}

/* Fills what the driver lets it write, in order, with bytes of the input; the number of bytes. */
static uint32_t fill_chain(const struct vgc_desc *table, uint32_t num, uint32_t at)
{
    uint32_t written = 0;
    bool is_status = true;
    for (uint32_t steps = 0; steps < num && at < num; steps++) {
        struct vgc_desc desc = table[at];
        uint32_t len = VGC_MIN(desc.len, (uint32_t)MAX_BYTES);
        uint8_t *memory = at_gpa(desc.addr, len);
        if ((desc.flags & VGC_DESC_F_WRITE) && memory != NULL) {
            take_bytes(life.input, memory, len);
            if (is_status && len >= 4 && memory[0] < 0xc0) /* most answers are those of success */
                memset(memory, 0, 4);
            is_status = false;
            written += desc.len;
        }
        if (!(desc.flags & VGC_DESC_F_NEXT))
            break;
        at = desc.next;
    }
    return written;
}

static void answer_one(const struct vgc_ring *ring)
{
    if (life.seen == ring->avail[1])
        return;
    uint16_t head = ring->avail[2 + life.seen++ % RING];
    if (head >= RING)
        return;
    struct vgc_desc desc = ring->desc[head];
    uint8_t lie = take8(life.input);
    uint32_t written = 0;
    if (!(desc.flags & VGC_DESC_F_INDIRECT))
        written = fill_chain(ring->desc, RING, head);
    else if (at_gpa(desc.addr, desc.len) != NULL && desc.addr % 16 == 0)
        written = fill_chain((const struct vgc_desc *)at_gpa(desc.addr, desc.len), desc.len / sizeof(desc), 0);
    push_used(ring, head, lie < 0xe0 ? written : take32(life.input));
}

static void write_config(void)
{
    uint32_t at = take16(life.input) % (sizeof(life.config) - 8);
    take_bytes(life.input, (uint8_t *)&life.config + at, 1 + take8(life.input) % 8);
}

static void act(void)
{
    struct vgc_ring ring = vgc_layout_ring(&life.device.layout, life.transport.region, 0);
    for (int i = 0; i < MAX_ACTS && life.input->size > 0; i++) {
        uint8_t what = take8(life.input);
        if (what < 0xa0) {
            answer_one(&ring);
            if (what < 0x80)
                return;
        } else if (what < 0xb0) {
            push_used(&ring, take8(life.input) % (RING + 2), take32(life.input));
        } else if (what < 0xb8) {
            ring.used[1] = take16(life.input);
        } else if (what < 0xd0) {
            take_bytes(life.input, life.transport.region + take32(life.input) % CLEARED, take8(life.input) % 32);
        } else if (what < 0xf0) {
            write_config();
        } else {
            return;
        }
    }
}

/* ---- the transport ---------------------------------------------------------------------------------------------- */

static int read_config(struct vgc_transport *transport, struct vgc_config *config)
{
    (void)transport;
    *config = life.config;
    return VGC_OK;
}

static uint32_t read_allotment(struct vgc_transport *transport)
{
    (void)transport;
    return life.config.allotment;
}

static void write_ack(struct vgc_transport *transport, uint32_t allotment)
{
    (void)transport;
    life.config.driver_ack = allotment;
}

static int attach(struct vgc_transport *transport, uint32_t queue)
{
    (void)transport;
    PROMISE(queue == 0);
    return VGC_OK;
}

static void on_queue(struct vgc_transport *transport, uint32_t queue)
{
    (void)transport;
    PROMISE(queue == 0);
}

static void kick(struct vgc_transport *transport, uint32_t queue)
{
    on_queue(transport, queue);
    act();
}

static void wait_for_call(struct vgc_transport *transport, uint32_t queue, uint64_t timeout_ns)
{
    (void)timeout_ns;
    on_queue(transport, queue);
    act();
}

static const struct vgc_transport_ops OPS = {
    .read_config = read_config,
    .read_allotment = read_allotment,
    .write_ack = write_ack,
    .attach = attach,
    .detach = on_queue,
    .kick = kick,
    .arm = on_queue,
    .wait = wait_for_call,
};

/* Locks of the state file: nobody else is there. */
int __wrap_fcntl(int fd, int command, void *lock);
int __wrap_fcntl(int fd, int command, void *lock)
{
    PROMISE(fd == STATE_FD && lock != NULL && (command == F_OFD_SETLK || command == F_OFD_GETLK));
    return 0;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static void check(int result)
{
    PROMISE(result >= VGC_OK && strcmp(vgc_result_name(result), vgc_result_name(-1)) != 0);
}

static void check_books(void)
{
    const struct vgc_queue *queue = life.device.shared_queue;
    uint32_t in_flight = 0;
    for (uint32_t slot = 0; slot < queue->num_slots; slot++) {
        in_flight += queue->slot_jobs[slot] != NULL;
        PROMISE(queue->slot_jobs[slot] == NULL || !atomic_load(&queue->slot_jobs[slot]->done));
    }
    PROMISE(in_flight + queue->num_free == queue->num_slots);
    PROMISE(atomic_load(&life.shared.in_flight) == in_flight);
    PROMISE(atomic_load(&life.shared.clients[0].in_flight) == in_flight);
    PROMISE(!queue->broken || in_flight == 0);
}

static void copy(struct input *input)
{
    uint64_t size = take16(input) % MAX_BYTES;
    uint8_t *memory = calloc(1, size + 1);
    PROMISE(memory != NULL);
    if (take8(input) % 2 == 0)
        check(vgc_copy_out(&life.device, memory, life.address, size, 0, NULL));
    else
        check(vgc_copy_in(&life.device, life.address, memory, size, 0, NULL));
    free(memory);
}

static void look_at_program(void)
{
    struct vgc_function_info info;
    struct vgc_param param;
    uint64_t address = 0, size = 0;
    for (uint32_t i = 0; i < vgc_program_num_functions(life.program); i++) {
        struct vgc_function *function = vgc_program_function_at(life.program, i);
        vgc_function_info(function, &info);
        PROMISE(info.name != NULL && strlen(info.name) < MAX_BYTES * 64);
        for (uint32_t p = 0; p < info.num_params; p++)
            PROMISE(vgc_function_param(function, p, &param) == VGC_OK);
    }
    PROMISE(vgc_program_log(life.program) != NULL);
    check(vgc_program_global(life.program, "global", &address, &size));
}

static void load(struct input *input)
{
    if (life.program != NULL) {
        check(vgc_program_unload(life.program));
        life.program = NULL;
    } else if (take8(input) % 4 != 0) {
        check(vgc_program_load(&life.device, VGC_SOURCE_CUDA, "source", 6, NULL, 0, &life.program));
    } else {
        check(vgc_program_register(&life.device, VGC_SOURCE_CUDA, "source", 6, NULL, 0, false, &life.program));
    }
    if (life.program != NULL)
        look_at_program();
}

static void find(struct input *input)
{
    struct vgc_function *function = NULL;
    struct vgc_listing *listing = NULL;
    if (take8(input) % 2 == 0) {
        check(vgc_function_find(&life.device, "function", &function));
        vgc_function_release(function);
        return;
    }
    int result = vgc_functions(&life.device, &listing);
    check(result);
    if (result != VGC_OK)
        return;
    for (uint32_t i = 0; i < vgc_listing_size(listing); i++)
        PROMISE(vgc_listing_at(listing, i) != NULL && vgc_listing_at(listing, i)->name != NULL);
    vgc_listing_free(listing);
}

static void ask_for_memory(void)
{
    if (life.address != 0) {
        check(vgc_free(&life.device, life.address));
        life.address = 0;
    } else {
        check(vgc_alloc(&life.device, 4096, &life.address));
    }
}

static void read_output(struct input *input)
{
    uint64_t room = 1 + take16(input) % MAX_BYTES, len = 0, lost = 0;
    char *text = malloc(room);
    PROMISE(text != NULL);
    int result = vgc_output_read(&life.device, text, room, &len, &lost);
    check(result);
    PROMISE(result != VGC_OK || len <= room);
    free(text);
}

static void use_event(struct input *input)
{
    if (life.event == NULL) {
        check(vgc_event_create(&life.device, &life.event));
    } else if (take8(input) % 2 == 0) {
        check(vgc_event_record(life.event, 0));
        check(vgc_event_query(life.event));
    } else {
        check(vgc_event_destroy(life.event));
        life.event = NULL;
    }
}

static void use_job(struct input *input)
{
    struct vgc_timing timing;
    uint8_t number = take8(input);
    struct vgc_job **job = &life.jobs[number % MAX_JOBS];
    if (*job == NULL) {
        check(vgc_nop(&life.device, number / MAX_JOBS % 4, job));
    } else if (number < 0x80) {
        check(vgc_job_poll(*job));
        check(vgc_job_timing(*job, &timing));
    } else if (number < 0xa0) {
        check(vgc_job_wait(*job, 0));
    } else {
        vgc_job_release(*job);
        *job = NULL;
    }
}

static void look(void)
{
    struct vgc_info info;
    struct vgc_device_usage usage;
    struct vgc_device_limits limits;
    check(vgc_info(&life.device, &info));
    check(vgc_device_usage(&life.device, &usage));
    check(vgc_device_limits(&life.device, &limits));
    check(vgc_check_config(&life.config));
    (void)vgc_limits_changed(&life.device);
}

static void command(struct input *input)
{
    switch (take8(input) % 12) {
    case 0:
        act();
        break;
    case 1:
        copy(input);
        break;
    case 2:
        find(input);
        break;
    case 3:
        ask_for_memory();
        break;
    case 4:
        read_output(input);
        break;
    case 5:
        use_event(input);
        break;
    case 6:
        look();
        break;
    case 7:
        check(vgc_detached_failure(&life.device));
        break;
    case 8:
    case 9:
        load(input);
        break;
    default:
        use_job(input);
    }
    check_books();
}

/* ---- a life of a device ----------------------------------------------------------------------------------------- */

static void init_mutexes(struct vgc_device *device)
{
    pthread_mutex_t *mutexes[] = {&device->limits_mutex, &device->state_mutex,   &device->heap_mutex,
                                  &device->queues_mutex, &device->failure_mutex, &device->ledger.mutex,
                                  &device->objects.mutex};
    for (size_t i = 0; i < sizeof(mutexes) / sizeof(mutexes[0]); i++)
        PROMISE(pthread_mutex_init(mutexes[i], NULL) == 0);
}

static void begin(struct input *input)
{
    static uint8_t *region;
    if (region == NULL)
        region = aligned_alloc(4096, REGION);
    PROMISE(region != NULL);
    memset(region, 0, CLEARED);
    memset(&life, 0, sizeof(life));
    uint8_t options = take8(input);
    life.input = input;
    life.config = (struct vgc_config){.magic = VGC_CONFIG_MAGIC,
                                      .version = VGC_WIRE_VERSION,
                                      .fingerprint = VGC_WIRE_FINGERPRINT,
                                      .num_queues = 1,
                                      .queue_depth = 6,
                                      .region_size = REGION,
                                      .health = VGC_HEALTH_READY,
                                      .quota_memory_bytes = 1 << 30,
                                      .deadline_ns = 1000,
                                      .max_contexts = 1,
                                      .max_streams = 4,
                                      .allotment = 1};
    life.transport = (struct vgc_transport){.ops = &OPS,
                                            .region = region,
                                            .region_bytes = REGION,
                                            .region_gpa = GPA,
                                            .features = UINT64_C(1) << VGC_F_VERSION_1 |
                                                        (uint64_t)(options & 1) << VGC_F_RING_EVENT_IDX |
                                                        (uint64_t)(options >> 1 & 1) << VGC_F_RING_INDIRECT_DESC,
                                            .num_queues = 1,
                                            .ring_size = RING};
    life.device = (struct vgc_device){.transport = &life.transport,
                                      .config = life.config,
                                      .state = &life.shared,
                                      .state_file = STATE_FD,
                                      .process = vgc_process(),
                                      .serial = 1,
                                      .is_own_timeout = true, /* of nothing: who would wait gives up at once */
                                      .context = 1,
                                      .streams = 1};
    life.shared.clients[0].in_use = 1;
    init_mutexes(&life.device);
    vgc_limits_take(&life.device, &life.config);
    PROMISE(vgc_layout_make(&life.device.layout, REGION, 1, RING) == VGC_OK);
    PROMISE(vgc_queue_open(&life.device, &life.device.shared_queue, UINT64_MAX) == VGC_OK);
}

static void end(void)
{
    for (int i = 0; i < MAX_JOBS; i++)
        vgc_job_release(life.jobs[i]);
    if (life.program != NULL)
        check(vgc_program_unload(life.program));
    if (life.event != NULL)
        check(vgc_event_destroy(life.event));
    check_books();
    vgc_queue_sweep(life.device.shared_queue);
    vgc_queue_discard(life.device.shared_queue);
    vgc_heap_close(&life.device);
    vgc_ledger_clear(&life.device.ledger);
    vgc_ledger_clear(&life.device.objects);
    free(life.device.failure_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    begin(&input);
    while (input.size > 0)
        command(&input);
    end();
    return 0;
}

#pragma clang attribute pop
