/* Arrays, copies of boxes, textures and surfaces. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct vgc_array {
    struct vgc_owned owned; /* the first member */
    struct vgc_device *device;
    uint32_t epoch;
    uint32_t id;
    uint64_t charged; /* bytes of the quota */
};

static void end_array(struct vgc_owned *owned)
{
    free((struct vgc_array *)owned);
}

static int check_textures(const struct vgc_device *device)
{
    if ((device->config.device_features & VGC_F_TEXTURES) == 0)
        return vgc_fail(VGC_UNSUPPORTED, "this device has no textures");
    return VGC_OK;
}

/* Sends a request of one body and waits for the response. */
static int ask(struct vgc_device *device, uint16_t opcode, const void *body, size_t size, struct vgc_response *response)
{
    struct vgc_message message;
    int result = vgc_message_begin(&message, device, opcode, 0, true);
    if (result != VGC_OK)
        return result;
    (void)vgc_message_put(&message, body, size);
    return vgc_job_ask(&message, response);
}

/* ---- arrays --------------------------------------------------------------------------------- */

static struct vgc_body_array_create body_of(const struct vgc_array_shape *shape)
{
    return (struct vgc_body_array_create){.width = shape->width,
                                          .height = shape->height,
                                          .depth = shape->depth,
                                          .levels = shape->levels,
                                          .kind = shape->kind,
                                          .bits = shape->bits,
                                          .channels = shape->channels,
                                          .flags = shape->flags};
}

/* Bytes of level 0, less than what the device charges; 0 for shapes that it refuses. */
static uint64_t least_bytes(const struct vgc_array_shape *shape)
{
    if (shape->width > VGC_MAX_ARRAY_EXTENT || shape->height > VGC_MAX_ARRAY_EXTENT ||
        shape->depth > VGC_MAX_ARRAY_DEPTH || shape->bits > 32 || shape->channels > 4)
        return 0;
    uint64_t rows = (uint64_t)(shape->height != 0 ? shape->height : 1) * (shape->depth != 0 ? shape->depth : 1);
    return rows * shape->width * shape->bits / 8 * shape->channels;
}

