/* Handles, versions, and words for what goes wrong. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dnn.h"

enum { MAGIC = 0x4e4e4456, MAJOR = 9, MINOR = 24, PATCH = 0, CUDART = 13000, TEXT_BYTES = 512 };
enum { PROPERTY_MAJOR = 0, PROPERTY_MINOR = 1, PROPERTY_PATCH = 2 };

static _Thread_local char last[TEXT_BYTES];

dnn_status dnn_fail(dnn_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(last, sizeof(last), format, arguments);
    va_end(arguments);
    return status;
}

bool dnn_is_handle(const struct dnn_handle *handle)
{
    return handle != NULL && handle->magic == MAGIC;
}

API dnn_status cudnnCreate(struct dnn_handle **handle);
API dnn_status cudnnCreate(struct dnn_handle **handle)
{
    if (handle == NULL)
        return dnn_fail(DNN_NULL_POINTER, "no place for the handle");
    *handle = NULL;
    if (dnn_runtime() == NULL)
        return dnn_fail(DNN_NOT_INITIALIZED, "this process has no libcudart of virtio-gpu-compute's: use vgc exec");
    *handle = calloc(1, sizeof(**handle));
    if (*handle == NULL)
        return dnn_fail(DNN_ALLOCATION_FAILED, "no memory for a handle");
    (*handle)->magic = MAGIC;
    return DNN_SUCCESS;
}

API dnn_status cudnnDestroy(struct dnn_handle *handle);
API dnn_status cudnnDestroy(struct dnn_handle *handle)
{
    if (handle != NULL && !dnn_is_handle(handle))
        return dnn_fail(DNN_BAD_PARAM, "no handle");
    if (handle != NULL)
        handle->magic = 0;
    free(handle);
    return DNN_SUCCESS;
}

API dnn_status cudnnSetStream(struct dnn_handle *handle, void *stream);
API dnn_status cudnnSetStream(struct dnn_handle *handle, void *stream)
{
    if (!dnn_is_handle(handle))
        return dnn_fail(DNN_BAD_PARAM, "no handle");
    handle->stream = stream;
    return DNN_SUCCESS;
}

API dnn_status cudnnGetStream(struct dnn_handle *handle, void **stream);
API dnn_status cudnnGetStream(struct dnn_handle *handle, void **stream)
{
    if (!dnn_is_handle(handle) || stream == NULL)
        return dnn_fail(DNN_BAD_PARAM, "no handle, or no place for the stream");
    *stream = handle->stream;
    return DNN_SUCCESS;
}

API size_t cudnnGetVersion(void);
API size_t cudnnGetVersion(void)
{
    return MAJOR * 10000 + MINOR * 100 + PATCH;
}

API size_t cudnnGetCudartVersion(void);
API size_t cudnnGetCudartVersion(void)
{
    return CUDART;
}

API dnn_status cudnnGetProperty(int property, int *value);
API dnn_status cudnnGetProperty(int property, int *value)
{
    static const int PARTS[] = {[PROPERTY_MAJOR] = MAJOR, [PROPERTY_MINOR] = MINOR, [PROPERTY_PATCH] = PATCH};
    if (property < PROPERTY_MAJOR || property > PROPERTY_PATCH || value == NULL)
        return dnn_fail(DNN_BAD_PARAM, "property %d; allowed: 0 to 2", property);
    *value = PARTS[property];
    return DNN_SUCCESS;
}

API const char *cudnnGetErrorString(int status);
API const char *cudnnGetErrorString(int status)
{
    static const struct {
        int number;
        const char *name;
    } NAMES[] = {
        {DNN_SUCCESS, "CUDNN_STATUS_SUCCESS"},
        {DNN_NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED"},
        {DNN_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
        {DNN_NULL_POINTER, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
        {DNN_NOT_FINALIZED, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
        {DNN_SHAPE_MISMATCH, "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH"},
        {DNN_ATTRIBUTE_TYPE, "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE"},
        {DNN_DESCRIPTOR_TYPE, "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE"},
        {DNN_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
        {DNN_GRAPH_PATTERN, "CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN"},
        {DNN_SHAPE, "CUDNN_STATUS_NOT_SUPPORTED_SHAPE"},
        {DNN_DATA_TYPE, "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE"},
        {DNN_LAYOUT, "CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"},
        {DNN_PADDING, "CUDNN_STATUS_NOT_SUPPORTED_PADDING"},
        {DNN_ALLOCATION_FAILED, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
        {DNN_EXECUTION_FAILED, "CUDNN_STATUS_EXECUTION_FAILED"},
    };
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
        if (NAMES[i].number == status)
            return NAMES[i].name;
    return "CUDNN_UNKNOWN_STATUS";
}

API void cudnnGetLastErrorString(char *message, size_t bytes);
API void cudnnGetLastErrorString(char *message, size_t bytes)
{
    if (message != NULL && bytes > 0)
        (void)snprintf(message, bytes, "%s", last);
}
