/* Conditional nodes: bodies that run or not, or again, by a number that kernels set.
 *
 * The number is a variable on the device, whose address is the handle. Behind a conditional node, as behind a function
 * of the host, a stream's work is put off: the thread of its queue waits for the work before the node, reads the
 * number, issues a body, and reads again if that is a loop. */
#include <stdlib.h>

#include "exec.h"

struct rt_condition {
    struct rt_condition *next;
    struct rt_device *device;
    uint32_t epoch;
    void *value;
    unsigned long long graph; /* its id */
    unsigned initial;
    bool is_assigned;
    uint32_t users; /* nodes, and the graph */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of conditions, and of the counts of choices */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct rt_condition *conditions;

/* ---- conditions ----------------------------------------------------------------------------- */

/* A graph that stands alone takes its own conditions only. */
static bool fits(const struct rt_condition *condition, const struct CUgraph_st *graph)
{
    return condition->device == graph->device && condition->graph != 0 &&
           (graph->is_child || condition->graph == graph->id);
}

static struct rt_condition *hold(cudaGraphConditionalHandle handle, const struct CUgraph_st *graph)
{
    (void)pthread_mutex_lock(&lock);
    struct rt_condition *found = conditions;
    while (found != NULL && ((uintptr_t)found->value != handle || !fits(found, graph)))
        found = found->next;
    if (found != NULL)
        found->users++;
    (void)pthread_mutex_unlock(&lock);
    return found;
}

static void free_value(struct rt_condition *condition)
{
    struct rt_range range;
    if (condition->epoch == condition->device->epoch && rt_synchronize(condition->device) == cudaSuccess &&
        rt_remove_range((uint64_t)(uintptr_t)condition->value, &range))
        (void)rt_free(&range);
    free(condition);
}

static void drop(struct rt_condition *condition)
{
    (void)pthread_mutex_lock(&lock);
    bool is_last = --condition->users == 0;
    for (struct rt_condition **at = &conditions; is_last && *at != NULL; at = &(*at)->next) {
        if (*at == condition) {
            *at = condition->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    if (is_last)
        free_value(condition);
}

void rt_drop_conditions_of(const struct CUgraph_st *graph)
{
    struct rt_condition *found;
    do {
        (void)pthread_mutex_lock(&lock);
        for (found = conditions; found != NULL && found->graph != graph->id;)
            found = found->next;
        if (found != NULL)
            found->graph = 0;
        (void)pthread_mutex_unlock(&lock);
        if (found != NULL)
            drop(found);
    } while (found != NULL);
}

RT_API cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                                    unsigned int initial, unsigned int flags)
{
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && (handle == NULL || (flags & ~(unsigned)cudaGraphCondAssignDefault) != 0))
        error = cudaErrorInvalidValue;
    struct rt_condition *made = error == cudaSuccess ? calloc(1, sizeof(*made)) : NULL;
    if (error == cudaSuccess && made == NULL)
        error = cudaErrorMemoryAllocation;
    if (error != cudaSuccess)
        return rt_return(error);
    *made = (struct rt_condition){.device = graph->device,
                                  .epoch = graph->device->epoch,
                                  .graph = graph->id,
                                  .initial = initial,
                                  .is_assigned = flags != 0,
                                  .users = 1};
    error = rt_allocate(made->device, sizeof(made->initial), &made->value);
    if (error != cudaSuccess) {
        free(made);
        return rt_return(error);
    }
    (void)pthread_mutex_lock(&lock);
    made->next = conditions;
    conditions = made;
    (void)pthread_mutex_unlock(&lock);
    *handle = (uintptr_t)made->value;
    return rt_return(cudaSuccess);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

void rt_free_conditional(struct rt_conditional *conditional)
{
    for (unsigned i = 0; i < conditional->size; i++) {
        if (conditional->execs != NULL && conditional->execs[i] != NULL)
            rt_free_exec(conditional->execs[i]);
        if (conditional->bodies != NULL && conditional->bodies[i] != NULL)
            rt_free_graph(conditional->bodies[i]);
    }
    if (conditional->condition != NULL)
        drop(conditional->condition);
    free(conditional->execs);
    free(conditional->bodies);
    free(conditional);
}

/* Without bodies, but with room for them. */
static struct rt_conditional *make(enum cudaGraphConditionalNodeType type, unsigned size)
{
    struct rt_conditional *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return NULL;
    *made = (struct rt_conditional){.type = type,
                                    .size = size,
                                    .bodies = calloc(size, sizeof(*made->bodies)),
                                    .execs = calloc(size, sizeof(*made->execs))};
    if (made->bodies != NULL && made->execs != NULL)
        return made;
    rt_free_conditional(made);
    return NULL;
}

struct rt_conditional *rt_clone_conditional(const struct rt_conditional *conditional)
{
    struct rt_conditional *made = make(conditional->type, conditional->size);
    if (made == NULL)
        return NULL;
    made->condition = conditional->condition;
    (void)pthread_mutex_lock(&lock);
    made->condition->users++;
    (void)pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < made->size; i++) {
        made->bodies[i] = rt_clone_graph(conditional->bodies[i]);
        if (made->bodies[i] == NULL) {
            rt_free_conditional(made);
            return NULL;
        }
        made->bodies[i]->is_child = true;
    }
    return made;
}

static cudaError_t check_params(const struct cudaConditionalNodeParams *params)
{
    enum { MOST_BODIES = 4096 };
    unsigned most = params->type == cudaGraphCondTypeIf ? 2 : params->type == cudaGraphCondTypeWhile ? 1 : MOST_BODIES;
    if ((unsigned)params->type > cudaGraphCondTypeSwitch || params->size < 1 || params->size > most)
        return rt_explain(
            cudaErrorInvalidValue,
            "a conditional node of type %d with %u graphs: one or two for type %d (if), one for %d (while), "
            "1 to %d for %d (switch)",
            (int)params->type, params->size, cudaGraphCondTypeIf, cudaGraphCondTypeWhile, MOST_BODIES,
            cudaGraphCondTypeSwitch);
    return cudaSuccess;
}

static cudaError_t make_bodies(const struct CUgraph_st *graph, const struct cudaConditionalNodeParams *params,
                               struct rt_conditional **out)
{
    struct rt_conditional *made = make(params->type, params->size);
    if (made == NULL)
        return cudaErrorMemoryAllocation;
    made->condition = hold(params->handle, graph);
    cudaError_t error = cudaSuccess;
    if (made->condition == NULL)
        error =
            rt_explain(cudaErrorInvalidValue, "%#llx is no handle of cudaGraphConditionalHandleCreate() for this graph",
                       (unsigned long long)params->handle);
    for (unsigned i = 0; i < made->size && error == cudaSuccess; i++) {
        made->bodies[i] = rt_make_graph(graph->device);
        if (made->bodies[i] != NULL)
            made->bodies[i]->is_child = true;
        else
            error = cudaErrorMemoryAllocation;
    }
    if (error == cudaSuccess)
        *out = made;
    else
        rt_free_conditional(made);
    return error;
}

cudaError_t rt_add_conditional_node(struct CUgraph_st *graph, const cudaGraphNode_t *after, size_t count,
                                    struct cudaConditionalNodeParams *params, cudaGraphNode_t *node)
{
    struct rt_conditional *made;
    cudaError_t error = rt_check_graph(graph);
    if (error == cudaSuccess && node == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = check_params(params);
    if (error == cudaSuccess)
        error = make_bodies(graph, params, &made);
    if (error != cudaSuccess)
        return error;
    error = rt_add_node(graph, after, count, cudaGraphNodeTypeConditional, NULL, node);
    if (error != cudaSuccess) {
        rt_free_conditional(made);
        return error;
    }
    (*node)->conditional = made;
    params->phGraph_out = made->bodies;
    return cudaSuccess;
}

/* ---- launches ------------------------------------------------------------------------------- */

cudaError_t rt_assign_conditions(const struct CUgraphExec_st *exec, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < exec->num_steps && error == cudaSuccess; i++) {
        const struct rt_conditional *conditional = exec->steps[i].node->conditional;
        if (conditional == NULL)
            continue;
        const struct rt_condition *condition = conditional->condition;
        const struct rt_fill fill = {.dst = condition->value,
                                     .value = condition->initial,
                                     .unit = 4,
                                     .pitch = 4,
                                     .width = 4,
                                     .height = 1,
                                     .depth = 1};
        const struct rt_operation operation = {.kind = RT_FILL, .fill = fill};
        if (condition->is_assigned)
            error = rt_submit(exec->device, stream, &operation);
        for (unsigned body = 0; body < conditional->size && error == cudaSuccess; body++)
            error = rt_assign_conditions(conditional->execs[body], stream);
    }
    return error;
}

/* The number, when the work before has been done. */
static cudaError_t read_number(const struct rt_condition *condition, struct CUstream_st *stream, unsigned *number)
{
    const struct rt_operation operation = {
        .kind = RT_COPY, .waits = true, .copy = {number, condition->value, sizeof(*number), cudaMemcpyDeviceToHost}};
    cudaError_t error = rt_issue_now(condition->device, stream, &operation);
    cudaError_t earlier = rt_settle(condition->device);
    return earlier != cudaSuccess ? earlier : error;
}

/* The body for a number, or `size` for none. */
static unsigned choose(const struct rt_conditional *conditional, unsigned number)
{
    switch (conditional->type) {
    case cudaGraphCondTypeIf:
        return number != 0 ? 0 : 1;
    case cudaGraphCondTypeWhile:
        return number != 0 ? 0 : conditional->size;
    case cudaGraphCondTypeSwitch:
        break;
    }
    return number;
}

static cudaError_t make_choice(const struct rt_conditional *conditional, struct CUstream_st *stream);

static cudaError_t issue_body(const struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < exec->num_segments && error == cudaSuccess; i++) {
        const struct rt_segment *segment = &exec->segments[i];
        const struct rt_operation graph = {.kind = RT_GRAPH, .graph = segment->sent};
        if (segment->sent != NULL)
            error = rt_issue_now(exec->device, stream, &graph);
        for (size_t at = segment->first; segment->sent == NULL && at < segment->end && error == cudaSuccess; at++) {
            const struct rt_step *step = &exec->steps[at];
            if (step->node->conditional != NULL)
                error = make_choice(step->node->conditional, stream);
            else if (step->kind == RT_STEP_NODE && !step->node->is_disabled && step->node->operation != NULL)
                error = rt_issue_now(exec->device, stream, step->node->operation);
        }
    }
    return error;
}

