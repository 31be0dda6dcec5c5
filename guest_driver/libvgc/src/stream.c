/* Streams and events. A stream is a number; its end is known here, since every request is answered when its work
 * is done. */
#include <stdlib.h>

#include "internal.h"

struct vgc_event {
    struct vgc_owned owned; /* the first member */
    struct vgc_device *device;
    uint32_t epoch;
    uint32_t id;
    bool recorded;
    bool is_shared;      /* exported or opened: only the device knows of the last recording */
    struct vgc_job *job; /* the recording under way */
    int result;          /* of the last recording */
    uint64_t time_ns;    /* the engine's clock at the last recording */
};

/* ---- streams -------------------------------------------------------------------------------- */

int vgc_stream_create(struct vgc_device *device, uint32_t *stream)
{
    uint64_t taken = atomic_load(&device->streams);
    for (;;) {
        uint32_t count = VGC_MIN(atomic_load(&device->limits.max_streams), (uint32_t)VGC_MAX_STREAMS);
        uint32_t lowest = ~taken == 0 ? VGC_MAX_STREAMS : (uint32_t)__builtin_ctzll(~taken);
        if (lowest >= count && vgc_limits_changed(device))
            continue;
        if (lowest >= count)
            return vgc_fail(VGC_RESOURCES_EXHAUSTED, "resources exhausted: all %u streams are in use", count);
        if (atomic_compare_exchange_weak(&device->streams, &taken, taken | 1ull << lowest)) {
            *stream = lowest;
            return VGC_OK;
        }
    }
}

int vgc_stream_destroy(struct vgc_device *device, uint32_t stream)
{
    if (stream == 0 || stream >= VGC_MAX_STREAMS || (atomic_load(&device->streams) >> stream & 1) == 0)
        return vgc_fail(VGC_INVALID_ARGUMENT, "stream %u was not made by vgc_stream_create()", stream);
    int result = vgc_stream_synchronize(device, stream);
    atomic_fetch_and(&device->streams, ~(1ull << stream));
    return result;
}

int vgc_stream_synchronize(struct vgc_device *device, uint32_t stream)
{
    int result = vgc_check_usable(device);
    return result == VGC_OK ? vgc_drain(device, stream) : result;
}

int vgc_synchronize(struct vgc_device *device)
{
    return vgc_stream_synchronize(device, UINT32_MAX);
}

/* ---- events --------------------------------------------------------------------------------- */

static void end_event(struct vgc_owned *owned)
{
    struct vgc_event *event = (struct vgc_event *)owned;
    vgc_job_release(event->job);
    free(event);
}

int vgc_event_create(struct vgc_device *device, struct vgc_event **out)
{
    struct vgc_message message;
    struct vgc_response response;
    *out = NULL;
    if ((device->config.device_features & VGC_F_EVENTS) == 0)
        return vgc_fail(VGC_UNSUPPORTED, "this device has no events");
    struct vgc_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    int result = vgc_message_begin(&message, device, VGC_OP_EVENT_CREATE, 0, true);
    if (result == VGC_OK)
        result = vgc_job_ask(&message, &response);
    if (result != VGC_OK) {
        free(event);
        return result;
    }
    *event = (struct vgc_event){.device = device, .epoch = device->epoch, .id = (uint32_t)response.value};
    vgc_own(device, &event->owned, end_event);
    *out = event;
    return VGC_OK;
}

static int begin_event(struct vgc_event *event, struct vgc_message *message, uint16_t opcode, uint32_t stream)
{
    struct vgc_body_event body = {.event = event->id};
    int result = vgc_check_epoch(event->device, event->epoch, "the event");
    if (result == VGC_OK)
        result = vgc_message_begin(message, event->device, opcode, stream, true);
    if (result == VGC_OK)
        (void)vgc_message_put(message, VGC_BYTES(body), sizeof(body));
    return result;
}

int vgc_event_destroy(struct vgc_event *event)
{
    struct vgc_message message;
    if (event == NULL)
        return VGC_OK;
    vgc_job_release(event->job);
    bool stale = event->epoch != event->device->epoch;
    int result = stale ? VGC_OK : begin_event(event, &message, VGC_OP_EVENT_DESTROY, 0);
    if (!stale && result == VGC_OK)
        result = vgc_job_run(&message, NULL);
    vgc_disown(event->device, &event->owned);
    free(event);
    return result;
}

