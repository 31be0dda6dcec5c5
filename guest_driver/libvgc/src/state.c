/* The state file: who holds which queue, context and part of the region.
 *
 * A client proves that it lives by a lock on one byte of the file; the system drops the lock when the last handle of
 * a process is gone, however it died. Everything else in the file is written under the lock of
 * byte 0. The file names the bring-up it belongs to by a cookie that also lies in the region, so a file that
 * outlived a device reset, or a region that outlived a file, is noticed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { CLIENT_LOCKS_AT = 1000 };

static const uint64_t STATE_MAGIC = 0x3265746174734756ull; /* "VGstate2" */

_Static_assert(sizeof(struct vgc_state) == 3848, "another layout has another STATE_MAGIC, as it is another driver's");

int vgc_check_process(const struct vgc_device *device)
{
    if (device->process == vgc_process())
        return VGC_OK;
    return vgc_fail(VGC_INVALID_ARGUMENT, "this device was opened by process %d: a fork must open the device itself",
                    device->pid);
}

static bool is_locked(vgc_handle file, uint32_t client)
{
    return vgc_file_is_locked(file, CLIENT_LOCKS_AT + client);
}

/* Our own lock never conflicts with ourselves. */
bool vgc_state_is_alive(const struct vgc_device *device, uint32_t client)
{
    return client == device->client || is_locked(device->state_file, client);
}

static int lock_until(struct vgc_device *device, uint64_t deadline_ns)
{
    uint64_t step_ns = 20000;
    pthread_mutex_lock(&device->state_mutex);
    while (!vgc_file_lock(device->state_file, 0)) {
        if (errno != EAGAIN) {
            int result = vgc_fail_errno("cannot lock the state file of %s", device->transport->name);
            pthread_mutex_unlock(&device->state_mutex);
            return result;
        }
        if (!vgc_backoff(&step_ns, deadline_ns)) {
            pthread_mutex_unlock(&device->state_mutex);
            return vgc_fail(VGC_NO_ANSWER, "another process keeps the state file of %s locked",
                            device->transport->name);
        }
    }
    return VGC_OK;
}

void vgc_state_unlock(struct vgc_device *device)
{
    vgc_file_unlock(device->state_file, 0);
    pthread_mutex_unlock(&device->state_mutex);
}

int vgc_state_lock(struct vgc_device *device)
{
    return lock_until(device, vgc_deadline(device->open_timeout_ns));
}

struct vgc_client *vgc_state_self(struct vgc_device *device)
{
    return &device->state->clients[device->client];
}

/* ---- opening -------------------------------------------------------------------------------- */

int vgc_state_open_file(const char *state_dir, const char *name, vgc_handle *file)
{
    char path[512];
    if (!vgc_folder_make(state_dir, false))
        return vgc_fail_errno("cannot make %s", state_dir);
    if (snprintf(path, sizeof(path), "%s/%s.state", state_dir, name) >= (int)sizeof(path))
        return vgc_fail(VGC_INVALID_ARGUMENT, "the path of the state folder is too long: %s", state_dir);
    *file = vgc_file_open(path, VGC_FILE_MAKE);
    if (*file == VGC_NO_HANDLE && errno == EROFS)
        return vgc_fail(VGC_NO_PERMISSION,
                        "%s cannot be written: a container needs %s of its machine, writable (docs/guest-machines.md)",
                        path, state_dir);
    if (*file == VGC_NO_HANDLE)
        return vgc_fail_errno("cannot open %s", path);
    if (vgc_file_is_trusted(*file, state_dir))
        return VGC_OK;
    vgc_file_close(*file);
    *file = VGC_NO_HANDLE;
    return vgc_fail(
        VGC_NO_PERMISSION,
        "%s was made by another user, or has a second name; allowed: a file of root's, of this user's or of "
        "the folder's owner. Remove it",
        path);
}

