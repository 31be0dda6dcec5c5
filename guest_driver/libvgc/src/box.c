/* Copies of boxes: in one request where the device reaches both sides. What lies elsewhere in this process is packed
 * into pieces of the region. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { LANES = 4, PIECE_BYTES = 1 << 20, SMALLEST_PIECE = 16 << 10, DETACHED_SHARE = 16, ROWS_IN_FLIGHT = 32 };

/* A copy between memory of this process and the device. */
struct transfer {
    struct vgc_device *device;
    const struct vgc_side *near; /* in this process */
    const struct vgc_side *far;
    struct vgc_extent box;
    uint32_t stream;
    bool is_out; /* from the device */
};

/* ---- parts of a box ------------------------------------------------------------------------- */

struct part {
    uint32_t x, y, z;
    struct vgc_extent extent;
};

/* Extents of the part that begins at `part`: whole slices, rows of one slice, or bytes of one row. */
static void measure(const struct vgc_extent *box, uint64_t limit, struct part *part)
{
    struct vgc_extent *extent = &part->extent;
    uint64_t slice = (uint64_t)box->width * box->height;
    extent->width = (uint32_t)VGC_MIN(limit, box->width - part->x);
    extent->height = extent->width < box->width ? 1 : (uint32_t)VGC_MIN(limit / box->width, box->height - part->y);
    const bool is_whole_slice = extent->width == box->width && extent->height == box->height;
    extent->depth = is_whole_slice ? (uint32_t)VGC_MIN(limit / slice, box->depth - part->z) : 1;
}

/* Moves on to the next part; false behind the last one. */
static bool advance(const struct vgc_extent *box, struct part *part)
{
    part->x += part->extent.width;
    if (part->x < box->width)
        return true;
    part->x = 0;
    part->y += part->extent.height;
    if (part->y < box->height)
        return true;
    part->y = 0;
    part->z += part->extent.depth;
    return part->z < box->depth;
}

static struct vgc_side side_of(const struct vgc_side *side, const struct part *part)
{
    struct vgc_side moved = *side;
    uint64_t offset = part->z * side->slice + part->y * side->pitch + part->x;
    if (side->array != NULL) {
        moved.x += part->x;
        moved.y += part->y;
        moved.z += part->z;
    } else if (side->host != NULL) {
        moved.host = (uint8_t *)side->host + offset;
    } else {
        moved.address += offset;
    }
    return moved;
}

/* Copies between this process's memory and packed bytes. */
static void pack(const struct transfer *transfer, const struct part *part, uint8_t *packed)
{
    const struct vgc_extent *extent = &part->extent;
    struct vgc_side near = side_of(transfer->near, part);
    for (uint32_t z = 0; z < extent->depth; z++) {
        for (uint32_t y = 0; y < extent->height; y++) {
            uint8_t *row = (uint8_t *)near.host + z * near.slice + y * near.pitch;
            if (transfer->is_out)
                memcpy(row, packed, extent->width);
            else
                memcpy(packed, row, extent->width);
            packed += extent->width;
        }
    }
}

/* Sends the copy of a part between packed bytes and the device. */
static int send_part(const struct transfer *transfer, const struct part *part, uint64_t packed, uint8_t *staging,
                     struct vgc_job **job)
{
    struct vgc_side far = side_of(transfer->far, part);
    struct vgc_side here = {
        .address = packed, .pitch = part->extent.width, .slice = (uint64_t)part->extent.width * part->extent.height};
    return vgc_box_send(transfer->device, transfer->is_out ? &here : &far, transfer->is_out ? &far : &here,
                        part->extent, transfer->stream, staging, job);
}

/* ---- through the region --------------------------------------------------------------------- */

/* Parts in flight, each with its share of the staging memory. */
struct lanes {
    uint8_t *staging;
    uint64_t address; /* where the device sees it */
    uint64_t piece_bytes;
    struct vgc_job *jobs[LANES];
    struct part parts[LANES];
    bool stuck; /* a part never came back: its staging memory must not be used again */
};

static int open_lanes(const struct transfer *transfer, uint64_t size, struct lanes *lanes)
{
    uint64_t piece = VGC_MIN((uint64_t)PIECE_BYTES, size / LANES + VGC_HEAP_ALIGN) & ~(uint64_t)(VGC_HEAP_ALIGN - 1);
    *lanes = (struct lanes){0};
    for (;; piece /= 4) { /* a crowded region makes it slower, not impossible */
        lanes->piece_bytes = piece;
        int result = vgc_alloc_or_reap(transfer->device, piece * LANES, &lanes->staging);
        if (result == VGC_OK)
            return vgc_region_address(transfer->device, lanes->staging, &lanes->address);
        if (result != VGC_RESOURCES_EXHAUSTED || piece / 4 < SMALLEST_PIECE)
            return result;
    }
}

