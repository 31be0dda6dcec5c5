/* Opening, closing and looking at a device, and giving its threads queues of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static const uint64_t DEFAULT_OPEN_TIMEOUT_NS = 5 * VGC_NS_PER_S;
static const uint64_t DEFAULT_SPIN_NS = 50000;

enum { MAX_OTHERS = 8 };

/* ---- contexts ------------------------------------------------------------------------------- */

static int context_create(struct vgc_device *device)
{
    struct vgc_message message;
    struct vgc_response response;
    int result = vgc_message_begin_on(&message, device->shared_queue, VGC_OP_CONTEXT_CREATE, 0, 0, true);
    if (result != VGC_OK)
        return result;
    uint64_t intent = (uint64_t)(message.response - device->transport->region);
    memset(message.response, 0xff, sizeof(struct vgc_response)); /* no status that could be taken for an answer */
    vgc_state_set_context(device, intent, 0, 0);
    struct vgc_body_context_create body = {.fingerprint = VGC_WIRE_FINGERPRINT};
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    result = vgc_job_ask(&message, &response);
    if (result == VGC_NO_ANSWER)
        return result; /* the intent stays for whoever cleans up after us */
    uint32_t context = result == VGC_OK ? (uint32_t)response.value : 0;
    vgc_state_set_context(device, 0, context, device->config.generation);
    device->context = context;
    return result;
}

static void context_destroy(struct vgc_device *device)
{
    struct vgc_message message;
    struct vgc_response response;
    if (device->context == 0 || atomic_load(&device->lost))
        return;
    if (vgc_message_begin_on(&message, device->shared_queue, VGC_OP_CONTEXT_DESTROY, device->context, 0, true) ==
            VGC_OK &&
        vgc_job_ask(&message, &response) == VGC_OK)
        vgc_state_set_context(device, 0, 0, 0);
}

/* QEMU reports success even when the backend refused the rings, so only an answer shows that anyone is there. */
static int first_answer(struct vgc_device *device, uint64_t deadline_ns)
{
    struct vgc_message message;
    int result = vgc_message_begin_on(&message, device->shared_queue, VGC_OP_NOP, 0, 0, true);
    if (result == VGC_OK)
        result = vgc_message_send(&message);
    if (result != VGC_OK)
        return result;
    uint64_t now = vgc_now_ns();
    result = vgc_job_wait(message.job, deadline_ns > now ? deadline_ns - now : 0);
    vgc_job_release(message.job);
    if (result != VGC_PENDING)
        return result;
    struct vgc_config config;
    if (device->transport->ops->read_config(device->transport, &config) == VGC_OK &&
        vgc_check_config(&config) == VGC_OK && config.health == VGC_HEALTH_FAILED)
        return vgc_fail(VGC_NO_ANSWER,
                        "%s does not answer: the host has no engine that works for this VM; its log says why",
                        device->transport->name);
    return vgc_fail(VGC_NO_ANSWER,
                    "%s was set up but does not answer: the host's backend refused the queues or does not run; "
                    "its log on the host says why",
                    device->transport->name);
}

static int wait_until_ready(struct vgc_device *device, uint64_t deadline_ns)
{
    uint64_t step_ns = VGC_NS_PER_MS;
    for (;;) {
        int result = device->transport->ops->read_config(device->transport, &device->config);
        if (result != VGC_OK)
            return result;
        result = vgc_check_config(&device->config);
        if (result != VGC_OK || device->config.health == VGC_HEALTH_READY)
            return result;
        if (device->config.health == VGC_HEALTH_FAILED)
            return vgc_fail(VGC_DEVICE_LOST, "the host's worker for this VM keeps failing; the host's log says why");
        if (!vgc_backoff(&step_ns, deadline_ns))
            return vgc_fail(VGC_NO_ANSWER, "the host's worker for this VM is not ready (state %u)",
                            device->config.health);
    }
}

/* ---- open and close ------------------------------------------------------------------------- */

void vgc_options_init(struct vgc_options *options)
{
    memset(options, 0, sizeof(*options));
}

