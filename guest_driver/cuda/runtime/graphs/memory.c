/* Memory that graphs allocate, and objects of the program that live as long as graphs.
 *
 * A graph's memory has its address from the time that the node is made; here it is allocated then, too, and stays until
 * the last graph and executable graph that uses it is gone. Launches only note what they leave allocated, which
 * outlives the graphs until it is freed [CUDA programming guide: graph memory nodes]. Freeing it, in a graph or by
 * cudaFree(), else only ends the program's right to use it until the next launch. */
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "graph.h"

struct rt_graph_memory {
    struct rt_graph_memory *next;
    struct rt_device *device;
    void *address;
    size_t size;
    uint32_t epoch;
    uint32_t users; /* nodes */
    bool is_live;   /* a launch has allocated it, and nothing has freed it since */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct rt_graph_memory *memories;
static uint64_t used_bytes[RT_MAX_DEVICES];
static uint64_t most_bytes[RT_MAX_DEVICES];

static struct rt_graph_memory *find(const void *address)
{
    struct rt_graph_memory *memory = memories;
    while (memory != NULL && (memory->address != address || memory->epoch != memory->device->epoch))
        memory = memory->next;
    return memory;
}

/* Forgets memory that no graph uses and that went with its context. With the lock. */
static void forget_lost(void)
{
    struct rt_graph_memory **at = &memories;
    while (*at != NULL) {
        struct rt_graph_memory *memory = *at;
        if (memory->users > 0 || memory->epoch == memory->device->epoch) {
            at = &memory->next;
            continue;
        }
        *at = memory->next;
        used_bytes[memory->device->ordinal] -= memory->size;
        free(memory);
    }
}

bool rt_is_graph_memory(const void *address)
{
    (void)pthread_mutex_lock(&lock);
    bool found = find(address) != NULL;
    (void)pthread_mutex_unlock(&lock);
    return found;
}

void rt_hold_memory(struct rt_graph_memory *memory)
{
    (void)pthread_mutex_lock(&lock);
    memory->users++;
    (void)pthread_mutex_unlock(&lock);
}

/* Takes memory off the list that neither a graph nor the program uses. With the lock. */
static bool is_unused(const struct rt_graph_memory *memory)
{
    const bool is_live = memory->is_live && memory->epoch == memory->device->epoch;
    if (memory->users > 0 || is_live)
        return false;
    for (struct rt_graph_memory **at = &memories; *at != NULL; at = &(*at)->next) {
        if (*at == memory) {
            *at = memory->next;
            used_bytes[memory->device->ordinal] -= memory->size;
            break;
        }
    }
    return true;
}

static void give_back(struct rt_graph_memory *memory)
{
    struct rt_range range;
    if (memory->epoch == memory->device->epoch && rt_synchronize(memory->device) == cudaSuccess &&
        rt_remove_range((uint64_t)(uintptr_t)memory->address, &range))
        (void)rt_free(&range);
    free(memory);
}

void rt_drop_memory(struct rt_graph_memory *memory)
{
    (void)pthread_mutex_lock(&lock);
    memory->users--;
    const bool is_last = is_unused(memory);
    (void)pthread_mutex_unlock(&lock);
    if (is_last)
        give_back(memory);
}

bool rt_free_graph_memory(const void *address)
{
    (void)pthread_mutex_lock(&lock);
    struct rt_graph_memory *memory = find(address);
    if (memory != NULL)
        memory->is_live = false;
    const bool is_last = memory != NULL && is_unused(memory);
    (void)pthread_mutex_unlock(&lock);
    if (is_last)
        give_back(memory);
    return memory != NULL;
}

void rt_note_launch(const struct CUgraphExec_st *exec)
{
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < exec->num_steps; i++) {
        const struct CUgraphNode_st *node = exec->steps[i].node; /* the edges have what is freed allocated before */
        if (node->memory != NULL)
            node->memory->is_live = node->type == cudaGraphNodeTypeMemAlloc;
    }
    (void)pthread_mutex_unlock(&lock);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static cudaError_t allocate(struct rt_device *device, size_t size, struct rt_graph_memory **out)
{
    struct rt_graph_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return cudaErrorMemoryAllocation;
    *memory = (struct rt_graph_memory){.device = device, .size = size, .epoch = device->epoch, .users = 1};
    cudaError_t error = rt_allocate(device, size, &memory->address);
    if (error != cudaSuccess) {
        free(memory);
        rt_tell_no_fallback(error, "memory of a graph");
        return error;
    }
    (void)pthread_mutex_lock(&lock);
    forget_lost();
    memory->next = memories;
    memories = memory;
    used_bytes[device->ordinal] += size;
    most_bytes[device->ordinal] = RT_MAX(most_bytes[device->ordinal], used_bytes[device->ordinal]);
    (void)pthread_mutex_unlock(&lock);
    *out = memory;
    return cudaSuccess;
}

RT_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                            size_t count, struct cudaMemAllocNodeParams *params)
{
    struct rt_graph_memory *memory;
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && (node == NULL || params == NULL || params->bytesize == 0))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = allocate(graph->device, params->bytesize, &memory);
    if (error != cudaSuccess)
        return rt_return(error);
    error = rt_add_node(graph, after, count, cudaGraphNodeTypeMemAlloc, NULL, node);
    if (error != cudaSuccess) {
        rt_drop_memory(memory);
        return rt_return(error);
    }
    (*node)->memory = memory;
    params->dptr = memory->address;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                           size_t count, void *address)
{
    cudaError_t error = rt_check_graph(graph);
    (void)pthread_mutex_lock(&lock);
    struct rt_graph_memory *memory = find(address);
    if (memory != NULL)
        memory->users++;
    (void)pthread_mutex_unlock(&lock);
    if (error == cudaSuccess && (node == NULL || memory == NULL))
        error = rt_explain(cudaErrorInvalidValue, "%p was not allocated by a graph", address);
    if (error == cudaSuccess)
        error = rt_add_node(graph, after, count, cudaGraphNodeTypeMemFree, NULL, node);
    if (error == cudaSuccess)
        (*node)->memory = memory;
    else if (memory != NULL)
        rt_drop_memory(memory);
    return rt_return(error);
}

