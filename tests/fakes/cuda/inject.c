/* Injected errors and hidden functions. */
#include <string.h>

#include "fake.h"

enum { MAX_RULES = 64 };

static struct {
    char name[64];
    unsigned long skip, times;
    CUresult result;
} rules[MAX_RULES];
static size_t num_rules;

static char hidden[MAX_RULES][64];
static size_t num_hidden;

/* True if the rule is for this function; "cuMemAlloc" is for cuMemAlloc_v2 too. */
static bool same_function(const char *rule, const char *name)
{
    size_t len = strlen(rule);
    return strncmp(rule, name, len) == 0 && (!name[len] || strncmp(name + len, "_v", 2) == 0);
}

CUresult fake_injected(const char *name)
{
    for (size_t i = 0; i < num_rules; i++) {
        if (!rules[i].times || !same_function(rules[i].name, name))
            continue;
        if (rules[i].skip) {
            rules[i].skip--;
            continue;
        }
        rules[i].times--;
        return rules[i].result;
    }
    return CUDA_SUCCESS;
}

void fake_inject(const char *name, unsigned long nth, unsigned long times, int result)
{
    if (num_rules == MAX_RULES) {
        fake_misuse("more than %d injected errors", MAX_RULES);
        return;
    }
    snprintf(rules[num_rules].name, sizeof rules[num_rules].name, "%s", name);
    rules[num_rules].skip = nth ? nth - 1 : 0;
    rules[num_rules].times = times;
    rules[num_rules++].result = (CUresult)result;
}

void fake_hide(const char *name)
{
    if (num_hidden < MAX_RULES)
        snprintf(hidden[num_hidden++], sizeof hidden[0], "%s", name);
}

bool fake_hidden(const char *name)
{
    for (size_t i = 0; i < num_hidden; i++)
        if (same_function(hidden[i], name))
            return true;
    return false;
}

void fake_inject_clear(void)
{
    num_rules = num_hidden = 0;
}
