/* Backend descriptors: lists of attributes. One that is an attribute of a second lives as long as the second does. */
#include <stdlib.h>
#include <string.h>

#include "dnn.h"

enum { MAGIC = 0x44444456, MOST_ELEMENTS = 1 << 20 };

struct dnn_descriptor *dnn_new(int type)
{
    struct dnn_descriptor *one = calloc(1, sizeof(*one));
    if (one != NULL)
        *one = (struct dnn_descriptor){.magic = MAGIC, .type = type, .users = 1};
    return one;
}

bool dnn_is_descriptor(const struct dnn_descriptor *one)
{
    return one != NULL && one->magic == MAGIC;
}

void dnn_hold(struct dnn_descriptor *one)
{
    (void)__atomic_add_fetch(&one->users, 1, __ATOMIC_RELAXED);
}

static void clear(struct dnn_attribute *attribute)
{
    struct dnn_descriptor **parts = attribute->values;
    for (int64_t i = 0; attribute->type == DNN_A_DESCRIPTOR && i < attribute->count; i++)
        dnn_drop(parts[i]);
    free(attribute->values);
    *attribute = (struct dnn_attribute){.name = attribute->name};
}

static void clear_all(struct dnn_descriptor *one)
{
    for (size_t i = 0; i < one->num_attributes; i++)
        clear(&one->attributes[i]);
    free(one->attributes);
    one->attributes = NULL;
    one->num_attributes = 0;
}

