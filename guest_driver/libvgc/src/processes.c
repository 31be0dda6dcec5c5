/* Processes that compute on a device, as their entries in the state file show them. */
#include "internal.h"

static bool computes(const struct vgc_device *device, uint32_t client)
{
    const struct vgc_client *entry = &device->state->clients[client];
    return entry->in_use != 0 && entry->context != 0 && vgc_state_is_alive(device, client);
}

/* The entry of a process in a list; a process that opened the device twice has one. */
static struct vgc_process *entry_of(uint32_t pid, struct vgc_process *processes, size_t *count)
{
    size_t i = 0;
    while (i < *count && processes[i].pid != pid)
        i++;
    if (i == *count)
        processes[(*count)++] = (struct vgc_process){.pid = pid};
    return &processes[i];
}

int vgc_processes(struct vgc_device *device, struct vgc_process *processes, size_t room, size_t *count)
{
    struct vgc_process all[VGC_MAX_CLIENTS];
    struct vgc_config config;
    *count = 0;
    int result = device->transport->ops->read_config(device->transport, &config);
    if (result == VGC_OK)
        result = vgc_state_lock(device);
    if (result != VGC_OK)
        return result;
    for (uint32_t client = 0; client < VGC_MAX_CLIENTS; client++) {
        if (!computes(device, client))
            continue;
        struct vgc_client *entry = &device->state->clients[client];
        struct vgc_process *process = entry_of(entry->pid, all, count);
        if (entry->context_generation == config.generation) /* memory of an earlier worker is gone */
            process->memory_bytes += atomic_load(&entry->memory_bytes);
    }
    vgc_state_unlock(device);
    for (size_t i = 0; i < *count && i < room; i++)
        processes[i] = all[i];
    return VGC_OK;
}