static int open_transport(const struct vgc_options *options, struct vgc_transport **transport)
{
    if (options->memfd != NULL)
        return vgc_memfd_open(options->memfd, transport);
    int result = vgc_memfd_open_env(options->index, transport);
    if (result == VGC_NO_DEVICE)
        result = vgc_bridge_open_env(options->index, transport);
    return result == VGC_NO_DEVICE ? vgc_virtio_pci_open(options, transport) : result;
}

static struct vgc_device *new_device(const struct vgc_options *options)
{
    static _Atomic uint64_t serials;
    struct vgc_device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return NULL;
    device->pid = getpid();
    device->process = vgc_process();
    device->serial = atomic_fetch_add(&serials, 1) + 1;
    device->state_file = VGC_NO_HANDLE;
    device->client = UINT32_MAX;
    device->spin_ns = options->spin_ns != 0 ? options->spin_ns : DEFAULT_SPIN_NS;
    device->open_timeout_ns = options->open_timeout_ns != 0 ? options->open_timeout_ns : DEFAULT_OPEN_TIMEOUT_NS;
    device->is_looking = (options->flags & VGC_OPEN_LOOK) != 0;
    device->is_own_timeout = options->request_timeout_ns != 0;
    atomic_store(&device->request_timeout_ns, options->request_timeout_ns);
    atomic_store(&device->streams, 1); /* the default stream */
    (void)pthread_mutex_init(&device->limits_mutex, NULL);
    (void)pthread_mutex_init(&device->state_mutex, NULL);
    (void)pthread_mutex_init(&device->heap_mutex, NULL);
    (void)pthread_mutex_init(&device->owned_mutex, NULL);
    (void)pthread_mutex_init(&device->failure_mutex, NULL);
    (void)pthread_mutex_init(&device->queues_mutex, NULL);
    (void)pthread_mutex_init(&device->ledger.mutex, NULL);
    (void)pthread_mutex_init(&device->objects.mutex, NULL);
    return device;
}

static void free_device(struct vgc_device *device, bool quiet)
{
    for (uint32_t i = 0; i < VGC_MAX_QUEUES; i++)
        if (device->queues[i] != NULL)
            vgc_queue_discard(device->queues[i]);
    vgc_named_close(device);
    vgc_state_close(device, quiet);
    vgc_heap_close(device);
    vgc_ledger_clear(&device->ledger);
    vgc_ledger_clear(&device->objects);
    if (device->transport != NULL)
        device->transport->ops->close(device->transport);
    (void)pthread_mutex_destroy(&device->limits_mutex);
    (void)pthread_mutex_destroy(&device->state_mutex);
    (void)pthread_mutex_destroy(&device->heap_mutex);
    (void)pthread_mutex_destroy(&device->owned_mutex);
    (void)pthread_mutex_destroy(&device->failure_mutex);
    free(device->failure_text);
    (void)pthread_mutex_destroy(&device->queues_mutex);
    (void)pthread_mutex_destroy(&device->ledger.mutex);
    (void)pthread_mutex_destroy(&device->objects.mutex);
    free(device);
}

static int check_region(const struct vgc_device *device)
{
    const struct vgc_transport *transport = device->transport;
    uint64_t bytes = transport->region_file_bytes != 0 ? transport->region_file_bytes : transport->region_bytes;
    if (device->config.region_size == bytes)
        return VGC_OK;
    return vgc_fail(VGC_INCOMPATIBLE,
                    "the device's region has %llu bytes but %s has %llu: it belongs to another device",
                    (unsigned long long)device->config.region_size, transport->region_name, (unsigned long long)bytes);
}

/* The address at which kernels see the region, if the device says one and the region is not there. */
static uint64_t other_address(const struct vgc_device *device)
{
    uint64_t address = vgc_region_seen_at(device);
    return address != (uintptr_t)device->transport->region ? address : 0;
}

/* Once the device is up it may say an address that it did not know before. Nothing but the queue is in the region yet.
 */