void dnn_drop(struct dnn_descriptor *one)
{
    if (__atomic_sub_fetch(&one->users, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    clear_all(one);
    one->magic = 0;
    free(one);
}

/* Bytes of an element; enumerations have those of an int. */
static size_t element_bytes(int type)
{
    switch (type) {
    case DNN_A_HANDLE:
    case DNN_A_INT64:
    case DNN_A_DOUBLE:
    case DNN_A_POINTER:
    case DNN_A_DESCRIPTOR:
        return sizeof(int64_t);
    case DNN_A_BOOLEAN:
    case DNN_A_CHAR:
        return sizeof(char);
    case DNN_A_FRACTION:
        return 2 * sizeof(int64_t);
    default:
        return sizeof(int);
    }
}

static struct dnn_attribute *find(const struct dnn_descriptor *one, int name)
{
    for (size_t i = 0; one != NULL && i < one->num_attributes; i++)
        if (one->attributes[i].name == name)
            return &one->attributes[i];
    return NULL;
}

static struct dnn_attribute *make(struct dnn_descriptor *one, int name)
{
    struct dnn_attribute *found = find(one, name);
    if (found != NULL)
        return found;
    struct dnn_attribute *more = realloc(one->attributes, (one->num_attributes + 1) * sizeof(*more));
    if (more == NULL)
        return NULL;
    one->attributes = more;
    found = &more[one->num_attributes++];
    *found = (struct dnn_attribute){.name = name};
    return found;
}

static bool are_descriptors(const void *values, int64_t count)
{
    struct dnn_descriptor *const *parts = values;
    for (int64_t i = 0; i < count; i++)
        if (!dnn_is_descriptor(parts[i]))
            return false;
    return true;
}

dnn_status dnn_set(struct dnn_descriptor *one, int name, int type, int64_t count, const void *values)
{
    if (count < 0 || count > MOST_ELEMENTS || (count > 0 && values == NULL))
        return dnn_fail(DNN_BAD_PARAM, "attribute %d: %lld elements, or none given", name, (long long)count);
    if (type == DNN_A_DESCRIPTOR && !are_descriptors(values, count))
        return dnn_fail(DNN_BAD_PARAM, "attribute %d: an element is no descriptor", name);
    const size_t bytes = (size_t)count * element_bytes(type);
    void *copy = malloc(bytes + 1);
    struct dnn_attribute *attribute = copy != NULL ? make(one, name) : NULL;
    if (attribute == NULL) {
        free(copy);
        return dnn_fail(DNN_ALLOCATION_FAILED, "no memory for an attribute");
    }
    if (bytes > 0)
        memcpy(copy, values, bytes);
    struct dnn_descriptor **parts = copy;
    for (int64_t i = 0; type == DNN_A_DESCRIPTOR && i < count; i++)
        dnn_hold(parts[i]);
    clear(attribute);
    *attribute = (struct dnn_attribute){name, type, count, copy};
    return DNN_SUCCESS;
}

const void *dnn_get(const struct dnn_descriptor *one, int name, int type, int64_t count)
{
    const struct dnn_attribute *found = find(one, name);
    return found != NULL && found->type == type && found->count >= count ? found->values : NULL;
}

int64_t dnn_count(const struct dnn_descriptor *one, int name)
{
    const struct dnn_attribute *found = find(one, name);
    return found != NULL ? found->count : 0;
}

struct dnn_descriptor *dnn_part(const struct dnn_descriptor *one, int name, int type)
{
    struct dnn_descriptor *const *parts = dnn_get(one, name, DNN_A_DESCRIPTOR, 1);
    return parts != NULL && parts[0]->type == type && parts[0]->is_final ? parts[0] : NULL;
}

/* Copies a descriptor into one that the program has made for that. */
static dnn_status become(struct dnn_descriptor *one, const struct dnn_descriptor *other)
{
    if (!dnn_is_descriptor(one) || one->type != other->type)
        return dnn_fail(DNN_DESCRIPTOR_TYPE, "an element is no descriptor of type %d", other->type);
    if (one == other)
        return DNN_SUCCESS;
    clear_all(one);
    one->is_final = other->is_final;
    for (size_t i = 0; i < other->num_attributes; i++) {
        const struct dnn_attribute *from = &other->attributes[i];
        dnn_status failed = dnn_set(one, from->name, from->type, from->count, from->values);
        if (failed != DNN_SUCCESS)
            return failed;
    }
    return DNN_SUCCESS;
}

/* ---- the API ------------------------------------------------------------------------------------------------------
 */

API dnn_status cudnnBackendCreateDescriptor(int type, struct dnn_descriptor **made);
API dnn_status cudnnBackendCreateDescriptor(int type, struct dnn_descriptor **made)
{
    if (made == NULL)
        return dnn_fail(DNN_NULL_POINTER, "no place for the descriptor");
    *made = NULL;
    if (type < 0 || type > DNN_MOST_TYPE)
        return dnn_fail(DNN_NOT_SUPPORTED, "descriptors of type %d", type);
    *made = dnn_new(type);
    return *made != NULL ? DNN_SUCCESS : dnn_fail(DNN_ALLOCATION_FAILED, "no memory for a descriptor");
}

API dnn_status cudnnBackendDestroyDescriptor(struct dnn_descriptor *one);
API dnn_status cudnnBackendDestroyDescriptor(struct dnn_descriptor *one)
{
    if (one == NULL)
        return DNN_SUCCESS;
    if (!dnn_is_descriptor(one))
        return dnn_fail(DNN_BAD_PARAM, "no descriptor");
    dnn_drop(one);
    return DNN_SUCCESS;
}

API dnn_status cudnnBackendSetAttribute(struct dnn_descriptor *one, int name, int type, int64_t count,
                                        const void *values);
API dnn_status cudnnBackendSetAttribute(struct dnn_descriptor *one, int name, int type, int64_t count,
                                        const void *values)
{
    if (!dnn_is_descriptor(one) || one->is_final)
        return dnn_fail(DNN_BAD_PARAM, "no descriptor, or a final one");
    return dnn_set(one, name, type, count, values);
}

API dnn_status cudnnBackendGetAttribute(struct dnn_descriptor *one, int name, int type, int64_t wanted, int64_t *count,
                                        void *values);
API dnn_status cudnnBackendGetAttribute(struct dnn_descriptor *one, int name, int type, int64_t wanted, int64_t *count,
                                        void *values)
{
    if (!dnn_is_descriptor(one) || !one->is_final)
        return dnn_fail(DNN_NOT_FINALIZED, "no descriptor, or one that is not final");
    const struct dnn_attribute *found = find(one, name);
    const int64_t there = found != NULL ? found->count : 0;
    if (found != NULL && found->type != type)
        return dnn_fail(DNN_ATTRIBUTE_TYPE, "attribute %d has type %d", name, found->type);
    const int64_t told = wanted > 0 && values != NULL ? (wanted < there ? wanted : there) : 0;
    if (count != NULL) /* without a place for elements, how many there are */
        *count = wanted > 0 && values != NULL ? told : there;
    if (told == 0)
        return DNN_SUCCESS;
    if (type != DNN_A_DESCRIPTOR) {
        memcpy(values, found->values, (size_t)told * element_bytes(type));
        return DNN_SUCCESS;
    }
    struct dnn_descriptor *const *to = values, *const *from = found->values;
    for (int64_t i = 0; i < told; i++) {
        dnn_status failed = become(to[i], from[i]);
        if (failed != DNN_SUCCESS)
            return failed;
    }
    return DNN_SUCCESS;
}

API dnn_status cudnnBackendFinalize(struct dnn_descriptor *one);
API dnn_status cudnnBackendFinalize(struct dnn_descriptor *one)
{
    if (!dnn_is_descriptor(one))
        return dnn_fail(DNN_BAD_PARAM, "no descriptor");
    dnn_status failed = one->is_final ? DNN_SUCCESS : dnn_finalize(one);
    one->is_final = one->is_final || failed == DNN_SUCCESS;
    return failed;
}
