/* Plans of sorting: one launch for rows of one tile, else three for each digit of the keys, from the last one on. */
#include "calls.h"
#include "planners.h"

/* Parts of rows that an SM is to have. */
enum { PARTS_PER_SM = 4 };

static const char *bits_type(const struct plan *plan)
{
    return vgc_builtin_type_bytes(plan->builtin->type) == 4 ? "u32" : "u64";
}

static const char *place_type(const struct sort_call *call)
{
    if (call->places == 0)
        return NULL;
    return call->place_bytes == 4 ? "u32" : "u64";
}

/* Adds a launch, of a kernel for the types that are not NULL. */
static void add(struct plan *plan, const struct sort_call *call, const char *stem, const char *first,
                const char *second, uint64_t blocks)
{
    struct kernel_name kernel = plan_kernel_of(stem, first, second);
    plan_add(plan, &kernel, plan_min(blocks, INT32_MAX), 0, call, sizeof(*call));
}

static void add_for_elements(struct plan *plan, const struct sort_call *call, const char *stem, const char *type)
{
    add(plan, call, stem, type, NULL, plan_blocks(plan, call->outer * call->n, THREADS));
}

static void cut(const struct plan *plan, struct sort_call *call)
{
    uint64_t tiles = plan_divide_up(call->n, SORT_TILE);
    uint64_t wanted = plan_max((uint64_t)plan->num_sms * PARTS_PER_SM / plan_max(call->outer, 1), 1);
    call->part = plan_divide_up(tiles, plan_min(wanted, plan_max(tiles, 1))) * SORT_TILE;
    call->parts = call->n == 0 ? 0 : plan_divide_up(call->n, call->part);
}

static void swap(u64 *a, u64 *b)
{
    u64 kept = *a;
    *a = *b;
    *b = kept;
}

/* Sorts the keys: the last pass, which is an even one, leaves them in `bits`, and their places in `places`. */
static void add_passes(struct plan *plan, struct sort_call *call)
{
    uint32_t key_bits = 8 * vgc_builtin_type_bytes(plan->builtin->type);
    cut(plan, call);
    call->counts = plan_take(plan, call->outer * DIGITS * call->parts * sizeof(u64));
    add_for_elements(plan, call, "sort_encode", plan_type(plan->builtin->type));
    for (call->shift = 0; call->shift < key_bits; call->shift += 8) {
        add(plan, call, "sort_count", bits_type(plan), NULL, call->outer * call->parts);
        add(plan, call, "sort_offsets", NULL, NULL, call->outer);
        add(plan, call, "sort_move", bits_type(plan), place_type(call), call->outer * call->parts);
        swap(&call->bits, &call->next_bits);
        swap(&call->places, &call->next_places);
    }
}

static uint64_t key_bytes(const struct plan *plan, const struct sort_call *call)
{
    return call->outer * call->n * vgc_builtin_type_bytes(plan->builtin->type);
}

static void take_places(struct plan *plan, struct sort_call *call)
{
    call->place_bytes = call->n <= UINT32_MAX ? 4 : 8;
    call->places = plan_take(plan, call->outer * call->n * call->place_bytes);
    call->next_places = plan_take(plan, call->outer * call->n * call->place_bytes);
}

/* Sorts rows of one tile; false: they are longer. */
static bool add_rows(struct plan *plan, const struct sort_call *call)
{
    if (call->n > SORT_TILE)
        return false;
    if (call->n > 0)
        add(plan, call, "sort_rows", plan_type(plan->builtin->type), NULL, call->outer);
    return true;
}

static void plan_keys(struct plan *plan, const struct vgc_sort_params *p)
{
    struct sort_call call = {.in = p->in, .out = p->out, .outer = (uint64_t)p->outer, .n = (uint64_t)p->n};
    call.descending = (uint32_t)p->descending;
    if (add_rows(plan, &call))
        return;
    call.bits = p->out;
    call.next_bits = plan_take(plan, key_bytes(plan, &call));
    add_passes(plan, &call);
    add_for_elements(plan, &call, "sort_decode", plan_type(plan->builtin->type));
}

static void plan_argsort(struct plan *plan, const struct vgc_sort_params *p)
{
    struct sort_call call = {.in = p->in, .out = p->out, .outer = (uint64_t)p->outer, .n = (uint64_t)p->n};
    call.descending = (uint32_t)p->descending;
    call.gives_positions = 1;
    call.joins_zeros = 1;
    if (add_rows(plan, &call))
        return;
    call.bits = plan_take(plan, key_bytes(plan, &call));
    call.next_bits = plan_take(plan, key_bytes(plan, &call));
    take_places(plan, &call);
    add_passes(plan, &call);
    add_for_elements(plan, &call, "sort_positions", NULL);
}

static void plan_pairs(struct plan *plan, const struct vgc_sort_pairs_params *p)
{
    struct sort_call call = {.in = p->keys, .out = p->keys_out, .outer = (uint64_t)p->outer, .n = (uint64_t)p->n};
    call.values = p->values;
    call.values_out = p->values_out;
    call.value_bytes = (uint32_t)p->value_bytes;
    call.joins_zeros = 1;
    call.descending = (uint32_t)p->descending;
    if (add_rows(plan, &call))
        return;
    call.bits = plan_take(plan, key_bytes(plan, &call));
    call.next_bits = plan_take(plan, key_bytes(plan, &call));
    take_places(plan, &call);
    add_passes(plan, &call);
    add_for_elements(plan, &call, "sort_values", NULL);
    call.values = p->keys;
    call.values_out = p->keys_out;
    call.value_bytes = vgc_builtin_type_bytes(plan->builtin->type);
    add_for_elements(plan, &call, "sort_values", NULL);
}

static void plan_unique(struct plan *plan, const struct vgc_unique_params *p)
{
    struct sort_call call = {.in = p->in, .out = p->out, .outer = 1, .n = (uint64_t)p->n, .count = p->count};
    call.joins_zeros = 1;
    call.bits = plan_take(plan, key_bytes(plan, &call));
    call.next_bits = p->out;
    add_passes(plan, &call);
    add(plan, &call, "sort_unique_count", bits_type(plan), NULL, call.parts);
    add(plan, &call, "sort_unique_offsets", NULL, NULL, 1);
    add(plan, &call, "sort_unique_keys", plan_type(plan->builtin->type), NULL, call.parts);
}

void plan_sort(struct plan *plan, const void *params)
{
    switch (plan->builtin->function) {
    case VGC_FN_SORT_KEYS:
        plan_keys(plan, params);
        break;
    case VGC_FN_ARGSORT:
        plan_argsort(plan, params);
        break;
    case VGC_FN_SORT_PAIRS:
        plan_pairs(plan, params);
        break;
    default:
        plan_unique(plan, params);
        break;
    }
}
