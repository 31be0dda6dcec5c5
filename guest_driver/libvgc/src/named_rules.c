/* Rules for the side of functions by name: those of $VGC_SIDE, then the program's. */
#include <stdlib.h>
#include <string.h>

#include "named_table.h"

static int check_rule(const struct vgc_rule *rule, const char *from)
{
    if (rule->side == VGC_RULE_WRONG)
        return vgc_fail(VGC_INVALID_ARGUMENT, "%s: '%.*s' is no side; allowed: cpu, gpu, host, auto", from,
                        (int)rule->side_len, rule->side_text);
    if (rule->wrong != NULL)
        return vgc_fail(VGC_INVALID_ARGUMENT,
                        "%s: '%.*s' is no condition; allowed: bytes>=N, bytes<N (with K, M or G), type=NAME", from,
                        (int)rule->wrong_len, rule->wrong);
    if (rule->pattern_len > 255)
        return vgc_fail(VGC_INVALID_ARGUMENT, "%s: a pattern of %zu bytes; allowed: 255", from, rule->pattern_len);
    return VGC_OK;
}

static int parse_rules(struct vgc_named_rules *set, const char *list, const char *from)
{
    struct vgc_rule rule;
    while (vgc_rule_next(&list, &rule)) {
        int result = check_rule(&rule, from);
        if (result != VGC_OK)
            return result;
        if (set->count == VGC_NAMED_RULES)
            return vgc_fail(VGC_INVALID_ARGUMENT, "%s: more than %d rules, with those of $VGC_SIDE", from,
                            VGC_NAMED_RULES);
        set->rules[set->count++] = rule;
    }
    return VGC_OK;
}

int vgc_named_set_rules(struct vgc_named_table *table, const char *own)
{
    const char *user = getenv("VGC_SIDE");
    size_t user_len = user != NULL ? strlen(user) : 0;
    size_t own_len = own != NULL ? strlen(own) : 0;
    struct vgc_named_rules *set = calloc(1, sizeof(*set) + user_len + own_len + 2);
    if (set == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    memcpy(set->text, user != NULL ? user : "", user_len);
    memcpy(set->text + user_len + 1, own != NULL ? own : "", own_len);
    int result = parse_rules(set, set->text, "VGC_SIDE");
    if (result == VGC_OK)
        result = parse_rules(set, set->text + user_len + 1, "rules");
    if (result != VGC_OK) {
        free(set);
        return result;
    }
    set->earlier = table->rules;
    set->number = (set->earlier != NULL ? set->earlier->number % UINT16_MAX : 0) + 1;
    atomic_store_explicit(&table->rules, set, memory_order_release);
    return VGC_OK;
}

/* Which rules match the name; found once for each set of rules. */
static uint64_t matching(const struct vgc_named_rules *set, struct vgc_named *named)
{
    uint64_t known = atomic_load_explicit(&named->rules, memory_order_relaxed);
    if (known >> VGC_NAMED_RULES == set->number)
        return known;
    uint64_t matching = set->number << VGC_NAMED_RULES;
    for (uint32_t i = 0; i < set->count; i++)
        if (vgc_rule_is_of(&set->rules[i], named->name))
            matching |= 1ull << i;
    atomic_store_explicit(&named->rules, matching, memory_order_relaxed);
    return matching;
}

enum vgc_rule_side vgc_named_rule(const struct vgc_named_table *table, struct vgc_named *named, uint64_t size,
                                  const char *type)
{
    const struct vgc_named_rules *set = atomic_load_explicit(&table->rules, memory_order_acquire);
    if (set->count == 0)
        return VGC_RULE_AUTO;
    uint64_t left = matching(set, named) & ((1ull << VGC_NAMED_RULES) - 1);
    for (; left != 0; left &= left - 1) {
        const struct vgc_rule *rule = &set->rules[__builtin_ctzll(left)];
        if (vgc_rule_applies(rule, size, type))
            return rule->side;
    }
    return VGC_RULE_AUTO;
}

int vgc_choice_rule(const char *rules, const char *name, uint64_t size, const char *type, uint32_t *side)
{
    struct vgc_rule rule;
    enum vgc_rule_side found = VGC_RULE_WRONG; /* none yet */
    while (vgc_rule_next(&rules, &rule)) {
        int result = check_rule(&rule, "rules");
        if (result != VGC_OK)
            return result;
        if (found == VGC_RULE_WRONG && vgc_rule_is_of(&rule, name) && vgc_rule_applies(&rule, size, type))
            found = rule.side;
    }
    *side = found == VGC_RULE_CPU ? VGC_SIDE_CPU : found == VGC_RULE_GPU ? VGC_SIDE_HOST : VGC_SIDE_AUTO;
    return VGC_OK;
}