static int open_file(struct vgc_device *device, const char *state_dir)
{
    uint64_t before;
    const char *name = device->transport->name;
    int result = vgc_state_open_file(state_dir, name, &device->state_file);
    if (result != VGC_OK)
        return result;
    if (vgc_file_size(device->state_file, &before) && before < sizeof(struct vgc_state) &&
        !vgc_file_may_have(sizeof(struct vgc_state)))
        return vgc_fail(VGC_SYSTEM,
                        "%s: its state file has %zu bytes, more than files of this program may have (ulimit -f)", name,
                        sizeof(struct vgc_state));
    /* Growing is idempotent, and a zeroed file is a valid "nothing is up": no lock needed. A larger one is another
     * driver's, who may have it mapped. */
    uint64_t bytes;
    if (!vgc_file_size(device->state_file, &bytes) ||
        (bytes < sizeof(struct vgc_state) && !vgc_file_resize(device->state_file, sizeof(struct vgc_state))))
        return vgc_fail_errno("cannot size the state file of %s", name);
    device->state = vgc_file_map(device->state_file, 0, sizeof(struct vgc_state), true);
    return device->state == NULL ? vgc_fail_errno("cannot map the state file of %s", name) : VGC_OK;
}

/* Does the file describe this device as it is now? */
static bool is_current(struct vgc_device *device)
{
    const struct vgc_state *state = device->state;
    const struct vgc_region_header *header = (const void *)device->transport->region;
    char boot_id[sizeof(state->boot_id)];
    vgc_boot_id(boot_id, sizeof(boot_id));
    return state->magic == STATE_MAGIC && state->fingerprint == VGC_WIRE_FINGERPRINT && state->cookie != 0 &&
           vgc_region_is_ours(header) && header->cookie == state->cookie &&
           memcmp(boot_id, state->boot_id, sizeof(boot_id)) == 0 &&
           memcmp(&state->layout, &device->layout, sizeof(device->layout)) == 0 &&
           device->transport->ops->is_running(device->transport, &device->layout);
}

/* Locks are all that is known of the clients of a driver of another version: they are the same in all. */
static int refuse_if_others(struct vgc_device *device)
{
    for (uint32_t client = 0; client < VGC_MAX_CLIENTS; client++)
        if (is_locked(device->state_file, client))
            return vgc_fail(VGC_INCOMPATIBLE,
                            "%s is in use by a driver of another version (its state file begins with %016llx, this "
                            "driver's with %016llx): end the processes that use it, then open the device again",
                            device->transport->name, (unsigned long long)device->state->magic,
                            (unsigned long long)STATE_MAGIC);
    return VGC_OK;
}

static int refuse_if_in_use(struct vgc_device *device)
{
    const struct vgc_state *state = device->state;
    if (state->magic != 0 && (state->magic != STATE_MAGIC || state->fingerprint != VGC_WIRE_FINGERPRINT))
        return refuse_if_others(device);
    for (uint32_t client = 0; client < VGC_MAX_CLIENTS; client++) {
        const struct vgc_client *other = &state->clients[client];
        if (other->in_use != 0 && vgc_state_is_alive(device, client) &&
            strcmp(state->region_name, device->transport->region_name) != 0)
            return vgc_fail(VGC_INCOMPATIBLE,
                            "process %u uses %s with the region at %s, not at %s: end that process, then open the "
                            "device again",
                            other->pid, device->transport->name, state->region_name, device->transport->region_name);
    }
    for (uint32_t client = 0; client < VGC_MAX_CLIENTS; client++)
        if (device->state->clients[client].in_use != 0 && vgc_state_is_alive(device, client))
            return vgc_fail(VGC_DEVICE_LOST,
                            "%s was reset while process %u used it: end that process, then open the device again",
                            device->transport->name, device->state->clients[client].pid);
    return VGC_OK;
}

static int bring_up(struct vgc_device *device, uint64_t deadline_ns)
{
    struct vgc_state *state = device->state;
    struct vgc_region_header *header = (void *)device->transport->region;
    int result = refuse_if_in_use(device);
    if (result == VGC_OK)
        result = device->transport->ops->check_unused(device->transport, deadline_ns);
    if (result != VGC_OK)
        return result;
    memset(state, 0, sizeof(*state));
    memset(device->transport->region, 0, device->layout.data_offset);
    result = device->transport->ops->start(device->transport, &device->layout, deadline_ns);
    if (result != VGC_OK)
        return result;
    uint64_t cookie = 0;
    if (!vgc_random(&cookie, sizeof(cookie)))
        return vgc_fail_errno("cannot get a random number");
    cookie |= 1;
    *header = (struct vgc_region_header){VGC_REGION_MAGIC, cookie};
    vgc_boot_id(state->boot_id, sizeof(state->boot_id));
    state->layout = device->layout;
    memcpy(state->region_name, device->transport->region_name, sizeof(state->region_name));
    state->fingerprint = VGC_WIRE_FINGERPRINT;
    state->cookie = cookie;
    state->magic = STATE_MAGIC;
    return VGC_OK;
}

