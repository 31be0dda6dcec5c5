/* Memory of events, arrays and programs that nobody has freed when their device is closed. */
#include "internal.h"

/* A child of fork() has a copy of the list, whose lock another thread of its parent may have held: it is left alone. */
static bool has_list(const struct vgc_device *device)
{
    return device->process == vgc_process();
}

void vgc_own(struct vgc_device *device, struct vgc_owned *owned, void (*end)(struct vgc_owned *))
{
    if (!has_list(device))
        return;
    pthread_mutex_lock(&device->owned_mutex);
    *owned = (struct vgc_owned){.next = device->owned, .free = end};
    if (owned->next != NULL)
        owned->next->previous = owned;
    device->owned = owned;
    pthread_mutex_unlock(&device->owned_mutex);
}

void vgc_disown(struct vgc_device *device, struct vgc_owned *owned)
{
    if (!has_list(device) || owned->free == NULL)
        return;
    pthread_mutex_lock(&device->owned_mutex);
    if (owned->previous != NULL)
        owned->previous->next = owned->next;
    else
        device->owned = owned->next;
    if (owned->next != NULL)
        owned->next->previous = owned->previous;
    pthread_mutex_unlock(&device->owned_mutex);
    *owned = (struct vgc_owned){0};
}

void vgc_free_owned(struct vgc_device *device)
{
    while (device->owned != NULL) {
        struct vgc_owned *first = device->owned;
        void (*end)(struct vgc_owned *) = first->free;
        vgc_disown(device, first);
        end(first);
    }
}