/* Asks the device about an event. */
static int ask_event(struct vgc_event *event, uint16_t opcode, struct vgc_response *response)
{
    struct vgc_message message;
    int result = begin_event(event, &message, opcode, 0);
    return result == VGC_OK ? vgc_job_ask(&message, response) : result;
}

int vgc_event_record(struct vgc_event *event, uint32_t stream)
{
    struct vgc_message message;
    struct vgc_response happened;
    int result = begin_event(event, &message, VGC_OP_EVENT_RECORD, stream);
    if (result != VGC_OK)
        return result;
    vgc_job_release(event->job);
    event->job = NULL;
    event->recorded = true;
    result = vgc_job_run(&message, &event->job);
    /* what other processes send after this call must find the recording: a later request of the queue is answered */
    return result == VGC_OK && event->is_shared ? ask_event(event, VGC_OP_EVENT_QUERY, &happened) : result;
}

static int settle(struct vgc_event *event, int result)
{
    if (event->job == NULL)
        return event->result;
    if (result == VGC_PENDING || result == VGC_NO_ANSWER)
        return result;
    event->result = result;
    event->time_ns = event->job->response.value;
    vgc_job_release(event->job);
    event->job = NULL;
    return result;
}

/* Waits for the last recording by any process. */
static int synchronize_shared(struct vgc_event *event)
{
    struct vgc_message message;
    int result = begin_event(event, &message, VGC_OP_EVENT_SYNC, 0);
    return result == VGC_OK ? vgc_job_run(&message, NULL) : result;
}

static int query_shared(struct vgc_event *event)
{
    struct vgc_response happened;
    int result = ask_event(event, VGC_OP_EVENT_QUERY, &happened);
    return result == VGC_OK && happened.value == 0 ? VGC_PENDING : result;
}

int vgc_event_synchronize(struct vgc_event *event)
{
    int result = event->is_shared ? synchronize_shared(event) : VGC_OK;
    if (result != VGC_OK || (event->is_shared && (event->job == NULL || vgc_job_poll(event->job) == VGC_PENDING)))
        return result; /* another process has recorded it since */
    return settle(event, event->job != NULL ? vgc_job_wait(event->job, UINT64_MAX) : VGC_OK);
}

int vgc_event_query(struct vgc_event *event)
{
    int result = event->is_shared ? query_shared(event) : VGC_OK;
    if (result != VGC_OK || (event->is_shared && (event->job == NULL || vgc_job_poll(event->job) == VGC_PENDING)))
        return result;
    return settle(event, event->job != NULL ? vgc_job_poll(event->job) : VGC_OK);
}

int vgc_event_export(struct vgc_event *event, struct vgc_key *key)
{
    struct vgc_response response;
    int result = ask_event(event, VGC_OP_EVENT_EXPORT, &response);
    if (result != VGC_OK)
        return result;
    event->is_shared = true;
    *key = (struct vgc_key){{response.value, response.aux}};
    return VGC_OK;
}

int vgc_event_open(struct vgc_device *device, const struct vgc_key *key, struct vgc_event **out)
{
    struct vgc_message message;
    struct vgc_response response;
    const struct vgc_body_key body = {.key = {key->halves[0], key->halves[1]}};
    *out = NULL;
    struct vgc_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    int result = vgc_message_begin(&message, device, VGC_OP_EVENT_OPEN, 0, true);
    if (result == VGC_OK) {
        (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
        result = vgc_job_ask(&message, &response);
    }
    if (result != VGC_OK) {
        free(event);
        return result;
    }
    *event =
        (struct vgc_event){.device = device, .epoch = device->epoch, .id = (uint32_t)response.value, .is_shared = true};
    vgc_own(device, &event->owned, end_event);
    *out = event;
    return VGC_OK;
}

int vgc_stream_wait_event(struct vgc_event *event, uint32_t stream)
{
    struct vgc_message message;
    int result = begin_event(event, &message, VGC_OP_EVENT_WAIT, stream);
    return result == VGC_OK ? vgc_job_run(&message, VGC_DETACHED) : result; /* it holds the stream back by itself */
}

int vgc_event_elapsed(struct vgc_event *start, struct vgc_event *end, int64_t *elapsed_ns)
{
    if (!start->recorded || !end->recorded)
        return vgc_fail(VGC_INVALID_ARGUMENT, "the %s event was never recorded", start->recorded ? "end" : "start");
    int result = vgc_event_synchronize(start);
    if (result == VGC_OK)
        result = vgc_event_synchronize(end);
    if (result == VGC_OK)
        *elapsed_ns = (int64_t)(end->time_ns - start->time_ns);
    return result;
}
