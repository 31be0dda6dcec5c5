/* Several devices of a VM. Kernels of one do not reach another's memory; copies go through this process: while a piece
 * goes to one device, the next one comes from the other. */
#include "runtime.h"

enum { PIECE_BYTES = 1 << 20, SMALLEST_PIECE = 64 << 10 };

struct rt_device *rt_device_of(const void *pointer, struct rt_device *otherwise)
{
    struct rt_range range;
    return rt_find_range(pointer, &range) && range.device != NULL ? range.device : otherwise;
}

cudaError_t rt_wait_stream(struct rt_device *device, uint32_t number)
{
    cudaError_t error = rt_error(vgc_stream_synchronize(atomic_load(&device->device), number));
    cudaError_t earlier = rt_settle(device);
    return earlier != cudaSuccess ? earlier : rt_fault(device, error);
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* Rows of one slice, or bytes of one row. */
struct piece {
    size_t x, y, z;
    size_t width, height;
};

static void measure(const size_t extent[3], size_t limit, struct piece *piece)
{
    piece->width = RT_MIN(limit, extent[0] - piece->x);
    piece->height = piece->width < extent[0] ? 1 : RT_MIN(limit / extent[0], extent[1] - piece->y);
}

static bool advance(const size_t extent[3], struct piece *piece)
{
    piece->x += piece->width;
    if (piece->x < extent[0])
        return true;
    piece->x = 0;
    piece->y += piece->height;
    if (piece->y < extent[1])
        return true;
    piece->y = 0;
    piece->z++;
    return piece->z < extent[2];
}

static struct vgc_side side_of(const struct vgc_side *side, const struct piece *piece)
{
    struct vgc_side moved = *side;
    if (side->array == NULL) {
        moved.address += piece->z * side->slice + piece->y * side->pitch + piece->x;
    } else {
        moved.x += (uint32_t)piece->x;
        moved.y += (uint32_t)piece->y;
        moved.z += (uint32_t)piece->z;
    }
    return moved;
}

/* Two buffers in the region of the source. */
struct passage {
    struct vgc_device *to;
    struct vgc_device *from;
    const struct vgc_side *dst;
    const struct vgc_side *src;
    char *buffers;
    size_t limit;
    struct piece pieces[2];
    struct vgc_job *jobs[2];
};

static struct vgc_side buffer_of(const struct passage *passage, int which)
{
    return (struct vgc_side){.host = passage->buffers + (size_t)which * passage->limit,
                             .pitch = passage->pieces[which].width};
}

/* Asks the source for a piece; where that cannot be had as a job, waits for it. */
static int fetch(struct passage *passage, int which)
{
    const struct piece *piece = &passage->pieces[which];
    struct vgc_side near = buffer_of(passage, which);
    struct vgc_side far = side_of(passage->src, piece);
    if (far.array == NULL && piece->height == 1)
        return vgc_copy_out(passage->from, near.host, far.address, piece->width, 0, &passage->jobs[which]);
    int result = vgc_copy_box(passage->from, &near, &far, (uint32_t)piece->width, (uint32_t)piece->height, 1, 0,
                              &passage->jobs[which]);
    if (result != VGC_UNSUPPORTED)
        return result;
    passage->jobs[which] = NULL;
    return vgc_copy_box(passage->from, &near, &far, (uint32_t)piece->width, (uint32_t)piece->height, 1, 0, NULL);
}

static int finish(struct passage *passage, int which)
{
    struct vgc_job *job = passage->jobs[which];
    passage->jobs[which] = NULL;
    int result = job != NULL ? vgc_job_wait(job, UINT64_MAX) : VGC_OK;
    vgc_job_release(job);
    return result;
}

static int deliver(struct passage *passage, int which)
{
    const struct piece *piece = &passage->pieces[which];
    struct vgc_side near = buffer_of(passage, which);
    struct vgc_side far = side_of(passage->dst, piece);
    if (far.array == NULL && piece->height == 1)
        return vgc_copy_in(passage->to, far.address, near.host, piece->width, 0, NULL);
    return vgc_copy_box(passage->to, &far, &near, (uint32_t)piece->width, (uint32_t)piece->height, 1, 0, NULL);
}

static int open_passage(struct passage *passage)
{
    for (passage->limit = PIECE_BYTES;; passage->limit /= 4) {
        void *buffers = NULL;
        int result = vgc_region_alloc(passage->from, 2 * passage->limit, &buffers);
        passage->buffers = buffers;
        if (result != VGC_RESOURCES_EXHAUSTED || passage->limit / 4 < SMALLEST_PIECE)
            return result;
    }
}

static cudaError_t pass(struct passage *passage, const size_t extent[3], struct rt_device *to, struct rt_device *from)
{
    struct piece next = {0};
    int which = 0;
    measure(extent, passage->limit, &next);
    passage->pieces[0] = next;
    cudaError_t error = rt_fault(from, rt_error(fetch(passage, 0)));
    bool more = error == cudaSuccess;
    while (more && error == cudaSuccess) {
        int other = 1 - which;
        more = advance(extent, &next);
        if (more) {
            measure(extent, passage->limit, &next);
            passage->pieces[other] = next;
            error = rt_fault(from, rt_error(fetch(passage, other)));
        }
        cudaError_t fetched = rt_fault(from, rt_error(finish(passage, which)));
        error = error == cudaSuccess ? fetched : error;
        if (error == cudaSuccess)
            error = rt_fault(to, rt_error(deliver(passage, which)));
        which = other;
    }
    (void)finish(passage, 0);
    (void)finish(passage, 1);
    return error;
}

cudaError_t rt_copy_peer(struct rt_device *to, const struct vgc_side *dst, struct rt_device *from,
                         const struct vgc_side *src, const size_t extent[3])
{
    struct passage passage = {
        .to = atomic_load(&to->device), .from = atomic_load(&from->device), .dst = dst, .src = src};
    cudaError_t error = rt_fault(from, rt_error(open_passage(&passage)));
    if (error != cudaSuccess)
        return error;
    error = pass(&passage, extent, to, from);
    if (error != cudaErrorDevicesUnavailable) /* a device that did not answer may still write there */
        vgc_region_free(passage.from, passage.buffers);
    return error;
}

cudaError_t rt_copy_apart(struct rt_device *device, void *dst, const void *src, size_t size, enum cudaMemcpyKind kind,
                          uint32_t stream, bool to_device, bool from_device)
{
    struct rt_device *to = rt_device_of(dst, device);
    struct rt_device *from = rt_device_of(src, device);
    cudaError_t error = rt_wait_stream(device, stream);
    if (error != cudaSuccess)
        return error;
    if (!to_device || !from_device || to == from)
        return rt_copy(to_device ? to : from, dst, src, size, kind, 0, false);
    struct vgc_side dst_side = {.address = (uint64_t)(uintptr_t)dst};
    struct vgc_side src_side = {.address = (uint64_t)(uintptr_t)src};
    return rt_copy_peer(to, &dst_side, from, &src_side, (const size_t[3]){size, 1, 1});
}

/* ---- the API: copies ------------------------------------------------------------------------ */

static cudaError_t check_place(const void *pointer, int ordinal)
{
    struct rt_device *device;
    cudaError_t error = rt_device(ordinal, &device);
    if (error == cudaSuccess && rt_device_of(pointer, NULL) != device)
        error = rt_explain(cudaErrorInvalidValue, "%p is not in memory of device %d", pointer, ordinal);
    return error;
}

static cudaError_t copy(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream,
                        bool waits)
{
    struct rt_device *device;
    const struct rt_operation operation = {
        .kind = RT_COPY, .waits = waits, .copy = {to, from, bytes, cudaMemcpyDeviceToDevice}};
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = check_place(to, to_device);
    if (error == cudaSuccess)
        error = check_place(from, from_device);
    if (error == cudaSuccess && waits) /* comes behind all work of both */
        error = rt_synchronize(rt_device_at(to_device));
    if (error == cudaSuccess && waits)
        error = rt_synchronize(rt_device_at(from_device));
    return error == cudaSuccess ? rt_submit(device, stream, &operation) : error;
}

RT_API cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    return rt_return(copy(to, to_device, from, from_device, bytes, NULL, true));
}

