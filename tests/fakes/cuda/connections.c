/* Connections: the hardware queues between host and GPU, which streams share if there are more streams than queues.
 *
 * Documented: their number is CUDA_DEVICE_MAX_CONNECTIONS, 1 to 32, by default 8 [CUDA C++ programming guide,
 * environment variables], and by default contexts and green contexts of a device share them [cuda.h,
 * CU_WORKQUEUE_SCOPE_DEVICE_CTX]. Known from practice: a connection is processed in order, so that work which cannot
 * begin yet delays other streams' work behind it. Assumed: new streams get connections in rotation; copies use the same
 * connections as kernels (drivers may have more for copies, CUDA_DEVICE_MAX_COPY_CONNECTIONS); each priority has its
 * own connections. As priorities are documented only as hints to the scheduling of kernels, the last assumption must be
 * checked on hardware. */
#include <stdlib.h>

#include "fake.h"

struct fake_connection {
    struct fake_op *first, *last; /* operations that have not begun */
};

struct fake_connections {
    struct fake_connection queues[FAKE_PRIORITIES][FAKE_MAX_CONNECTIONS];
    unsigned int next[FAKE_PRIORITIES];
};

static unsigned int num_connections(void)
{
    const char *asked = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int count = fake.settings.hardware.connections;
    if (count < 0)
        count = asked ? atoi(asked) : FAKE_CONNECTIONS;
    return count < 1 ? 1 : count > FAKE_MAX_CONNECTIONS ? FAKE_MAX_CONNECTIONS : (unsigned int)count;
}

void fake_connection_assign(struct fake_stream *stream)
{
    struct fake_context *primary = stream->context->primary;
    if (!fake.settings.hardware.connections)
        return;
    if (!primary->connections)
        primary->connections = calloc(1, sizeof *primary->connections);
    if (!primary->connections)
        abort();
    int level = -stream->priority;
    unsigned int index = primary->connections->next[level]++ % num_connections();
    stream->connection = &primary->connections->queues[level][index];
}

void fake_connection_join(struct fake_stream *stream, struct fake_op *op)
{
    struct fake_connection *connection = stream->connection;
    op->connection = connection;
    if (!connection)
        return;
    op->before = connection->last;
    if (connection->last)
        connection->last->behind = op;
    else
        connection->first = op;
    connection->last = op;
}

bool fake_connection_is_first(const struct fake_op *op)
{
    return !op->connection || op->connection->first == op;
}

void fake_connection_leave(struct fake_op *op)
{
    struct fake_connection *connection = op->connection;
    if (!connection)
        return;
    if (op->before)
        op->before->behind = op->behind;
    else
        connection->first = op->behind;
    if (op->behind)
        op->behind->before = op->before;
    else
        connection->last = op->before;
    op->connection = NULL;
    pthread_cond_broadcast(&fake.progress);
}
