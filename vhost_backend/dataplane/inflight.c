/* The in-flight memory: mapping it, and answering requests that an earlier worker left behind. */
#include "internal.h"

#include <sys/mman.h>
#include <sys/stat.h>

int vgc_inflight_map(struct vgc_dp *dp, int fd, char *why)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    struct stat file;
    if (fd >= 0 && (fstat(fd, &file) != 0 || (uint64_t)file.st_size < sizeof(struct vgc_inflight)))
        return vgc_why(why, -EINVAL, "the in-flight memory is shorter than %zu bytes", sizeof(struct vgc_inflight));
    void *memory = mmap(NULL, sizeof(struct vgc_inflight), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED)
        return vgc_why(why, -errno, "cannot map the in-flight memory: %s", strerror(errno));
    dp->shared = memory;
    if (fd < 0) {
        dp->shared->magic = VGC_INFLIGHT_MAGIC;
        dp->shared->version = VGC_INFLIGHT_VERSION;
    }
    if (dp->shared->magic != VGC_INFLIGHT_MAGIC || dp->shared->version != VGC_INFLIGHT_VERSION)
        return vgc_why(why, -EINVAL, "the in-flight memory is not of version %d", VGC_INFLIGHT_VERSION);
    return 0;
}

void vgc_inflight_unmap(struct vgc_dp *dp)
{
    if (dp->shared != NULL)
        munmap(dp->shared, sizeof(struct vgc_inflight));
    dp->shared = NULL;
}

static bool head_is_set(const struct vgc_inflight_queue *shared, uint32_t head)
{
    return head < VGC_MAX_QUEUE_SIZE && (shared->heads[head / 64] >> (head % 64) & 1);
}

/* Repairs a pop or push that a worker's death cut in two (order of stores: vgc_inflight.h). */
static void finish_torn_pop_or_push(struct vgc_queue *queue)
{
    struct vgc_inflight_queue *shared = queue->shared;
    struct vgc_vq_device *vq = &queue->vq;
    if (shared->used_idx != vq->used_idx && shared->last_push < VGC_MAX_QUEUE_SIZE)
        shared->heads[shared->last_push / 64] &= ~(UINT64_C(1) << (shared->last_push % 64));
    shared->used_idx = vq->used_idx;
    const volatile uint16_t *avail = vq->ring.avail;
    if (avail[1] != vq->last_avail && head_is_set(shared, avail[2 + (vq->last_avail & (vq->ring.num - 1u))])) {
        vq->last_avail++;
        vq->avail_seen = vq->last_avail;
    }
    shared->last_avail = vq->last_avail;
}

/* Sets text and status: those of the black box for the request that the earlier worker died over, DEVICE_LOST for
 * others. */
static void describe_loss(struct vgc_dp *dp, struct vgc_req *req)
{
    struct vgc_black_box *box = &dp->shared->black_box;
    bool named = box->valid == VGC_BLACK_BOX_REQUEST && box->queue == req->queue->index &&
                 box->head == req->chain.head && box->status != VGC_STATUS_OK && box->status <= VGC_STATUS_INTERNAL;
    if (!named) {
        req->response.status = VGC_STATUS_DEVICE_LOST;
        strcpy(req->op.error, "the device's worker died while this request was in flight; contexts, programs and "
                              "memory are gone");
        return;
    }
    uint32_t len = box->text_len;
    len = len < sizeof(req->op.error) ? len : (uint32_t)sizeof(req->op.error) - 1;
    req->response.status = box->status;
    req->response.detail = box->detail;
    memcpy(req->op.error, box->text, len);
    req->op.error[len] = '\0';
}

static void answer_lost(struct vgc_dp *dp, struct vgc_queue *queue, uint16_t head)
{
    struct vgc_req *req = vgc_req_get(dp);
    int walked = vgc_vq_rewalk(&queue->vq, &dp->mem, head, &req->chain);
    req->queue = queue;
    req->answerable = walked == 1 && req->chain.writable_len >= sizeof(struct vgc_response);
    req->response = (struct vgc_response){0};
    describe_loss(dp, req);
    queue->in_flight++;
    dp->in_flight++;
    dp->requests_done++;
    dp->requests_failed++;
    vgc_deliver(dp, req);
}

void vgc_inflight_recover(struct vgc_dp *dp, struct vgc_queue *queue)
{
    struct vgc_inflight_queue *shared = queue->shared;
    finish_torn_pop_or_push(queue);
    for (uint32_t word = 0; word < VGC_INFLIGHT_WORDS; word++) {
        for (uint64_t left = shared->heads[word]; left != 0; left &= left - 1) {
            uint32_t head = word * 64 + (uint32_t)__builtin_ctzll(left);
            if (head < queue->vq.ring.num)
                answer_lost(dp, queue, (uint16_t)head);
            else
                shared->heads[word] &= ~(UINT64_C(1) << (head % 64));
        }
    }
    if (dp->shared->black_box.valid == VGC_BLACK_BOX_REQUEST && dp->shared->black_box.queue == queue->index)
        dp->shared->black_box.valid = 0;
}
