/* A transport without PCI: the region, the configuration space and the eventfds are given as descriptors.
 *
 * $VGC_MEMFD describes one to any program that uses libvgc, for tests and benchmarks on the host:
 *     name=vm1,region=5,config=6,gpa=0x100000000,features=0x130000000,ring=256,kick=7:8,call=9:10
 * Several are separated by semicolons, and chosen by their index.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../internal.h"

struct memfd {
    struct vgc_transport base;
    uint8_t *config; /* mapped struct vgc_config, the other side writes all but the acknowledgement */
    bool config_is_writable;
    int kick_fds[VGC_MAX_QUEUES];
    int call_fds[VGC_MAX_QUEUES];
};

static bool memfd_is_running(struct vgc_transport *transport, const struct vgc_layout *layout)
{
    (void)transport, (void)layout; /* the cookie in the region says all there is to know */
    return true;
}

static int memfd_check_unused(struct vgc_transport *transport, uint64_t deadline_ns)
{
    (void)transport, (void)deadline_ns; /* the other side gives each device to one guest */
    return VGC_OK;
}

static int memfd_start(struct vgc_transport *transport, const struct vgc_layout *layout, uint64_t deadline_ns)
{
    (void)transport, (void)layout, (void)deadline_ns; /* the other side set the rings up */
    return VGC_OK;
}

static void memfd_revive(struct vgc_transport *transport)
{
    (void)transport;
}

static int memfd_read_config(struct vgc_transport *transport, struct vgc_config *config)
{
    memcpy(config, ((struct memfd *)transport)->config, sizeof(*config));
    return VGC_OK;
}

static uint32_t *config_word(struct vgc_transport *transport, size_t offset)
{
    return (uint32_t *)(void *)(((struct memfd *)transport)->config + offset);
}

static uint32_t memfd_read_allotment(struct vgc_transport *transport)
{
    return vgc_le32(__atomic_load_n(config_word(transport, offsetof(struct vgc_config, allotment)), __ATOMIC_RELAXED));
}

static void memfd_write_ack(struct vgc_transport *transport, uint32_t allotment)
{
    struct memfd *memfd = (struct memfd *)transport;
    if (memfd->config_is_writable)
        __atomic_store_n(config_word(transport, offsetof(struct vgc_config, driver_ack)), vgc_le32(allotment),
                         __ATOMIC_RELAXED);
}

static int memfd_attach(struct vgc_transport *transport, uint32_t queue)
{
    (void)transport, (void)queue;
    return VGC_OK;
}

static void memfd_detach(struct vgc_transport *transport, uint32_t queue)
{
    (void)transport, (void)queue;
}

static void memfd_kick(struct vgc_transport *transport, uint32_t queue)
{
    uint64_t one = 1;
    ssize_t written = write(((struct memfd *)transport)->kick_fds[queue], &one, sizeof(one));
    (void)written; /* EAGAIN: the counter is full, so the other side is woken anyway */
}

static void memfd_arm(struct vgc_transport *transport, uint32_t queue)
{
    (void)transport, (void)queue; /* an eventfd remembers */
}

static void memfd_wait(struct vgc_transport *transport, uint32_t queue, uint64_t timeout_ns)
{
    struct pollfd call = {.fd = ((struct memfd *)transport)->call_fds[queue], .events = POLLIN};
    struct timespec timeout = {(time_t)(timeout_ns / VGC_NS_PER_S), (long)(timeout_ns % VGC_NS_PER_S)};
    uint64_t count;
    if (ppoll(&call, 1, &timeout, NULL) == 1) {
        ssize_t got = read(call.fd, &count, sizeof(count));
        (void)got; /* another process of this queue's previous owner may have taken it */
    }
}

static void memfd_close(struct vgc_transport *transport)
{
    struct memfd *memfd = (struct memfd *)transport;
    if (transport->region != NULL)
        (void)munmap(transport->region, transport->region_bytes);
    if (memfd->config != NULL)
        (void)munmap(memfd->config, sizeof(struct vgc_config));
    free(memfd);
}

static const struct vgc_transport_ops MEMFD_OPS = {
    .is_running = memfd_is_running,
    .check_unused = memfd_check_unused,
    .start = memfd_start,
    .revive = memfd_revive,
    .read_config = memfd_read_config,
    .read_allotment = memfd_read_allotment,
    .write_ack = memfd_write_ack,
    .attach = memfd_attach,
    .detach = memfd_detach,
    .kick = memfd_kick,
    .arm = memfd_arm,
    .wait = memfd_wait,
    .close = memfd_close,
};

static int map_file(int fd, int protection, uint64_t at_least, const char *what, void **pointer, uint64_t *size)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return vgc_fail_errno("memfd device: %s is descriptor %d", what, fd);
    *size = (uint64_t)info.st_size;
    if (*size < at_least)
        return vgc_fail(VGC_INVALID_ARGUMENT, "memfd device: %s has %llu bytes; at least %llu", what,
                        (unsigned long long)*size, (unsigned long long)at_least);
    *pointer = mmap(NULL, *size, protection, MAP_SHARED, fd, 0);
    if (*pointer == MAP_FAILED) {
        *pointer = NULL;
        return vgc_fail_errno("memfd device: cannot map %s", what);
    }
    return VGC_OK;
}

