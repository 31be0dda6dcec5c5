/* The one way that work takes into a stream. */
#include "runtime.h"

cudaError_t rt_issue(struct rt_device *device, const struct rt_operation *operation, uint32_t number)
{
    const struct rt_copy *copy = &operation->copy;
    switch (operation->kind) {
    case RT_LAUNCH:
        return rt_issue_launch(device, &operation->launch, number);
    case RT_COPY:
        return rt_copy(device, copy->dst, copy->src, copy->size, copy->kind, number, !operation->waits);
    case RT_COPY_3D:
        return rt_unsupported("copies of three dimensions");
    case RT_FILL:
        return rt_fill(device, &operation->fill, number);
    case RT_EVENT_RECORD:
        return rt_issue_event_record(operation->event.event, number);
    case RT_EVENT_WAIT:
        return rt_issue_event_wait(operation->event.event, number);
    case RT_HOST_FUNCTION:
        return rt_unsupported("functions of the host in streams");
    case RT_CALL:
        return operation->call.call(device, operation->call.data, number);
    }
    return cudaErrorUnknown;
}

cudaError_t rt_submit(struct rt_device *device, cudaStream_t stream, const struct rt_operation *operation)
{
    uint32_t number;
    cudaError_t error = rt_enter_stream(device, stream, &number);
    return error == cudaSuccess ? rt_issue(device, operation, number) : error;
}
