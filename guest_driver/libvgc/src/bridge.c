/* A transport without PCI for guests that can share files and a connection with the other side, and no descriptors:
 * region and configuration space are files, and kicks and calls are bytes of TCP connections to 127.0.0.1.
 *
 * $VGC_BRIDGE describes a device to any program that uses libvgc, for tests on the host, where Wine runs programs for
 * Windows:
 *     name=vm1,region=Z:\run\vm1\region,config=Z:\run\vm1\config,gpa=0x100000000,features=0x130000000,ring=256,queues=2,port=4711
 * Several are separated by semicolons, and chosen by their index.
 *
 * For each queue that it uses, a process has a connection of its own. The first byte that it sends is the queue's
 * number, the first that comes says that its calls will come. Each byte after that is a kick or a call, whatever its
 * value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const uint64_t ANSWERS_WITHIN_NS = 10 * VGC_NS_PER_S;

struct bridge {
    struct vgc_transport base;
    uint8_t *config; /* mapped, the other side writes all but the acknowledgement */
    vgc_handle sockets[VGC_MAX_QUEUES];
    atomic_bool broken[VGC_MAX_QUEUES]; /* the other side has closed it */
    uint16_t port;
};

struct description {
    const char *name;
    const char *region;
    const char *config;
    uint64_t region_gpa;
    uint64_t features;
    uint64_t ring_size;
    uint64_t num_queues;
    uint64_t port;
};

static struct bridge *bridge_of(struct vgc_transport *transport)
{
    return (struct bridge *)transport;
}

/* ---- operations ----------------------------------------------------------------------------- */

static bool is_running(struct vgc_transport *transport, const struct vgc_layout *layout)
{
    (void)transport, (void)layout; /* the cookie in the region says all there is to know */
    return true;
}

static int check_unused(struct vgc_transport *transport, uint64_t deadline_ns)
{
    (void)transport, (void)deadline_ns; /* the other side gives each device to one guest */
    return VGC_OK;
}

static int start(struct vgc_transport *transport, const struct vgc_layout *layout, uint64_t deadline_ns)
{
    (void)transport, (void)layout, (void)deadline_ns; /* the other side set the rings up */
    return VGC_OK;
}

static void revive(struct vgc_transport *transport)
{
    (void)transport;
}

static int read_config(struct vgc_transport *transport, struct vgc_config *config)
{
    memcpy(config, bridge_of(transport)->config, sizeof(*config));
    return VGC_OK;
}

static uint32_t *config_word(struct vgc_transport *transport, size_t offset)
{
    return (uint32_t *)(void *)(bridge_of(transport)->config + offset);
}

static uint32_t read_allotment(struct vgc_transport *transport)
{
    return vgc_le32(__atomic_load_n(config_word(transport, offsetof(struct vgc_config, allotment)), __ATOMIC_RELAXED));
}

static void write_ack(struct vgc_transport *transport, uint32_t allotment)
{
    uint32_t *word = config_word(transport, offsetof(struct vgc_config, driver_ack));
    __atomic_store_n(word, vgc_le32(allotment), __ATOMIC_RELAXED);
}

static vgc_handle connect_queue(const struct bridge *bridge, uint32_t queue)
{
    const uint8_t number = (uint8_t)queue;
    vgc_handle socket = vgc_socket_connect(bridge->port);
    if (socket == VGC_NO_HANDLE || vgc_socket_send(socket, &number, sizeof(number)))
        return socket;
    vgc_socket_close(socket);
    return VGC_NO_HANDLE;
}

static void detach(struct vgc_transport *transport, uint32_t queue)
{
    struct bridge *bridge = bridge_of(transport);
    if (bridge->sockets[queue] != VGC_NO_HANDLE)
        vgc_socket_close(bridge->sockets[queue]);
    bridge->sockets[queue] = VGC_NO_HANDLE;
}

static int attach(struct vgc_transport *transport, uint32_t queue)
{
    struct bridge *bridge = bridge_of(transport);
    bridge->sockets[queue] = connect_queue(bridge, queue);
    if (bridge->sockets[queue] == VGC_NO_HANDLE)
        return vgc_fail_errno("cannot connect to the bridge of %s at 127.0.0.1:%u", transport->name, bridge->port);
    atomic_store(&bridge->broken[queue], false);
    if (vgc_socket_wait(bridge->sockets[queue], ANSWERS_WITHIN_NS) == VGC_WAKEUP_CAME)
        return VGC_OK;
    detach(transport, queue);
    return vgc_fail(VGC_NO_ANSWER, "the bridge of %s at 127.0.0.1:%u does not take queue %u", transport->name,
                    bridge->port, queue);
}

