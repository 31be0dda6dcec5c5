// Does what its standard input says, a command and its arguments on a line, and answers with the call's error and
// value.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static cudaEvent_t events[16];
static int num_events;
static char value[200];
static char pipe_path[200];
static volatile bool has_run;

__global__ void wait_for(volatile int *flag)
{
    while (*flag == 0)
        ;
}

static cudaStream_t stream()
{
    static cudaStream_t made;
    if (made == NULL)
        cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return made;
}

static void *pointer(const char *word)
{
    return (void *)strtoull(word, NULL, 0);
}

static cudaEvent_t event(const char *word)
{
    return events[atoi(word)];
}

static void show_bytes(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        snprintf(value + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
}

template <class Handle> static Handle handle(const char *word)
{
    Handle made;
    for (size_t i = 0; i < sizeof made; i++) {
        unsigned byte = 0;
        sscanf(word + 2 * i, "%2x", &byte);
        ((unsigned char *)&made)[i] = (unsigned char)byte;
    }
    return made;
}

/* Blocks until somebody opens the other end of a named pipe. */
static void CUDART_CB open_pipe(void *path)
{
    fclose(fopen((const char *)path, "r"));
    has_run = true;
}

static cudaError_t new_event(cudaError_t error)
{
    snprintf(value, sizeof value, "%d", num_events++);
    return error;
}

static cudaError_t memory(const char *command, const char *first, const char *second)
{
    void *found = NULL;
    int number = 0;
    cudaIpcMemHandle_t made = {};
    cudaError_t error;
    if (strcmp(command, "malloc") == 0) {
        error = cudaMalloc(&found, strtoull(first, NULL, 0));
        snprintf(value, sizeof value, "%p", found);
    } else if (strcmp(command, "free") == 0) {
        error = cudaFree(pointer(first));
    } else if (strcmp(command, "export") == 0) {
        error = cudaIpcGetMemHandle(&made, pointer(first));
        show_bytes(&made, sizeof made);
    } else if (strcmp(command, "open") == 0) {
        unsigned flags = *second ? (unsigned)atoi(second) : cudaIpcMemLazyEnablePeerAccess;
        error = cudaIpcOpenMemHandle(&found, handle<cudaIpcMemHandle_t>(first), flags);
        snprintf(value, sizeof value, "%p", found);
    } else if (strcmp(command, "close") == 0) {
        error = cudaIpcCloseMemHandle(pointer(first));
    } else if (strcmp(command, "set") == 0) {
        number = atoi(second);
        error = cudaMemcpyAsync(pointer(first), &number, sizeof number, cudaMemcpyHostToDevice, stream());
        error = error == cudaSuccess ? cudaStreamSynchronize(stream()) : error;
    } else {
        error = cudaMemcpy(&number, pointer(first), sizeof number, cudaMemcpyDeviceToHost);
        snprintf(value, sizeof value, "%d", number);
    }
    return error;
}

static cudaError_t order(const char *command, const char *first)
{
    cudaIpcEventHandle_t made = {};
    if (strcmp(command, "event") == 0)
        return new_event(cudaEventCreateWithFlags(&events[num_events], cudaEventDisableTiming | cudaEventInterprocess));
    if (strcmp(command, "eopen") == 0)
        return new_event(cudaIpcOpenEventHandle(&events[num_events], handle<cudaIpcEventHandle_t>(first)));
    if (strcmp(command, "eexport") == 0) {
        cudaError_t error = cudaIpcGetEventHandle(&made, event(first));
        show_bytes(&made, sizeof made);
        return error;
    }
    if (strcmp(command, "record") == 0) {
        cudaError_t error = cudaEventRecord(event(first), stream());
        snprintf(value, sizeof value, "%d", has_run);
        return error;
    }
    if (strcmp(command, "wait") == 0)
        return cudaStreamWaitEvent(stream(), event(first), 0);
    if (strcmp(command, "sync") == 0)
        return cudaEventSynchronize(event(first));
    if (strcmp(command, "destroy") == 0)
        return cudaEventDestroy(event(first));
    return cudaEventQuery(event(first));
}

static cudaError_t other(const char *command, const char *first)
{
    size_t free = 0, total = 0;
    if (strcmp(command, "use") == 0)
        return cudaSetDevice(atoi(first));
    if (strcmp(command, "reset") == 0)
        return cudaDeviceReset();
    if (strcmp(command, "drain") == 0)
        return cudaStreamSynchronize(stream());
    if (strcmp(command, "call") == 0)
        return cudaLaunchHostFunc(stream(), open_pipe, strcpy(pipe_path, first));
    if (strcmp(command, "hold") == 0) {
        wait_for<<<1, 1, 0, stream()>>>((int *)pointer(first));
        return cudaGetLastError();
    }
    if (strcmp(command, "occupy") == 0) { /* the page at an address, for the host */
        void *wanted = (void *)((size_t)pointer(first) & ~(size_t)4095);
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
        return mmap(wanted, 4096, PROT_READ, flags, -1, 0) == wanted ? cudaSuccess : cudaErrorUnknown;
    }
    cudaError_t error = cudaMemGetInfo(&free, &total);
    snprintf(value, sizeof value, "%zu", total - free);
    return error;
}

int main()
{
    static char line[1000];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char command[16] = "", first[200] = "", second[200] = "";
        sscanf(line, "%15s %199s %199s", command, first, second);
        value[0] = '\0';
        cudaError_t error;
        if (strstr("malloc free export open close set get", command) != NULL)
            error = memory(command, first, second);
        else if (strstr("event eopen eexport record wait sync destroy query", command) != NULL)
            error = order(command, first);
        else
            error = other(command, first);
        printf("%s %s\n", cudaGetErrorName(error), value);
        fflush(stdout);
        (void)cudaGetLastError();
    }
    return 0;
}
