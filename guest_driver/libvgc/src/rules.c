/* Rules that name the side of a function: the first of a list that matches counts. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "sides.h"

static enum vgc_rule_side side_named(const char *text, size_t len)
{
    static const struct {
        const char *name;
        enum vgc_rule_side side;
    } SIDES[] = {{"cpu", VGC_RULE_CPU}, {"gpu", VGC_RULE_GPU}, {"host", VGC_RULE_GPU}, {"auto", VGC_RULE_AUTO}};
    for (size_t i = 0; i < sizeof(SIDES) / sizeof(SIDES[0]); i++)
        if (strlen(SIDES[i].name) == len && memcmp(text, SIDES[i].name, len) == 0)
            return SIDES[i].side;
    return VGC_RULE_WRONG;
}

/* A number, perhaps with K, M or G behind it. False: something else. */
static bool parse_bytes(const char *text, size_t len, uint64_t *bytes)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++)
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    if (i == 0 || len - i > 1)
        return false;
    const char *unit = i < len ? strchr("KMG", text[i]) : NULL;
    if (i < len && unit == NULL)
        return false;
    unsigned shift = unit != NULL ? 10 * (unsigned)(strchr("KMG", *unit) - strchr("KMG", 'K') + 1) : 0;
    *bytes = number << shift;
    return *bytes >> shift == number;
}

static bool starts(const char *text, size_t len, const char *with)
{
    return len > strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

/* bytes>=N, bytes<N or type=NAME */
static bool parse_condition(struct vgc_rule *rule, const char *text, size_t len)
{
    if (starts(text, len, "bytes>="))
        return parse_bytes(text + 7, len - 7, &rule->at_least);
    if (starts(text, len, "bytes<"))
        return parse_bytes(text + 6, len - 6, &rule->below);
    if (!starts(text, len, "type="))
        return false;
    rule->type = text + 5;
    rule->type_len = len - 5;
    return true;
}

static void parse_side(struct vgc_rule *rule, const char *text, size_t len)
{
    const char *colon = memchr(text, ':', len);
    rule->side_text = text;
    rule->side_len = colon != NULL ? (size_t)(colon - text) : len;
    rule->side = side_named(text, rule->side_len);
    rule->has_conditions = colon != NULL;
    const char *end = text + len;
    while (colon != NULL) {
        const char *condition = colon + 1;
        colon = memchr(condition, ':', (size_t)(end - condition));
        size_t condition_len = (size_t)((colon != NULL ? colon : end) - condition);
        if (parse_condition(rule, condition, condition_len) || rule->wrong != NULL)
            continue;
        rule->wrong = condition;
        rule->wrong_len = condition_len;
    }
}

bool vgc_rule_next(const char **list, struct vgc_rule *rule)
{
    const char *text = *list;
    if (text == NULL || *text == '\0')
        return false;
    size_t len = strcspn(text, ",");
    const char *equals = memchr(text, '=', len);
    *rule = (struct vgc_rule){.text = text, .len = len, .below = UINT64_MAX};
    *list = text + len + (text[len] == ',');
    if (equals == NULL) {
        parse_side(rule, text, len);
        return true;
    }
    rule->pattern = text;
    rule->pattern_len = (size_t)(equals - text);
    parse_side(rule, equals + 1, len - rule->pattern_len - 1);
    return true;
}

bool vgc_rule_is_of(const struct vgc_rule *rule, const char *name)
{
    char pattern[256];
    if (rule->pattern == NULL)
        return true;
    if (rule->pattern_len >= sizeof(pattern))
        return false;
    memcpy(pattern, rule->pattern, rule->pattern_len);
    pattern[rule->pattern_len] = '\0';
    return fnmatch(pattern, name, 0) == 0;
}

bool vgc_rule_applies(const struct vgc_rule *rule, uint64_t bytes, const char *type)
{
    if (bytes < rule->at_least || bytes >= rule->below)
        return false;
    return rule->type == NULL ||
           (type != NULL && strlen(type) == rule->type_len && memcmp(type, rule->type, rule->type_len) == 0);
}