RT_API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                       cudaStream_t stream)
{
    return rt_return(copy(to, to_device, from, from_device, bytes, stream, false));
}

static cudaError_t check_side(cudaArray_const_t array, const void *pointer, int ordinal)
{
    struct rt_device *device;
    if (array == NULL)
        return check_place(pointer, ordinal);
    cudaError_t error = rt_device(ordinal, &device);
    if (error == cudaSuccess)
        error = rt_check_array(array);
    if (error == cudaSuccess && array->texels->device != device)
        error = rt_explain(cudaErrorInvalidValue, "%p is not an array of device %d", (const void *)array, ordinal);
    return error;
}

static cudaError_t copy_3d(const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream, bool waits)
{
    if (copy == NULL)
        return cudaErrorInvalidValue;
    struct cudaMemcpy3DParms given = {copy->srcArray, copy->srcPos, copy->srcPtr, copy->dstArray,
                                      copy->dstPos,   copy->dstPtr, copy->extent, cudaMemcpyDeviceToDevice};
    cudaError_t error = check_side(copy->srcArray, copy->srcPtr.ptr, copy->srcDevice);
    if (error == cudaSuccess)
        error = check_side(copy->dstArray, copy->dstPtr.ptr, copy->dstDevice);
    if (error == cudaSuccess && waits)
        error = rt_synchronize(rt_device_at(copy->dstDevice));
    if (error == cudaSuccess && waits)
        error = rt_synchronize(rt_device_at(copy->srcDevice));
    return error == cudaSuccess ? rt_copy_3d(&given, stream, waits) : error;
}