static cudaError_t make_choice(const struct rt_conditional *conditional, struct CUstream_st *stream)
{
    for (;;) {
        unsigned number = 0;
        cudaError_t error = read_number(conditional->condition, stream, &number);
        unsigned body = choose(conditional, number);
        if (error == cudaSuccess && body < conditional->size)
            error = issue_body(conditional->execs[body], stream);
        if (error != cudaSuccess || conditional->type != cudaGraphCondTypeWhile || body == conditional->size)
            return error;
    }
}

/* Task of the thread of a stream's queue. */
static cudaError_t run_task(struct CUstream_st *stream, void *data)
{
    const struct CUgraphNode_st *node = data;
    cudaError_t error = make_choice(node->conditional, stream);
    (void)pthread_mutex_lock(&lock);
    (*node->num_choices)--;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t rt_submit_choice(struct CUgraphExec_st *exec, struct CUgraphNode_st *node, cudaStream_t stream)
{
    const struct rt_operation operation = {.kind = RT_TASK, .task = {run_task, node}};
    (void)pthread_mutex_lock(&lock);
    exec->num_choices++;
    (void)pthread_mutex_unlock(&lock);
    node->num_choices = &exec->num_choices;
    cudaError_t error = rt_submit(exec->device, stream, &operation);
    if (error == cudaSuccess)
        return cudaSuccess;
    (void)pthread_mutex_lock(&lock);
    exec->num_choices--;
    (void)pthread_mutex_unlock(&lock);
    return error;
}

void rt_await_choices(struct CUgraphExec_st *exec)
{
    (void)pthread_mutex_lock(&lock);
    while (exec->num_choices > 0)
        rt_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
}
