/* Queue of the requests that Python serves, and access to their bytes. */
#include "internal.h"

void vgc_serve_cold(struct vgc_dp *dp, struct vgc_req *req)
{
    req->next = NULL;
    req->cold = true;
    if (dp->cold_last != NULL)
        dp->cold_last->next = req;
    else
        dp->cold_first = req;
    dp->cold_last = req;
    vgc_notify(dp);
}

static uint32_t number_of(struct vgc_dp *dp, const struct vgc_req *req)
{
    uint32_t index = (req->request.context & 0xffff) - 1; /* finds a dying context, too */
    return index < VGC_MAX_CONTEXTS && dp->contexts[index].id == req->request.context ? index + 1 : 0;
}

int vgc_dp_cold_take(struct vgc_dp *dp, struct vgc_cold *cold)
{
    vgc_dp_lock(dp);
    struct vgc_req *req = dp->cold_first;
    if (req != NULL) {
        dp->cold_first = req->next;
        if (dp->cold_first == NULL)
            dp->cold_last = NULL;
        *cold = (struct vgc_cold){.token = req->index,
                                  .opcode = req->request.opcode,
                                  .context = req->request.context,
                                  .engine_context = number_of(dp, req),
                                  .request_id = req->request.request_id,
                                  .readable_len = req->chain.readable_len,
                                  .writable_len = req->chain.writable_len - sizeof(struct vgc_response)};
        memcpy(cold->body, &req->body, sizeof(req->body));
    }
    vgc_dp_unlock(dp);
    return req != NULL;
}

_Static_assert(sizeof(union vgc_body) <= sizeof(((struct vgc_cold *)0)->body), "vgc_cold.body");

static struct vgc_req *cold_of(struct vgc_dp *dp, uint32_t token)
{
    return token < dp->num_reqs && dp->reqs[token].cold ? &dp->reqs[token] : NULL;
}

static bool fits(uint64_t offset, uint64_t len, uint64_t total)
{
    return offset <= total && len <= total - offset;
}

int vgc_dp_cold_read(struct vgc_dp *dp, uint32_t token, uint64_t offset, void *to, uint64_t len)
{
    int error = 0;
    vgc_dp_lock(dp);
    const struct vgc_req *req = cold_of(dp, token);
    if (req == NULL)
        error = -ENOENT;
    else if (!fits(offset, len, req->chain.readable_len))
        error = -ERANGE;
    else
        vgc_gather(req->chain.spans, offset, to, len);
    vgc_dp_unlock(dp);
    return error;
}

int vgc_dp_cold_write(struct vgc_dp *dp, uint32_t token, uint64_t offset, const void *from, uint64_t len)
{
    int error = 0;
    vgc_dp_lock(dp);
    const struct vgc_req *req = cold_of(dp, token);
    if (req == NULL)
        error = -ENOENT;
    else if (!fits(offset, len, req->chain.writable_len - sizeof(struct vgc_response)))
        error = -ERANGE;
    else
        vgc_scatter(req->chain.spans + req->chain.num_readable, sizeof(struct vgc_response) + offset, from, len);
    vgc_dp_unlock(dp);
    return error;
}

int vgc_dp_cold_complete(struct vgc_dp *dp, uint32_t token, uint32_t status, uint64_t value, uint64_t aux,
                         uint32_t payload_len, const char *text)
{
    vgc_dp_lock(dp);
    struct vgc_req *req = cold_of(dp, token);
    if (req != NULL) {
        req->cold = false;
        req->response.value = value;
        req->response.aux = aux;
        strncpy(req->op.error, text != NULL ? text : "", sizeof(req->op.error) - 1);
        req->op.error[sizeof(req->op.error) - 1] = '\0';
        struct vgc_queue *queue = req->queue;
        vgc_complete(dp, req, status, payload_len);
        vgc_flush_call(queue);
    }
    vgc_dp_unlock(dp);
    return req != NULL ? 0 : -ENOENT;
}