/* Copies the region's name of a state, which may change meanwhile; false: another driver's, or another boot's. */
static bool copy_region_name(const struct vgc_state *state, char name[VGC_PCI_ADDRESS_LEN])
{
    char boot_id[sizeof(state->boot_id)];
    vgc_boot_id(boot_id, sizeof(boot_id));
    if (state->magic != STATE_MAGIC || memcmp(boot_id, state->boot_id, sizeof(boot_id)) != 0)
        return false;
    memcpy(name, state->region_name, VGC_PCI_ADDRESS_LEN - 1);
    name[VGC_PCI_ADDRESS_LEN - 1] = '\0';
    return strchr(name, '/') == NULL;
}

bool vgc_state_region(const char *state_dir, const char *name, char *region_name)
{
    char path[512];
    uint64_t bytes;
    if (snprintf(path, sizeof(path), "%s/%s.state", state_dir, name) >= (int)sizeof(path))
        return false;
    vgc_handle file = vgc_file_open(path, VGC_FILE_CHANGE);
    if (file == VGC_NO_HANDLE)
        return false;
    struct vgc_state *state = NULL;
    if (vgc_file_is_trusted(file, state_dir) && vgc_file_size(file, &bytes) && bytes >= sizeof(*state))
        state = vgc_file_map(file, 0, sizeof(*state), false);
    bool is_used = false;
    if (state != NULL && copy_region_name(state, region_name))
        for (uint32_t client = 0; client < VGC_MAX_CLIENTS && !is_used; client++)
            is_used = is_locked(file, client);
    if (state != NULL)
        vgc_unmap(state, sizeof(*state));
    vgc_file_close(file);
    return is_used;
}

static int take_client(struct vgc_device *device)
{
    for (uint32_t client = 0; client < VGC_MAX_CLIENTS; client++) {
        if (device->state->clients[client].in_use != 0)
            continue;
        if (!vgc_file_lock(device->state_file, CLIENT_LOCKS_AT + client))
            continue; /* a process between close and unlock */
        device->client = client;
        device->state->clients[client] = (struct vgc_client){.in_use = 1, .pid = (uint32_t)getpid()};
        return VGC_OK;
    }
    return vgc_fail(VGC_RESOURCES_EXHAUSTED, "resources exhausted: %d processes use %s already", VGC_MAX_CLIENTS,
                    device->transport->name);
}

int vgc_state_open(struct vgc_device *device, const char *state_dir, uint64_t deadline_ns)
{
    device->client = UINT32_MAX;
    int result = open_file(device, state_dir);
    if (result != VGC_OK)
        return result;
    result = lock_until(device, deadline_ns);
    if (result != VGC_OK)
        return result;
    if (!is_current(device))
        result = bring_up(device, deadline_ns);
    else
        device->transport->ops->revive(device->transport);
    if (result == VGC_OK)
        result = take_client(device);
    vgc_state_unlock(device);
    return result;
}

/* ---- giving back ---------------------------------------------------------------------------- */

void vgc_state_forget(struct vgc_device *device, uint32_t client)
{
    struct vgc_state *state = device->state;
    struct vgc_client *gone = &state->clients[client];
    for (uint32_t i = 0; i < VGC_MAX_QUEUES; i++)
        if (state->queue_owner[i] == client + 1)
            state->queue_owner[i] = 0;
    for (uint32_t i = 0; i < VGC_MAX_CHUNKS; i++)
        if (state->chunk_owner[i] == client + 1)
            state->chunk_owner[i] = 0;
    atomic_fetch_sub(&state->in_flight, atomic_load(&gone->in_flight));
    atomic_fetch_sub(&state->memory_bytes, atomic_load(&gone->memory_bytes));
    gone->in_use = 0;
}