static int move_region(struct vgc_device *device, uint64_t deadline_ns)
{
    uint64_t address = other_address(device);
    if (address == 0 || !vgc_queue_close(device->shared_queue, deadline_ns))
        return VGC_OK;
    device->shared_queue = NULL;
    vgc_transport_place(device->transport, address);
    return vgc_queue_open(device, &device->shared_queue, deadline_ns);
}

static int bring_up(struct vgc_device *device, const struct vgc_options *options, uint64_t deadline_ns)
{
    struct vgc_transport *transport = device->transport;
    int result = transport->ops->read_config(transport, &device->config);
    if (result == VGC_OK)
        result = vgc_check_config(&device->config);
    if (result == VGC_OK)
        result = check_region(device);
    if (result == VGC_OK)
        result = vgc_layout_make(&device->layout, transport->region_bytes,
                                 VGC_MIN(device->config.num_queues, transport->num_queues), transport->ring_size);
    if (result == VGC_OK)
        result = vgc_state_open(device, vgc_state_dir(options), deadline_ns);
    if (result != VGC_OK)
        return result;
    vgc_limits_take(device, &device->config);
    uint64_t early = other_address(device);
    if (early != 0)
        vgc_transport_place(transport, early);
    result = vgc_queue_open(device, &device->shared_queue, deadline_ns);
    if (result == VGC_OK)
        result = first_answer(device, deadline_ns);
    if (result == VGC_OK)
        result = wait_until_ready(device, deadline_ns);
    if (result == VGC_OK && other_address(device) != early)
        result = move_region(device, deadline_ns);
    if (result != VGC_OK)
        return result;
    (void)vgc_reap(device); /* contexts of the dead first, or there may be none left for us */
    result = wait_until_ready(device, vgc_deadline(device->open_timeout_ns));
    if (result != VGC_OK)
        return result;
    atomic_store(&device->lost, false); /* a kernel of the dead that would not end took its worker along */
    vgc_limits_acknowledge(device, &device->config);
    return device->is_looking ? VGC_OK : context_create(device);
}

/* Regions to try if this one brings no answer. */
struct others {
    char addresses[MAX_OTHERS][VGC_PCI_ADDRESS_LEN];
    size_t count;
};