static void kick(struct vgc_transport *transport, uint32_t queue)
{
    struct bridge *bridge = bridge_of(transport);
    const uint8_t byte = 0;
    vgc_handle own = bridge->sockets[queue];
    vgc_handle socket = own != VGC_NO_HANDLE ? own : connect_queue(bridge, queue); /* of a dead process */
    if (socket != VGC_NO_HANDLE)
        (void)vgc_socket_send(socket, &byte, sizeof(byte)); /* who waits for an answer notices that none comes */
    if (socket != VGC_NO_HANDLE && own == VGC_NO_HANDLE)
        vgc_socket_close(socket);
}

static void arm(struct vgc_transport *transport, uint32_t queue)
{
    (void)transport, (void)queue; /* bytes stay until they are read */
}

static void wait_for_call(struct vgc_transport *transport, uint32_t queue, uint64_t timeout_ns)
{
    struct bridge *bridge = bridge_of(transport);
    uint64_t step_ns = VGC_NS_PER_MS;
    if (atomic_load(&bridge->broken[queue]))
        (void)vgc_backoff(&step_ns, vgc_deadline(timeout_ns));
    else if (vgc_socket_wait(bridge->sockets[queue], timeout_ns) == VGC_WAKEUP_BROKEN)
        atomic_store(&bridge->broken[queue], true);
}

static void close_bridge(struct vgc_transport *transport)
{
    struct bridge *bridge = bridge_of(transport);
    for (uint32_t queue = 0; queue < VGC_MAX_QUEUES; queue++)
        detach(transport, queue);
    if (transport->region != NULL)
        vgc_unmap(transport->region, transport->region_bytes);
    if (bridge->config != NULL)
        vgc_unmap(bridge->config, sizeof(struct vgc_config));
    free(bridge);
}

static const struct vgc_transport_ops OPS = {
    .is_running = is_running,
    .check_unused = check_unused,
    .start = start,
    .revive = revive,
    .read_config = read_config,
    .read_allotment = read_allotment,
    .write_ack = write_ack,
    .attach = attach,
    .detach = detach,
    .kick = kick,
    .arm = arm,
    .wait = wait_for_call,
    .close = close_bridge,
};

/* ---- opening -------------------------------------------------------------------------------- */

/* Maps the first *bytes of a file; 0: all of it, and *bytes is how many these are then. */
static int map_file(const char *path, const char *what, uint64_t at_least, uint64_t *bytes, void **pointer)
{
    uint64_t size = 0;
    vgc_handle file = vgc_file_open(path, VGC_FILE_CHANGE);
    if (file == VGC_NO_HANDLE)
        return vgc_fail_errno("VGC_BRIDGE: cannot open %s %s", what, path);
    int result = VGC_OK;
    if (!vgc_file_size(file, &size))
        result = vgc_fail_errno("VGC_BRIDGE: %s %s has no size", what, path);
    else if (size < at_least)
        result = vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE: %s %s has %llu bytes; at least %llu", what, path,
                          (unsigned long long)size, (unsigned long long)at_least);
    *bytes = *bytes != 0 ? *bytes : size;
    if (result == VGC_OK && (*pointer = vgc_file_map(file, 0, *bytes, true)) == NULL)
        result = vgc_fail_errno("VGC_BRIDGE: cannot map %s %s", what, path);
    vgc_file_close(file);
    return result;
}

static int map_files(struct bridge *bridge, const struct description *given)
{
    void *pointer = NULL;
    uint64_t config_bytes = sizeof(struct vgc_config);
    int result = map_file(given->region, "the region", VGC_REGION_HEADER_BYTES, &bridge->base.region_bytes, &pointer);
    if (result != VGC_OK)
        return result;
    bridge->base.region = pointer;
    result = map_file(given->config, "the configuration", config_bytes, &config_bytes, &pointer);
    if (result == VGC_OK)
        bridge->config = pointer;
    return result;
}