static int map_files(struct memfd *memfd, const struct vgc_memfd *given)
{
    void *pointer;
    uint64_t config_bytes;
    int result = map_file(given->region_fd, PROT_READ | PROT_WRITE, VGC_REGION_HEADER_BYTES, "the region", &pointer,
                          &memfd->base.region_bytes);
    if (result != VGC_OK)
        return result;
    memfd->base.region = pointer;
    int access = fcntl(given->config_fd, F_GETFL);
    memfd->config_is_writable = access >= 0 && (access & O_ACCMODE) == O_RDWR;
    result = map_file(given->config_fd, memfd->config_is_writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      sizeof(struct vgc_config), "the configuration", &pointer, &config_bytes);
    if (result != VGC_OK)
        return result;
    memfd->config = pointer;
    return VGC_OK;
}

int vgc_memfd_open(const struct vgc_memfd *given, struct vgc_transport **transport)
{
    if (given->num_queues == 0 || given->num_queues > VGC_MAX_QUEUES || given->ring_size == 0 ||
        given->ring_size > VGC_MAX_QUEUE_SIZE || (given->ring_size & (given->ring_size - 1)) != 0)
        return vgc_fail(VGC_INVALID_ARGUMENT,
                        "memfd device: %u queues of %u entries; allowed: 1 to %d queues, a power of two up to %d",
                        given->num_queues, given->ring_size, VGC_MAX_QUEUES, VGC_MAX_QUEUE_SIZE);
    if (given->name == NULL || given->name[0] == '\0' || strchr(given->name, '/') != NULL)
        return vgc_fail(VGC_INVALID_ARGUMENT, "memfd device: a name without '/' is needed");
    struct memfd *memfd = calloc(1, sizeof(*memfd));
    if (memfd == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    memfd->base.ops = &MEMFD_OPS;
    (void)snprintf(memfd->base.name, sizeof(memfd->base.name), "%s", given->name);
    (void)snprintf(memfd->base.region_name, sizeof(memfd->base.region_name), "memfd");
    memfd->base.region_gpa = given->region_gpa;
    memfd->base.features = given->features;
    memfd->base.num_queues = given->num_queues;
    memfd->base.ring_size = given->ring_size;
    memfd->base.interrupts = true;
    for (uint32_t i = 0; i < given->num_queues; i++) {
        memfd->kick_fds[i] = given->kick_fds[i];
        memfd->call_fds[i] = given->call_fds[i];
    }
    int result = map_files(memfd, given);
    if (result != VGC_OK) {
        memfd_close(&memfd->base);
        return result;
    }
    vgc_transport_measure(&memfd->base);
    *transport = &memfd->base;
    return VGC_OK;
}

/* ---- $VGC_MEMFD ----------------------------------------------------------------------------- */

static uint32_t parse_fds(char *text, int *fds)
{
    uint32_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, ":", &rest); word != NULL && count < VGC_MAX_QUEUES;
         word = strtok_r(NULL, ":", &rest))
        fds[count++] = (int)strtol(word, NULL, 10);
    return count;
}

static int parse_field(char *key, char *value, struct vgc_memfd *memfd, int *kick_fds, int *call_fds,
                       uint32_t *num_calls)
{
    if (strcmp(key, "name") == 0)
        memfd->name = value;
    else if (strcmp(key, "region") == 0)
        memfd->region_fd = (int)strtol(value, NULL, 10);
    else if (strcmp(key, "config") == 0)
        memfd->config_fd = (int)strtol(value, NULL, 10);
    else if (strcmp(key, "gpa") == 0)
        memfd->region_gpa = strtoull(value, NULL, 0);
    else if (strcmp(key, "features") == 0)
        memfd->features = strtoull(value, NULL, 0);
    else if (strcmp(key, "ring") == 0)
        memfd->ring_size = (uint32_t)strtoul(value, NULL, 0);
    else if (strcmp(key, "kick") == 0)
        memfd->num_queues = parse_fds(value, kick_fds);
    else if (strcmp(key, "call") == 0)
        *num_calls = parse_fds(value, call_fds);
    else
        return vgc_fail(VGC_INVALID_ARGUMENT,
                        "VGC_MEMFD: unknown key '%s'; allowed: name, region, config, gpa, features, ring, kick, call",
                        key);
    return VGC_OK;
}

int vgc_memfd_open_env(uint32_t index, struct vgc_transport **transport)
{
    const char *given = getenv("VGC_MEMFD");
    if (given == NULL || given[0] == '\0')
        return VGC_NO_DEVICE;
    for (uint32_t i = 0; i < index; i++) {
        given = strchr(given, ';');
        if (given++ == NULL)
            return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_MEMFD describes %u devices, and none of index %u", i + 1, index);
    }
    char text[2048];
    int len = (int)strcspn(given, ";");
    if (snprintf(text, sizeof(text), "%.*s", len, given) >= (int)sizeof(text))
        return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_MEMFD is longer than %zu bytes", sizeof(text) - 1);
    int kick_fds[VGC_MAX_QUEUES], call_fds[VGC_MAX_QUEUES];
    uint32_t num_calls = 0;
    struct vgc_memfd memfd = {
        .region_fd = -1, .config_fd = -1, .ring_size = VGC_MAX_QUEUE_SIZE, .kick_fds = kick_fds, .call_fds = call_fds};
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');
        if (value == NULL)
            return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_MEMFD: '%s' is not key=value", word);
        *value++ = '\0';
        int result = parse_field(word, value, &memfd, kick_fds, call_fds, &num_calls);
        if (result != VGC_OK)
            return result;
    }
    if (num_calls != memfd.num_queues)
        return vgc_fail(VGC_INVALID_ARGUMENT, "VGC_MEMFD: %u kick descriptors and %u call descriptors",
                        memfd.num_queues, num_calls);
    return vgc_memfd_open(&memfd, transport);
}