RT_API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *params)
{
    cudaError_t error = rt_check_node(node);
    if (error == cudaSuccess && (node->type != cudaGraphNodeTypeMemAlloc || params == NULL))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    memset(params, 0, sizeof(*params));
    params->poolProps.allocType = cudaMemAllocationTypePinned;
    params->poolProps.location.type = cudaMemLocationTypeDevice;
    params->poolProps.location.id = node->memory->device->ordinal;
    params->bytesize = node->memory->size;
    params->dptr = node->memory->address;
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *address)
{
    cudaError_t error = rt_check_node(node);
    if (error == cudaSuccess && (node->type != cudaGraphNodeTypeMemFree || address == NULL))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *(void **)address = node->memory->address;
    return rt_return(error);
}

/* ---- statistics ----------------------------------------------------------------------------- */

RT_API cudaError_t cudaDeviceGraphMemTrim(int ordinal) /* nothing is kept that no graph uses */
{
    struct rt_device *device;
    return rt_return(rt_device(ordinal, &device));
}

RT_API cudaError_t cudaDeviceGetGraphMemAttribute(int ordinal, enum cudaGraphMemAttributeType attribute, void *value)
{
    struct rt_device *device;
    cudaError_t error = rt_device(ordinal, &device);
    if (error == cudaSuccess && (value == NULL || (unsigned)attribute > cudaGraphMemAttrReservedMemHigh))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_return(error);
    bool is_high = attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
    (void)pthread_mutex_lock(&lock);
    forget_lost();
    *(uint64_t *)value = is_high ? most_bytes[ordinal] : used_bytes[ordinal];
    (void)pthread_mutex_unlock(&lock);
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaDeviceSetGraphMemAttribute(int ordinal, enum cudaGraphMemAttributeType attribute, void *value)
{
    struct rt_device *device;
    cudaError_t error = rt_device(ordinal, &device);
    bool is_high = attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
    if (error == cudaSuccess && (value == NULL || !is_high || *(uint64_t *)value != 0))
        error = rt_explain(cudaErrorInvalidValue, "only the two highest values can be set, to 0");
    if (error != cudaSuccess)
        return rt_return(error);
    (void)pthread_mutex_lock(&lock);
    most_bytes[ordinal] = used_bytes[ordinal];
    (void)pthread_mutex_unlock(&lock);
    return rt_return(cudaSuccess);
}

/* ---- objects of the program --------------------------------------------------------------------- */

#define OBJECT_MAGIC UINT64_C(0x4a424f5245534556)

struct CUuserObject_st {
    uint64_t magic;
    void *what;
    cudaHostFn_t destroy;
    uint64_t users;
};

struct rt_user_use { /* references of a graph */
    struct rt_user_use *next;
    cudaUserObject_t object;
    uint64_t count;
};

static void release(cudaUserObject_t object, uint64_t count)
{
    (void)pthread_mutex_lock(&lock);
    object->users -= RT_MIN(count, object->users);
    bool is_last = object->users == 0;
    (void)pthread_mutex_unlock(&lock);
    if (!is_last)
        return;
    object->destroy(object->what);
    rt_handle_free(object, sizeof(*object));
}

static bool is_object(const struct CUuserObject_st *object)
{
    return (uintptr_t)object >= 4096 && object->magic == OBJECT_MAGIC;
}

static void retain(cudaUserObject_t object, uint64_t count)
{
    (void)pthread_mutex_lock(&lock);
    object->users += count;
    (void)pthread_mutex_unlock(&lock);
}

static cudaError_t use(struct CUgraph_st *graph, cudaUserObject_t object, uint64_t count)
{
    struct rt_user_use *made = malloc(sizeof(*made));
    if (made == NULL)
        return cudaErrorMemoryAllocation;
    *made = (struct rt_user_use){graph->objects, object, count};
    graph->objects = made;
    return cudaSuccess;
}

cudaError_t rt_copy_user_objects(struct CUgraph_st *to, const struct CUgraph_st *from)
{
    cudaError_t error = cudaSuccess;
    for (const struct rt_user_use *at = from->objects; at != NULL && error == cudaSuccess; at = at->next) {
        error = use(to, at->object, 1);
        if (error == cudaSuccess)
            retain(at->object, 1);
    }
    return error;
}

void rt_drop_user_objects(struct CUgraph_st *graph)
{
    while (graph->objects != NULL) {
        struct rt_user_use *gone = graph->objects;
        graph->objects = gone->next;
        release(gone->object, gone->count);
        free(gone);
    }
}

RT_API cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *what, cudaHostFn_t destroy,
                                        unsigned int initialRefcount, unsigned int flags)
{
    if (object == NULL || destroy == NULL || initialRefcount == 0 || flags != cudaUserObjectNoDestructorSync)
        return rt_return(cudaErrorInvalidValue);
    *object = rt_handle_new(sizeof(**object));
    if (*object == NULL)
        return rt_return(cudaErrorMemoryAllocation);
    **object = (struct CUuserObject_st){OBJECT_MAGIC, what, destroy, initialRefcount};
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    if (!is_object(object) || count == 0)
        return rt_return(cudaErrorInvalidValue);
    retain(object, count);
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    if (!is_object(object) || count == 0)
        return rt_return(cudaErrorInvalidValue);
    release(object, count);
    return rt_return(cudaSuccess);
}

RT_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                             unsigned int flags)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && (!is_object(object) || count == 0 || flags > cudaGraphUserObjectMove))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = use(graph, object, count);
    if (error == cudaSuccess && flags != cudaGraphUserObjectMove) /* else the caller's references become the graph's */
        retain(object, count);
    return rt_return(error);
}

RT_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
    cudaError_t error = rt_check_graph(graph);
    if (error != cudaSuccess)
        return rt_return(error);
    for (struct rt_user_use **at = &graph->objects; *at != NULL; at = &(*at)->next) {
        struct rt_user_use *found = *at;
        if (found->object != object || found->count < count)
            continue;
        found->count -= count;
        if (found->count == 0) {
            *at = found->next;
            free(found);
        }
        release(object, count);
        return rt_return(cudaSuccess);
    }
    return rt_return(rt_explain(cudaErrorInvalidValue, "the graph has not so many references to the object"));
}