static int check(const struct description *given)
{
    if (given->name == NULL || given->name[0] == '\0' || strpbrk(given->name, "/\\:") != NULL)
        return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE: a name without '/', '\\' and ':' is needed");
    if (strlen(given->name) >= sizeof(((struct vgc_transport *)NULL)->name)) /* cut off, two would share a state file */
        return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE: a name of %zu bytes; allowed: 1 to %zu", strlen(given->name),
                        sizeof(((struct vgc_transport *)NULL)->name) - 1);
    if (given->region == NULL || given->config == NULL)
        return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE: 'region' and 'config' are needed, the paths of files");
    if (given->num_queues == 0 || given->num_queues > VGC_MAX_QUEUES || given->ring_size == 0 ||
        given->ring_size > VGC_MAX_QUEUE_SIZE || (given->ring_size & (given->ring_size - 1)) != 0)
        return vgc_fail(VGC_INVALID_ARGUMENT,
                        "VGC_BRIDGE: %llu queues of %llu entries; allowed: 1 to %d queues, a power of two up to %d",
                        (unsigned long long)given->num_queues, (unsigned long long)given->ring_size, VGC_MAX_QUEUES,
                        VGC_MAX_QUEUE_SIZE);
    if (given->port == 0 || given->port > UINT16_MAX)
        return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE: port %llu; allowed: 1 to %d",
                        (unsigned long long)given->port, UINT16_MAX);
    return VGC_OK;
}

static int open_bridge(const struct description *given, struct vgc_transport **transport)
{
    int result = check(given);
    if (result != VGC_OK)
        return result;
    struct bridge *bridge = calloc(1, sizeof(*bridge));
    if (bridge == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    bridge->base.ops = &OPS;
    (void)snprintf(bridge->base.name, sizeof(bridge->base.name), "%s", given->name);
    (void)snprintf(bridge->base.region_name, sizeof(bridge->base.region_name), "the region's file");
    bridge->base.region_gpa = given->region_gpa;
    bridge->base.features = given->features;
    bridge->base.num_queues = (uint32_t)given->num_queues;
    bridge->base.ring_size = (uint32_t)given->ring_size;
    bridge->base.interrupts = true;
    bridge->port = (uint16_t)given->port;
    for (uint32_t queue = 0; queue < VGC_MAX_QUEUES; queue++)
        bridge->sockets[queue] = VGC_NO_HANDLE;
    result = map_files(bridge, given);
    if (result != VGC_OK) {
        close_bridge(&bridge->base);
        return result;
    }
    vgc_transport_measure(&bridge->base);
    *transport = &bridge->base;
    return VGC_OK;
}

/* ---- $VGC_BRIDGE ---------------------------------------------------------------------------- */

static int parse_number(const char *key, const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 0);
    if (*end == '\0' && errno == 0 && text[0] >= '0' && text[0] <= '9')
        return VGC_OK;
    return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE: %s=%s is no number", key, text);
}

static int parse_field(const char *key, const char *value, struct description *given)
{
    if (strcmp(key, "name") == 0)
        given->name = value;
    else if (strcmp(key, "region") == 0)
        given->region = value;
    else if (strcmp(key, "config") == 0)
        given->config = value;
    else if (strcmp(key, "gpa") == 0)
        return parse_number(key, value, &given->region_gpa);
    else if (strcmp(key, "features") == 0)
        return parse_number(key, value, &given->features);
    else if (strcmp(key, "ring") == 0)
        return parse_number(key, value, &given->ring_size);
    else if (strcmp(key, "queues") == 0)
        return parse_number(key, value, &given->num_queues);
    else if (strcmp(key, "port") == 0)
        return parse_number(key, value, &given->port);
    else
        return vgc_fail(
            VGC_INVALID_ARGUMENT,
            "VGC_BRIDGE: unknown key '%s'; allowed: name, region, config, gpa, features, ring, queues, port", key);
    return VGC_OK;
}

int vgc_bridge_open_env(uint32_t index, struct vgc_transport **transport)
{
    const char *all = vgc_variable("VGC_BRIDGE");
    if (all == NULL || all[0] == '\0')
        return VGC_NO_DEVICE;
    for (uint32_t i = 0; i < index; i++) {
        all = strchr(all, ';');
        if (all++ == NULL)
            return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE describes %u devices, and none of index %u", i + 1,
                            index);
    }
    char text[4096];
    int len = (int)strcspn(all, ";");
    if (snprintf(text, sizeof(text), "%.*s", len, all) >= (int)sizeof(text))
        return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE is longer than %zu bytes", sizeof(text) - 1);
    struct description given = {.ring_size = VGC_MAX_QUEUE_SIZE};
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');
        if (value == NULL)
            return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_BRIDGE: '%s' is not key=value", word);
        *value++ = '\0';
        int result = parse_field(word, value, &given);
        if (result != VGC_OK)
            return result;
    }
    return open_bridge(&given, transport);
}