RT_API cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *copy)
{
    return rt_return(copy_3d(copy, NULL, true));
}

RT_API cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream)
{
    return rt_return(copy_3d(copy, stream, false));
}

/* ---- the API: access ------------------------------------------------------------------------ */

static cudaError_t check_pair(int device, int peer)
{
    if (rt_device_at(device) == NULL || rt_device_at(peer) == NULL)
        return rt_explain(cudaErrorInvalidDevice, "devices %d and %d; there are %d", device, peer, rt_device_count());
    return cudaSuccess;
}

RT_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = can != NULL ? check_pair(device, peer) : cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *can = 0;
    return rt_return(error);
}

RT_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    cudaError_t error = flags == 0 ? check_pair(rt_ordinal(), peer) : cudaErrorInvalidValue;
    if (error == cudaSuccess && peer == rt_ordinal())
        error = rt_explain(cudaErrorInvalidDevice, "device %d is not its own peer", peer);
    if (error == cudaSuccess)
        error = rt_explain(cudaErrorPeerAccessUnsupported, "kernels of device %d do not reach memory of device %d",
                           rt_ordinal(), peer);
    return rt_return(error);
}

RT_API cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    cudaError_t error = check_pair(rt_ordinal(), peer);
    return rt_return(error == cudaSuccess ? cudaErrorPeerAccessNotEnabled : error);
}

RT_API cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int from, int to)
{
    cudaError_t error = value != NULL ? check_pair(from, to) : cudaErrorInvalidValue;
    if (error == cudaSuccess && from == to)
        error = rt_explain(cudaErrorInvalidDevice, "device %d is not its own peer", from);
    if (error == cudaSuccess &&
        (attribute < cudaDevP2PAttrPerformanceRank || attribute > cudaDevP2PAttrCudaArrayAccessSupported))
        error = rt_explain(cudaErrorInvalidValue, "attribute %d; allowed: 1 to 4", (int)attribute);
    if (error == cudaSuccess)
        *value = 0;
    return rt_return(error);
}