/* Waits for a lane's part, and unpacks it. */
static int finish_lane(const struct transfer *transfer, struct lanes *lanes, uint32_t lane)
{
    struct vgc_job *job = lanes->jobs[lane];
    if (job == NULL)
        return VGC_OK;
    lanes->jobs[lane] = NULL;
    int result = vgc_job_wait(job, UINT64_MAX);
    lanes->stuck = lanes->stuck || result == VGC_NO_ANSWER;
    vgc_job_release(job);
    if (result == VGC_OK && transfer->is_out)
        pack(transfer, &lanes->parts[lane], lanes->staging + lane * lanes->piece_bytes);
    return result;
}

/* *has_no_room: nothing was copied, as the region has no room for a small part. */
static int copy_in_lanes(const struct transfer *transfer, uint64_t size, bool *has_no_room)
{
    struct lanes lanes;
    struct part part = {0};
    int result = open_lanes(transfer, size, &lanes);
    *has_no_room = result == VGC_RESOURCES_EXHAUSTED;
    if (result != VGC_OK)
        return result;
    uint32_t lane = 0;
    do {
        uint64_t at = lane * lanes.piece_bytes;
        result = finish_lane(transfer, &lanes, lane);
        if (result != VGC_OK)
            break;
        measure(&transfer->box, lanes.piece_bytes, &part);
        lanes.parts[lane] = part;
        if (!transfer->is_out)
            pack(transfer, &part, lanes.staging + at);
        result = send_part(transfer, &part, lanes.address + at, NULL, &lanes.jobs[lane]);
        lane = (lane + 1) % LANES;
    } while (result == VGC_OK && advance(&transfer->box, &part));
    for (uint32_t i = 0; i < LANES; i++) {
        int one = finish_lane(transfer, &lanes, (lane + i) % LANES);
        result = result == VGC_OK ? one : result;
    }
    if (!lanes.stuck)
        (void)vgc_heap_free(transfer->device, lanes.staging);
    return result;
}

/* One piece that nobody waits for. */
static int copy_detached(const struct transfer *transfer, uint64_t size)
{
    uint8_t *staging;
    uint64_t address = 0;
    struct part whole = {.extent = transfer->box};
    int result = vgc_alloc_or_reap(transfer->device, size, &staging);
    if (result != VGC_OK)
        return result;
    result = vgc_region_address(transfer->device, staging, &address);
    if (result == VGC_OK) {
        pack(transfer, &whole, staging);
        result = send_part(transfer, &whole, address, staging, VGC_DETACHED);
    }
    if (result != VGC_OK)
        (void)vgc_heap_free(transfer->device, staging);
    return result;
}

/* ---- through device memory, where the device does not reach the region, or the region is full --- */

/* Memory for packed bytes: of the region, if it has room, else of this process. */
static int take_packed(struct vgc_device *device, uint64_t size, uint8_t **packed)
{
    int result = vgc_alloc_or_reap(device, size, packed);
    if (result != VGC_RESOURCES_EXHAUSTED)
        return result;
    *packed = malloc(size);
    return *packed != NULL ? VGC_OK : vgc_fail(VGC_SYSTEM, "out of memory in the guest");
}

static void give_packed(struct vgc_device *device, uint8_t *packed)
{
    if (vgc_in_region(device, packed, 1))
        (void)vgc_heap_free(device, packed);
    else
        free(packed);
}

static int copy_by_scratch(const struct transfer *transfer, uint64_t size)
{
    uint64_t scratch = 0;
    uint8_t *packed;
    uint64_t limit = VGC_MIN((uint64_t)PIECE_BYTES, size);
    struct part part = {0};
    int result = take_packed(transfer->device, limit, &packed);
    if (result != VGC_OK)
        return result;
    result = vgc_alloc(transfer->device, limit, &scratch);
    bool more = result == VGC_OK;
    while (more && result == VGC_OK) {
        measure(&transfer->box, limit, &part);
        uint64_t bytes = (uint64_t)part.extent.width * part.extent.height * part.extent.depth;
        if (!transfer->is_out) {
            pack(transfer, &part, packed);
            result = vgc_copy_in(transfer->device, scratch, packed, bytes, transfer->stream, NULL);
        }
        if (result == VGC_OK)
            result = send_part(transfer, &part, scratch, NULL, NULL);
        if (result == VGC_OK && transfer->is_out) {
            result = vgc_copy_out(transfer->device, packed, scratch, bytes, transfer->stream, NULL);
            pack(transfer, &part, packed);
        }
        more = advance(&transfer->box, &part);
    }
    if (result != VGC_NO_ANSWER)
        give_packed(transfer->device, packed);
    if (scratch != 0)
        (void)vgc_free(transfer->device, scratch);
    return result;
}

/* ---- row by row, where the device copies no boxes ------------------------------------------------ */