static int open_once(const struct vgc_options *options, struct vgc_device **out, struct others *others)
{
    struct vgc_device *device = new_device(options);
    if (device == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    int result = open_transport(options, &device->transport);
    if (result == VGC_OK)
        result = bring_up(device, options, vgc_deadline(device->open_timeout_ns));
    if (result == VGC_OK) {
        *out = device;
        return VGC_OK;
    }
    char reason[2048]; /* closing may have something to say as well */
    (void)snprintf(reason, sizeof(reason), "%s", vgc_last_error());
    if (result == VGC_NO_ANSWER && others != NULL)
        (void)vgc_virtio_pci_other_regions(options, device->transport, others->addresses, MAX_OTHERS, &others->count);
    bool quiet = device->shared_queue == NULL || vgc_queue_close(device->shared_queue, vgc_deadline(0));
    free_device(device, quiet);
    return vgc_fail(result, "%s", reason);
}

/* Devices and regions of one size belong together by their order, unless the host has it otherwise: then the host
 * refuses the queues, and one of the other regions is the right one. */
int vgc_open(const struct vgc_options *options, struct vgc_device **out)
{
    static const struct vgc_options DEFAULTS;
    struct others others = {.count = 0};
    if (options == NULL)
        options = &DEFAULTS;
    *out = NULL;
    if ((options->flags & ~(uint32_t)VGC_OPEN_LOOK) != 0)
        return vgc_fail(VGC_INVALID_ARGUMENT, "flags %#x of options; allowed: VGC_OPEN_LOOK", options->flags);
    int result = open_once(options, out, &others);
    for (size_t i = 0; i < others.count && result == VGC_NO_ANSWER; i++) {
        struct vgc_options other = *options;
        other.region_address = others.addresses[i];
        result = open_once(&other, out, NULL);
    }
    return result;
}

void vgc_close(struct vgc_device *device)
{
    if (device == NULL)
        return;
    if (device->process != vgc_process())
        return; /* the parent's: unmapping is all we could do, and exit does that */
    vgc_free_owned(device);
    bool quiet = true;
    uint64_t deadline_ns = vgc_deadline(device->request_timeout_ns);
    for (uint32_t i = 0; i < VGC_MAX_QUEUES; i++)
        if (device->queues[i] != NULL && device->queues[i] != device->shared_queue)
            quiet = vgc_queue_close(device->queues[i], deadline_ns) && quiet;
    context_destroy(device);
    quiet = vgc_queue_close(device->shared_queue, deadline_ns) && quiet;
    free_device(device, quiet && vgc_state_self(device)->intent_offset == 0 && vgc_state_self(device)->context == 0);
}

void vgc_end(struct vgc_device *device)
{
    if (device != NULL && device->process == vgc_process())
        context_destroy(device);
}

bool vgc_is_lost(const struct vgc_device *device)
{
    return atomic_load_explicit(&device->lost, memory_order_relaxed);
}

int vgc_reset(struct vgc_device *device)
{
    if (device->process != vgc_process())
        return vgc_check_usable(device);
    uint64_t deadline_ns = vgc_deadline(device->request_timeout_ns);
    for (uint32_t i = 0; i < VGC_MAX_QUEUES; i++)
        if (device->queues[i] != NULL && !vgc_queue_drain(device->queues[i], UINT32_MAX, deadline_ns))
            return vgc_fail(VGC_NO_ANSWER, "requests from before the reset are still in flight");
    context_destroy(device);
    int result = wait_until_ready(device, deadline_ns);
    if (result != VGC_OK)
        return result;
    struct vgc_client *self = vgc_state_self(device);
    atomic_fetch_sub(&device->state->memory_bytes, atomic_exchange(&self->memory_bytes, 0));
    vgc_ledger_clear(&device->ledger);
    vgc_ledger_clear(&device->objects);
    atomic_store(&device->streams, 1);
    device->epoch++;
    (void)vgc_detached_failure(device); /* of what is gone */
    device->context = 0;
    vgc_limits_acknowledge(device, &device->config);
    result = device->is_looking ? VGC_OK : context_create(device);
    atomic_store(&device->lost, result != VGC_OK);
    return result;
}

uint64_t vgc_request_timeout(const struct vgc_device *device)
{
    return device->request_timeout_ns;
}

/* ---- queues of threads ---------------------------------------------------------------------- */

int vgc_thread_claim_queue(struct vgc_device *device)
{
    int result = vgc_check_usable(device);
    if (result != VGC_OK || vgc_queue_current(device) != device->shared_queue)
        return result;
    struct vgc_queue *queue;
    uint64_t deadline_ns = vgc_deadline(device->open_timeout_ns);
    result = vgc_queue_open(device, &queue, deadline_ns);
    if (result == VGC_RESOURCES_EXHAUSTED) {
        (void)vgc_reap(device);
        result = vgc_queue_open(device, &queue, deadline_ns);
    }
    if (result == VGC_OK)
        vgc_queue_set_current(device, queue);
    return result;
}

void vgc_thread_release_queue(struct vgc_device *device)
{
    struct vgc_queue *queue = vgc_queue_current(device);
    if (queue == device->shared_queue)
        return;
    vgc_queue_set_current(device, NULL);
    (void)vgc_queue_close(queue, vgc_deadline(device->request_timeout_ns));
}

/* ---- looking -------------------------------------------------------------------------------- */

int vgc_info(struct vgc_device *device, struct vgc_info *info)
{
    struct vgc_config config;
    int result = device->transport->ops->read_config(device->transport, &config);
    if (result != VGC_OK)
        return result;
    const struct vgc_transport *transport = device->transport;
    *info = (struct vgc_info){.engine_kind = config.engine_kind,
                              .health = config.health,
                              .generation = config.generation,
                              .num_queues = device->layout.num_queues,
                              .ring_size = device->layout.ring_size,
                              .queue_depth = config.queue_depth,
                              .num_pes = config.quota_pes,
                              .max_contexts = config.max_contexts,
                              .max_streams = config.max_streams,
                              .context = device->context,
                              .memory_bytes = config.quota_memory_bytes,
                              .deadline_ns = config.deadline_ns,
                              .device_features = config.device_features,
                              .fingerprint = config.fingerprint,
                              .region_bytes = transport->region_bytes,
                              .region_device_address = config.region_device_address != 0
                                                           ? config.region_device_address + transport->region_offset
                                                           : 0,
                              .region_kind = transport->region_kind,
                              .read_bytes_per_s = transport->read_bytes_per_s,
                              .region_cached = transport->region_cached,
                              .interrupts = transport->interrupts};
    memcpy(info->address, transport->name, sizeof(info->address) - 1);
    memcpy(info->region_address, transport->region_name, sizeof(info->region_address) - 1);
    memcpy(info->engine_name, config.engine_name, sizeof(config.engine_name));
    memcpy(info->vm_name, config.vm_name, sizeof(config.vm_name));
    memcpy(info->uuid, config.uuid, sizeof(config.uuid));
    return VGC_OK;
}

int vgc_device_usage(struct vgc_device *device, struct vgc_device_usage *usage)
{
    struct vgc_message message;
    struct vgc_body_query body = {.what = VGC_QUERY_KIND_USAGE};
    int result = vgc_message_begin(&message, device, VGC_OP_QUERY, 0, true);
    if (result != VGC_OK)
        return result;
    struct vgc_usage told = {0};
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    vgc_message_inline_payload(&message, (void *)&told, sizeof(told));
    result = vgc_job_run(&message, NULL);
    *usage = (struct vgc_device_usage){.memory_used_bytes = told.memory_used_bytes,
                                       .memory_quota_bytes = told.memory_quota_bytes,
                                       .requests_done = told.requests_done,
                                       .requests_failed = told.requests_failed,
                                       .busy_ns = told.busy_ns,
                                       .num_contexts = told.num_contexts,
                                       .num_programs = told.num_programs,
                                       .num_allocations = told.num_allocations,
                                       .num_pes = told.num_pes,
                                       .in_flight = told.in_flight,
                                       .generation = told.generation};
    return result;
}

int vgc_device_limits(struct vgc_device *device, struct vgc_device_limits *limits)
{
    struct vgc_message message;
    struct vgc_body_query body = {.what = VGC_QUERY_KIND_DEVICE};
    int result = vgc_message_begin(&message, device, VGC_OP_QUERY, 0, true);
    if (result != VGC_OK)
        return result;
    struct vgc_device_properties told = {0};
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    vgc_message_inline_payload(&message, (void *)&told, sizeof(told));
    result = vgc_job_run(&message, NULL);
    *limits = (struct vgc_device_limits){.compute_capability = told.compute_capability,
                                         .warp_threads = told.warp_threads,
                                         .pe_threads = told.pe_threads,
                                         .pe_blocks = told.pe_blocks,
                                         .pe_registers = told.pe_registers,
                                         .pe_shared_bytes = told.pe_shared_bytes,
                                         .block_registers = told.block_registers,
                                         .block_shared_bytes = told.block_shared_bytes,
                                         .reserved_shared_bytes = told.reserved_shared_bytes,
                                         .constant_bytes = told.constant_bytes,
                                         .l2_bytes = told.l2_bytes,
                                         .clock_khz = told.clock_khz,
                                         .memory_clock_khz = told.memory_clock_khz,
                                         .memory_bus_bits = told.memory_bus_bits,
                                         .copy_engines = told.copy_engines,
                                         .double_ratio = told.double_ratio,
                                         .cluster_blocks = told.cluster_blocks,
                                         .ecc = told.ecc};
    return result;
}

int vgc_nop(struct vgc_device *device, uint32_t stream, struct vgc_job **job)
{
    struct vgc_message message;
    int result = vgc_message_begin(&message, device, VGC_OP_NOP, stream, vgc_waits_for_room(job));
    return result == VGC_OK ? vgc_job_run(&message, job) : result;
}