void vgc_state_close(struct vgc_device *device, bool quiet)
{
    if (device->state == NULL)
        return;
    if (device->client != UINT32_MAX && quiet && vgc_state_lock(device) == VGC_OK) {
        vgc_state_forget(device, device->client);
        vgc_state_unlock(device);
    } /* else: the entry stays, its lock goes, and the next process reaps it */
    vgc_unmap(device->state, sizeof(*device->state));
    device->state = NULL;
    vgc_file_close(device->state_file);
}

/* ---- queues --------------------------------------------------------------------------------- */

bool vgc_ring_is_quiet(struct vgc_device *device, uint32_t queue)
{
    struct vgc_ring ring = vgc_layout_ring(&device->layout, device->transport->region, queue);
    uint16_t avail = __atomic_load_n(&ring.avail[1], __ATOMIC_ACQUIRE);
    uint16_t used = __atomic_load_n(&ring.used[1], __ATOMIC_ACQUIRE);
    return avail == used; /* in whatever byte order */
}

/* The dead owner's client entry stays until its contexts are destroyed; a quiet queue need not wait for that. */
static bool can_take(struct vgc_device *device, uint32_t queue)
{
    uint8_t owner = device->state->queue_owner[queue];
    if (owner == 0)
        return true;
    if (vgc_state_is_alive(device, owner - 1u) || device->state->clients[owner - 1u].intent_offset != 0)
        return false;
    if (vgc_ring_is_quiet(device, queue))
        return true;
    device->transport->ops->kick(device->transport, queue); /* it may have died before its kick */
    return false;
}

int vgc_state_claim_queue(struct vgc_device *device, uint32_t *queue, uint64_t deadline_ns)
{
    uint64_t step_ns = 20000;
    bool some_dying;
    do {
        some_dying = false;
        int result = lock_until(device, deadline_ns);
        if (result != VGC_OK)
            return result;
        for (uint32_t i = 0; i < device->layout.num_queues; i++) {
            uint8_t owner = device->state->queue_owner[i];
            if (can_take(device, i)) {
                device->state->queue_owner[i] = (uint8_t)(device->client + 1);
                vgc_state_unlock(device);
                *queue = i;
                return VGC_OK;
            }
            some_dying = some_dying || !vgc_state_is_alive(device, owner - 1u);
        }
        vgc_state_unlock(device);
    } while (some_dying && vgc_backoff(&step_ns, deadline_ns));
    return vgc_fail(
        VGC_RESOURCES_EXHAUSTED,
        "resources exhausted: all %u queues of %s are in use%s; close a device, or give the VM more of them "
        "(num_vqs of the QEMU device, num_queues of vgcd's configuration)",
        device->layout.num_queues, device->transport->name,
        some_dying ? ", some by dead processes whose requests the device still works on" : "");
}

void vgc_state_release_queue(struct vgc_device *device, uint32_t queue)
{
    if (vgc_state_lock(device) != VGC_OK)
        return;
    device->state->queue_owner[queue] = 0;
    vgc_state_unlock(device);
}

/* ---- chunks --------------------------------------------------------------------------------- */

int vgc_state_take_chunks(struct vgc_device *device, uint32_t count, uint32_t *first)
{
    int result = vgc_state_lock(device);
    if (result != VGC_OK)
        return result;
    result = VGC_RESOURCES_EXHAUSTED;
    uint8_t *owner = device->state->chunk_owner;
    uint32_t run = 0;
    for (uint32_t i = 0; i < device->layout.num_chunks && result != VGC_OK; i++) {
        run = owner[i] == 0 ? run + 1 : 0;
        if (run == count) {
            *first = i + 1 - count;
            memset(owner + *first, (int)(device->client + 1), count);
            result = VGC_OK;
        }
    }
    vgc_state_unlock(device);
    return result;
}

void vgc_state_give_chunks(struct vgc_device *device, uint32_t first, uint32_t count)
{
    if (vgc_state_lock(device) != VGC_OK)
        return; /* freed with the client */
    memset(device->state->chunk_owner + first, 0, count);
    vgc_state_unlock(device);
}

/* ---- contexts ------------------------------------------------------------------------------- */

void vgc_state_set_context(struct vgc_device *device, uint64_t intent_offset, uint32_t context, uint32_t generation)
{
    struct vgc_client *self = vgc_state_self(device); /* only written by us while we live */
    self->context_generation = generation;
    self->context = context;
    atomic_signal_fence(memory_order_seq_cst);
    self->intent_offset = intent_offset;
}
