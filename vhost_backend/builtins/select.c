/* Choosing elements. */
#include "check.h"
#include "groups.h"
#include "vgc_builtin_params.h"

#include <errno.h>

static const struct vgc_builtin_param NONZERO[] = {
    VGC_PARAM(vgc_nonzero_params, in, POINTER, IN, "array (n)"),
    VGC_PARAM(vgc_nonzero_params, n, INTEGER, VALUE, "number of elements"),
    VGC_PARAM(vgc_nonzero_params, out, POINTER, OUT, "int64 (n), of which the first ones are written"),
    VGC_PARAM(vgc_nonzero_params, count, POINTER, OUT, "number of these: one int64"),
};

static const struct vgc_builtin_param TAKE[] = {
    VGC_PARAM(vgc_take_params, in, POINTER, IN, "items (n)"),
    VGC_PARAM(vgc_take_params, n, INTEGER, VALUE, "number of items"),
    VGC_PARAM(vgc_take_params, item_bytes, INTEGER, VALUE,
              "bytes of an item, from 1; addresses are multiples of its largest power of two up to 8"),
    VGC_PARAM(vgc_take_params, indices, POINTER, IN, "indices (num_indices); negative ones count from the end"),
    VGC_PARAM(vgc_take_params, num_indices, INTEGER, VALUE, "number of indices"),
    VGC_PARAM(vgc_take_params, out, POINTER, OUT, "items (num_indices)"),
};

static int check_nonzero(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need,
                         char *why)
{
    const struct vgc_nonzero_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed = vgc_check_length(&check, &p->n) && vgc_check_array(&check, &p->in, (uint64_t)p->n, 1) &&
                      vgc_check_array(&check, &p->out, (uint64_t)p->n, 8) && vgc_check_array(&check, &p->count, 1, 8) &&
                      vgc_check_apart(&check, NULL, &p->out);
    return is_allowed ? 0 : -EINVAL;
}

/* Items: some units each, which are 1, 2, 4 or 8 bytes. */
static bool check_items(struct vgc_check *check, const uint64_t *address, int64_t count, int64_t item_bytes)
{
    uint32_t unit = vgc_builtin_unit(item_bytes);
    const int64_t factors[] = {count, item_bytes / unit};
    uint64_t units;
    return vgc_check_product(check, &units, "the number of items * item_bytes", 2, factors) &&
           vgc_check_array(check, address, units, unit);
}

static int check_take(const struct vgc_builtin *builtin, const void *params, struct vgc_builtin_need *need, char *why)
{
    const struct vgc_take_params *p = params;
    struct vgc_check check = vgc_check_begin(builtin, params, need, why);
    bool is_allowed =
        vgc_check_length(&check, &p->n) && vgc_check_number(&check, &p->item_bytes, 1, VGC_BUILTIN_LONGEST, "") &&
        vgc_check_length(&check, &p->num_indices) && check_items(&check, &p->in, p->n, p->item_bytes) &&
        vgc_check_array(&check, &p->indices, (uint64_t)p->num_indices, vgc_builtin_type_bytes(builtin->type)) &&
        check_items(&check, &p->out, p->num_indices, p->item_bytes) && vgc_check_apart(&check, NULL, &p->out);
    return is_allowed ? 0 : -EINVAL;
}

static const struct vgc_builtin BUILTINS[] = {
    {.name = "select.nonzero_b8",
     .summary = "positions of elements that are true, and their number",
     .numpy = "i = np.flatnonzero(a); count[0] = len(i); out[:len(i)] = i",
     .tolerance = "exact",
     .function = VGC_FN_NONZERO,
     .type = VGC_TYPE_B8,
     VGC_TAKES(vgc_nonzero_params, NONZERO),
     .check = check_nonzero},
    {.name = "select.take_i64",
     .summary = "items by their indices",
     .numpy = "out = np.take(a, indices, axis=0)",
     .limits = "the call fails if an index is less than -n, or n or more",
     .tolerance = "exact",
     .function = VGC_FN_TAKE,
     .type = VGC_TYPE_I64,
     VGC_TAKES(vgc_take_params, TAKE),
     .check = check_take},
};

const struct vgc_builtin_group vgc_builtin_select = {
    "select",
    "choosing elements",
    BUILTINS,
    VGC_LENGTH_OF(BUILTINS),
};
