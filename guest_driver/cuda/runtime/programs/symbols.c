/* The program's __device__, __constant__ and __managed__ variables, by the address of their shadow in host code. */
#include "runtime.h"

static cudaError_t find(struct rt_device *device, const void *symbol, struct rt_variable **variable, uint64_t *address)
{
    *variable = rt_variable(symbol);
    if (*variable == NULL)
        return rt_explain(cudaErrorInvalidSymbol, "%p is not a variable of the device", symbol);
    return rt_load_variable(device, *variable, address);
}

static cudaError_t check_span(const struct rt_variable *variable, size_t bytes, size_t offset)
{
    if (offset > variable->size || bytes > variable->size - offset)
        return rt_explain(cudaErrorInvalidValue, "%zu bytes at offset %zu of '%s', which has %zu", bytes, offset,
                          variable->name, variable->size);
    return cudaSuccess;
}

/* Copies between a symbol and `memory`, in either direction. */
static cudaError_t copy(const void *symbol, void *memory, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                        bool to_symbol, cudaStream_t stream, bool waits)
{
    struct rt_device *device;
    struct rt_variable *variable;
    uint64_t address;
    const enum cudaMemcpyKind with_host = to_symbol ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess)
        error = find(device, symbol, &variable, &address);
    if (error == cudaSuccess)
        error = check_span(variable, bytes, offset);
    if (error == cudaSuccess && kind != with_host && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
        error =
            rt_explain(cudaErrorInvalidMemcpyDirection, "copy of kind %d %s a symbol; allowed: %d, %d, %d", (int)kind,
                       to_symbol ? "to" : "from", (int)with_host, cudaMemcpyDeviceToDevice, cudaMemcpyDefault);
    if (error != cudaSuccess)
        return error;
    void *at = (void *)(uintptr_t)(address + offset);
    const struct rt_operation operation = {
        .kind = RT_COPY,
        .waits = waits,
        .copy = {.dst = to_symbol ? at : memory, .src = to_symbol ? memory : at, .size = bytes, .kind = kind}};
    return rt_submit(device, stream, &operation);
}

static cudaError_t copy_to(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                           cudaStream_t stream, bool waits)
{
    return copy(symbol, (void *)(uintptr_t)from, bytes, offset, kind, true, stream, waits); /* which is only read */
}

static cudaError_t copy_from(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                             cudaStream_t stream, bool waits)
{
    return copy(symbol, to, bytes, offset, kind, false, stream, waits);
}

RT_API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind)
{
    return rt_return(copy_to(symbol, from, bytes, offset, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                           enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(copy_to(symbol, from, bytes, offset, kind, stream, false));
}

RT_API cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                        enum cudaMemcpyKind kind)
{
    return rt_return(copy_from(to, symbol, bytes, offset, kind, NULL, true));
}

RT_API cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                             enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return rt_return(copy_from(to, symbol, bytes, offset, kind, stream, false));
}

RT_API cudaError_t cudaGetSymbolAddress(void **memory, const void *symbol)
{
    struct rt_device *device;
    struct rt_variable *variable;
    uint64_t address = 0;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && memory == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = find(device, symbol, &variable, &address);
    if (error == cudaSuccess)
        *memory = (void *)(uintptr_t)address;
    return rt_return(error);
}

RT_API cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
    struct rt_device *device;
    struct rt_variable *variable;
    uint64_t address;
    cudaError_t error = rt_current(&device);
    if (error == cudaSuccess && bytes == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = find(device, symbol, &variable, &address);
    if (error == cudaSuccess)
        *bytes = variable->size;
    return rt_return(error);
}