static int copy_row(struct vgc_device *device, const struct vgc_side *dst, const struct vgc_side *src, uint64_t bytes,
                    uint32_t stream, struct vgc_job **job)
{
    if (src->host != NULL)
        return vgc_copy_in(device, dst->address, src->host, bytes, stream, job);
    if (dst->host != NULL)
        return vgc_copy_out(device, dst->host, src->address, bytes, stream, job);
    return vgc_copy_device(device, dst->address, src->address, bytes, stream, job);
}

static int finish_row(struct vgc_job **row)
{
    struct vgc_job *job = *row;
    *row = NULL;
    int result = job != NULL ? vgc_job_wait(job, UINT64_MAX) : VGC_OK;
    vgc_job_release(job);
    return result;
}

static int copy_rows(struct vgc_device *device, const struct vgc_side *dst, const struct vgc_side *src,
                     struct vgc_extent box, uint32_t stream, bool detached)
{
    struct vgc_job *rows[ROWS_IN_FLIGHT] = {NULL};
    struct part part = {0};
    uint32_t at = 0;
    int result;
    do {
        measure(&box, box.width, &part);
        part.extent.height = part.extent.depth = 1;
        struct vgc_side to = side_of(dst, &part);
        struct vgc_side from = side_of(src, &part);
        result = finish_row(&rows[at]);
        if (result == VGC_OK)
            result = copy_row(device, &to, &from, box.width, stream, detached ? VGC_DETACHED : &rows[at]);
        at = (at + 1) % ROWS_IN_FLIGHT;
    } while (result == VGC_OK && advance(&box, &part));
    for (uint32_t i = 0; i < ROWS_IN_FLIGHT; i++) {
        int one = finish_row(&rows[(at + i) % ROWS_IN_FLIGHT]);
        result = result == VGC_OK ? one : result;
    }
    return result;
}

/* ---- public --------------------------------------------------------------------------------- */

static bool has_boxes(const struct vgc_device *device)
{
    return (device->config.device_features & VGC_F_TEXTURES) != 0;
}

/* Makes device memory of memory that lies in the region, if the device reaches it there. */
static void reach(const struct vgc_device *device, struct vgc_side *side, const struct vgc_extent *box)
{
    uint64_t bytes = (box->depth - UINT64_C(1)) * side->slice + (box->height - UINT64_C(1)) * side->pitch + box->width;
    uint64_t base = vgc_region_seen_at(device);
    if (base == 0 || !vgc_in_region(device, side->host, bytes))
        return;
    side->address = base + (uint64_t)((const uint8_t *)side->host - device->transport->region);
    side->host = NULL;
}

static int copy_staged(struct vgc_device *device, const struct vgc_side *dst, const struct vgc_side *src,
                       struct vgc_extent box, uint32_t stream, bool detached)
{
    bool is_out = dst->host != NULL;
    struct transfer transfer = {.device = device,
                                .near = is_out ? dst : src,
                                .far = is_out ? src : dst,
                                .box = box,
                                .stream = stream,
                                .is_out = is_out};
    uint64_t size = (uint64_t)box.width * box.height * box.depth;
    if (device->config.region_device_address == 0)
        return copy_by_scratch(&transfer, size);
    if (detached && !is_out && size <= device->transport->region_bytes / DETACHED_SHARE) {
        int result = copy_detached(&transfer, size);
        if (result != VGC_RESOURCES_EXHAUSTED)
            return result;
    }
    bool has_no_room;
    int result = copy_in_lanes(&transfer, size, &has_no_room);
    return has_no_room ? copy_by_scratch(&transfer, size) : result;
}

int vgc_copy_box(struct vgc_device *device, const struct vgc_side *dst, const struct vgc_side *src, uint32_t width,
                 uint32_t height, uint32_t depth, uint32_t stream, struct vgc_job **job)
{
    struct vgc_extent box = {width, height, depth};
    struct vgc_side to = *dst;
    struct vgc_side from = *src;
    bool is_empty = width == 0 || height == 0 || depth == 0;
    if (to.host != NULL && from.host != NULL)
        return vgc_fail(VGC_INVALID_ARGUMENT, "both sides of the copy are memory of this process");
    if (!is_empty && to.host != NULL)
        reach(device, &to, &box);
    if (!is_empty && from.host != NULL)
        reach(device, &from, &box);
    bool is_staged = !is_empty && (to.host != NULL || from.host != NULL);
    bool by_rows = !is_empty && !has_boxes(device) && to.array == NULL && from.array == NULL;
    if ((is_staged || by_rows) && !vgc_waits_for_room(job))
        return vgc_fail(VGC_UNSUPPORTED, "a box of this process's memory as a job: wait for it, or detach it");
    if (by_rows)
        return copy_rows(device, dst, src, box, stream, job == VGC_DETACHED);
    if (is_staged)
        return copy_staged(device, &to, &from, box, stream, job == VGC_DETACHED);
    if (is_empty)
        to.host = from.host = NULL;
    return vgc_box_send(device, &to, &from, box, stream, NULL, job);
}