int vgc_array_create(struct vgc_device *device, const struct vgc_array_shape *shape, struct vgc_array **out)
{
    struct vgc_response response;
    struct vgc_body_array_create body = body_of(shape);
    *out = NULL;
    int result = vgc_check_usable(device);
    if (result == VGC_OK)
        result = check_textures(device);
    if (result != VGC_OK)
        return result;
    uint64_t least = least_bytes(shape);
    if (!vgc_quota_has(device, least))
        return vgc_fail(VGC_OUT_OF_MEMORY,
                        "resources exhausted: asked %llu, %llu of %llu bytes free" VGC_MAY_RAISE("memory"),
                        (unsigned long long)least, (unsigned long long)vgc_quota_free(device),
                        (unsigned long long)atomic_load(&device->limits.memory_bytes));
    struct vgc_array *array = calloc(1, sizeof(*array));
    if (array == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    result = ask(device, VGC_OP_ARRAY_CREATE, VGC_BYTES(body), sizeof(body), &response);
    if (result != VGC_OK) {
        free(array);
        return result;
    }
    *array = (struct vgc_array){
        .device = device, .epoch = device->epoch, .id = (uint32_t)response.value, .charged = response.aux};
    vgc_own(device, &array->owned, end_array);
    vgc_quota_add(device, array->charged);
    *out = array;
    return VGC_OK;
}

int vgc_array_destroy(struct vgc_array *array)
{
    struct vgc_response response;
    int result = VGC_OK;
    if (array == NULL)
        return VGC_OK;
    bool is_current = array->epoch == array->device->epoch;
    if (is_current)
        result = vgc_check_usable(array->device);
    if (is_current && result == VGC_OK) {
        struct vgc_body_array body = {.array = array->id};
        result = ask(array->device, VGC_OP_ARRAY_DESTROY, VGC_BYTES(body), sizeof(body), &response);
        vgc_quota_give(array->device, array->charged);
    }
    vgc_disown(array->device, &array->owned);
    free(array);
    return result;
}

static int check_array(const struct vgc_array *array)
{
    return array == NULL ? VGC_OK : vgc_check_epoch(array->device, array->epoch, "the array");
}

/* ---- copies --------------------------------------------------------------------------------- */

static struct vgc_body_copy_box box_of(const struct vgc_side *dst, const struct vgc_side *src, struct vgc_extent extent)
{
    return (struct vgc_body_copy_box){.dst = dst->address,
                                      .dst_pitch = dst->pitch,
                                      .dst_slice = dst->slice,
                                      .dst_array = dst->array != NULL ? dst->array->id : 0,
                                      .dst_level = dst->level,
                                      .dst_x = dst->x,
                                      .dst_y = dst->y,
                                      .dst_z = dst->z,
                                      .src = src->address,
                                      .src_pitch = src->pitch,
                                      .src_slice = src->slice,
                                      .src_array = src->array != NULL ? src->array->id : 0,
                                      .src_level = src->level,
                                      .src_x = src->x,
                                      .src_y = src->y,
                                      .src_z = src->z,
                                      .width = extent.width,
                                      .height = extent.height,
                                      .depth = extent.depth};
}

int vgc_box_send(struct vgc_device *device, const struct vgc_side *dst, const struct vgc_side *src,
                 struct vgc_extent extent, uint32_t stream, uint8_t *staging, struct vgc_job **job)
{
    struct vgc_message message;
    struct vgc_body_copy_box body = box_of(dst, src, extent);
    int result = check_array(dst->array);
    if (result == VGC_OK)
        result = check_array(src->array);
    if (result == VGC_OK)
        result = vgc_message_begin(&message, device, VGC_OP_COPY_BOX, stream, vgc_waits_for_room(job));
    if (result != VGC_OK)
        return result;
    message.job->staging = staging;
    (void)vgc_message_put(&message, VGC_BYTES(body), sizeof(body));
    return vgc_job_run(&message, job);
}

/* ---- objects -------------------------------------------------------------------------------- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static int create(struct vgc_device *device, uint16_t opcode, const void *body, size_t size, uint64_t *object)
{
    struct vgc_response response;
    int result = ask(device, opcode, body, size, &response);
    if (result != VGC_OK)
        return result;
    *object = response.value;
    return vgc_ledger_add(&device->objects, *object, 1);
}

static uint32_t resource_of(const struct vgc_texture_form *form)
{
    if (form->array != NULL)
        return VGC_TEXTURE_RESOURCE_ARRAY;
    return form->pitch != 0 ? VGC_TEXTURE_RESOURCE_PITCH : VGC_TEXTURE_RESOURCE_LINEAR;
}

int vgc_texture_create(struct vgc_device *device, const struct vgc_texture_form *form, uint64_t *object)
{
    struct vgc_body_texture_create body = {.resource = resource_of(form),
                                           .array = form->array != NULL ? form->array->id : 0,
                                           .address = form->address,
                                           .pitch = form->pitch,
                                           .width = form->width,
                                           .height = form->height,
                                           .kind = form->kind,
                                           .bits = form->bits,
                                           .channels = form->channels,
                                           .flags = form->flags,
                                           .max_anisotropy = form->max_anisotropy,
                                           .bias = bits_of(form->bias),
                                           .min_level = bits_of(form->min_level),
                                           .max_level = bits_of(form->max_level),
                                           .first_level = form->first_level,
                                           .num_levels = form->num_levels,
                                           .first_layer = form->first_layer,
                                           .num_layers = form->num_layers,
                                           .modes = VGC_EXTENTS(form->edges)};
    for (int channel = 0; channel < 4; channel++)
        body.border[channel] = bits_of(form->border[channel]);
    *object = 0;
    int result = check_textures(device);
    if (result == VGC_OK)
        result = check_array(form->array);
    return result == VGC_OK ? create(device, VGC_OP_TEXTURE_CREATE, VGC_BYTES(body), sizeof(body), object) : result;
}

int vgc_surface_create(struct vgc_array *array, uint32_t level, uint64_t *object)
{
    struct vgc_body_surface_create body = {.array = array->id, .level = level};
    *object = 0;
    int result = check_array(array);
    return result == VGC_OK ? create(array->device, VGC_OP_SURFACE_CREATE, VGC_BYTES(body), sizeof(body), object)
                            : result;
}

int vgc_object_destroy(struct vgc_device *device, uint64_t object)
{
    struct vgc_response response;
    struct vgc_body_object body = {.object = object};
    if (object == 0)
        return VGC_OK;
    if (vgc_ledger_remove(&device->objects, object) == 0)
        return vgc_fail(VGC_INVALID_ADDRESS, "0x%llx is not a live texture or surface of this process",
                        (unsigned long long)object);
    return ask(device, VGC_OP_OBJECT_DESTROY, VGC_BYTES(body), sizeof(body), &response);
}

int vgc_reference_bind(struct vgc_device *device, struct vgc_program *program, const char *name, uint64_t object,
                       uint32_t stream)
{
    uint64_t address;
    uint64_t size;
    int result = check_textures(device);
    if (result == VGC_OK)
        result = vgc_program_global(program, name, &address, &size);
    if (result == VGC_OK && size < sizeof(object))
        result = vgc_fail(VGC_INVALID_ARGUMENT, "'%s' has %llu bytes and is no texture or surface reference", name,
                          (unsigned long long)size);
    object = vgc_le64(object);
    return result == VGC_OK ? vgc_copy_in(device, address, &object, sizeof(object), stream, NULL) : result;
}
