/* Table of functions by name: registrations, rules, and the times that are kept from run to run.
 *
 * Readers take no lock: entries and sets of rules stay where they are until the table is freed, and a larger array of
 * entries leaves the smaller one to those who are reading it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"

enum {
    FIRST_ROOM = 64,
    MOST_ENTRIES = 1 << 20,
    MOST_RULES = 48,
    REMARK_BYTES = 224,
    NAME_TEXT_BYTES = 3 * VGC_MAX_NAME + 1
};

struct slots { /* open addressing */
    struct slots *smaller;
    size_t room; /* a power of two */
    _Atomic(struct vgc_named *) at[];
};

struct rules {
    struct rules *earlier;
    uint64_t number; /* of 16 bits, never 0 */
    uint32_t count;
    struct vgc_rule rules[MOST_RULES];
    char text[];
};

struct vgc_named_table {
    struct vgc_named_table *next;
    uint64_t owner;
    char remark[REMARK_BYTES];
    uint32_t forks; /* of the process when it was made */
    _Atomic uint64_t silent_until_ns;
    pthread_mutex_t mutex; /* of whoever changes it */
    size_t count;
    _Atomic(struct slots *) slots;
    _Atomic(struct rules *) rules;
    struct vgc_local *locals;
    bool has_file;
    struct vgc_times_file file;
};

static pthread_mutex_t tables_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct vgc_named_table *tables; /* all that are open */
static _Atomic(struct vgc_named_table *) without_device;
static _Atomic uint32_t forks;

static void count_fork(void)
{
    (void)atomic_fetch_add(&forks, 1);
    (void)pthread_mutex_init(&tables_mutex, NULL);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

bool vgc_named_is_inherited(const struct vgc_named_table *table)
{
    return table->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

_Atomic uint64_t *vgc_named_silence(struct vgc_named_table *table)
{
    return &table->silent_until_ns;
}

struct vgc_named_table *vgc_named_table_of(const struct vgc_device *device)
{
    return atomic_load_explicit(device != NULL ? &device->named : &without_device, memory_order_acquire);
}

/* ---- names ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const void *bytes, size_t len, uint64_t hash)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
    return hash;
}

static const uint64_t FIRST_HASH = 0xcbf29ce484222325;

/* The entry, or the empty slot where it would be. */
static _Atomic(struct vgc_named *) *slot_of(struct slots *slots, uint64_t hash, const char *name, size_t len)
{
    for (size_t i = hash & (slots->room - 1);; i = (i + 1) & (slots->room - 1)) {
        struct vgc_named *named = atomic_load_explicit(&slots->at[i], memory_order_acquire);
        if (named == NULL || (named->hash == hash && named->len == len && memcmp(named->name, name, len) == 0))
            return &slots->at[i];
    }
}

struct vgc_named *vgc_named_find(const struct vgc_named_table *table, const char *name)
{
    size_t len = strlen(name);
    struct slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
    return *slot_of(slots, hash_of(name, len, FIRST_HASH), name, len);
}

static struct slots *new_slots(size_t room, struct slots *smaller)
{
    struct slots *slots = calloc(1, sizeof(*slots) + room * sizeof(slots->at[0]));
    if (slots == NULL)
        return NULL;
    slots->room = room;
    slots->smaller = smaller;
    for (size_t i = 0; smaller != NULL && i < smaller->room; i++) {
        struct vgc_named *named = smaller->at[i];
        if (named != NULL)
            *slot_of(slots, named->hash, named->name, named->len) = named;
    }
    return slots;
}

/* With the mutex: the entry of a name, which is made if it is new. NULL: no room. */
static struct vgc_named *make(struct vgc_named_table *table, const char *name)
{
    size_t len = strlen(name);
    uint64_t hash = hash_of(name, len, FIRST_HASH);
    _Atomic(struct vgc_named *) *slot = slot_of(table->slots, hash, name, len);
    if (*slot != NULL || table->count >= MOST_ENTRIES)
        return *slot;
    struct slots *slots = table->slots;
    if (2 * (table->count + 1) > slots->room) {
        struct slots *larger = new_slots(4 * slots->room, slots);
        if (larger == NULL)
            return NULL;
        atomic_store_explicit(&table->slots, larger, memory_order_release);
        slot = slot_of(larger, hash, name, len);
    }
    struct vgc_named *named = calloc(1, sizeof(*named) + len + 1);
    if (named == NULL)
        return NULL;
    named->hash = hash;
    named->len = len;
    memcpy(named->name, name, len);
    atomic_store_explicit(slot, named, memory_order_release);
    table->count++;
    return named;
}

/* ---- rules ---------------------------------------------------------------------------------- */

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

static int parse_rules(struct rules *set, const char *list, const char *from)
{
    struct vgc_rule rule;
    while (vgc_rule_next(&list, &rule)) {
        int result = check_rule(&rule, from);
        if (result != VGC_OK)
            return result;
        if (set->count == MOST_RULES)
            return vgc_fail(VGC_INVALID_ARGUMENT, "%s: more than %d rules, with those of $VGC_SIDE", from, MOST_RULES);
        set->rules[set->count++] = rule;
    }
    return VGC_OK;
}

/* With the mutex. */
static int set_rules(struct vgc_named_table *table, const char *own)
{
    const char *user = getenv("VGC_SIDE");
    size_t user_len = user != NULL ? strlen(user) : 0;
    size_t own_len = own != NULL ? strlen(own) : 0;
    struct rules *set = calloc(1, sizeof(*set) + user_len + own_len + 2);
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
static uint64_t matching(const struct rules *set, struct vgc_named *named)
{
    uint64_t known = atomic_load_explicit(&named->rules, memory_order_relaxed);
    if (known >> MOST_RULES == set->number)
        return known;
    uint64_t matching = set->number << MOST_RULES;
    for (uint32_t i = 0; i < set->count; i++)
        if (vgc_rule_is_of(&set->rules[i], named->name))
            matching |= 1ull << i;
    atomic_store_explicit(&named->rules, matching, memory_order_relaxed);
    return matching;
}

enum vgc_rule_side vgc_named_rule(const struct vgc_named_table *table, struct vgc_named *named, uint64_t size,
                                  const char *type)
{
    const struct rules *set = atomic_load_explicit(&table->rules, memory_order_acquire);
    if (set->count == 0)
        return VGC_RULE_AUTO;
    uint64_t left = matching(set, named) & ((1ull << MOST_RULES) - 1);
    for (; left != 0; left &= left - 1) {
        const struct vgc_rule *rule = &set->rules[__builtin_ctzll(left)];
        if (vgc_rule_applies(rule, size, type))
            return rule->side;
    }
    return VGC_RULE_AUTO;
}

/* ---- times from run to run ------------------------------------------------------------------ */

/* A name as a word: white space, control characters, '%' and bytes beyond ASCII as %XX. */
static void put_name(const char *name, char text[NAME_TEXT_BYTES])
{
    static const char DIGITS[] = "0123456789abcdef";
    for (; *name != '\0'; name++) {
        uint8_t byte = (uint8_t)*name;
        if (byte > ' ' && byte < 0x7f && byte != '%') {
            *text++ = *name;
            continue;
        }
        *text++ = '%';
        *text++ = DIGITS[byte >> 4];
        *text++ = DIGITS[byte & 15];
    }
    *text = '\0';
}

static int digit(char text)
{
    return text >= '0' && text <= '9' ? text - '0' : text >= 'a' && text <= 'f' ? text - 'a' + 10 : -1;
}

/* False: the text is not one that put_name() makes. */
static bool get_name(const char *text, char name[VGC_MAX_NAME + 1])
{
    size_t len = 0;
    for (; *text != '\0'; text++) {
        if (len == VGC_MAX_NAME)
            return false;
        name[len] = *text;
        if (*text == '%') {
            int high = digit(text[1]);
            int low = high >= 0 ? digit(text[2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return false;
            name[len] = (char)(16 * high + low);
            text += 2;
        }
        len++;
    }
    name[len] = '\0';
    return len > 0;
}

static void take_line(void *data, const struct vgc_times_line *line)
{
    struct vgc_named_table *table = data;
    char name[VGC_MAX_NAME + 1];
    struct vgc_named *named = line->owner == table->owner && get_name(line->name, name) ? make(table, name) : NULL;
    if (named != NULL)
        vgc_sizes_recall(&named->sizes, line);
}

struct news {
    const struct vgc_named_table *table;
    const struct slots *slots;
    size_t slot;
    uint32_t size_class; /* next one of the slot's entry */
    char name[NAME_TEXT_BYTES];
};

static struct vgc_times *new_times(const struct vgc_named *named, uint32_t size_class)
{
    struct vgc_size_class *at = vgc_sizes_at(&named->sizes, size_class);
    bool is_known = at != NULL && at->times.samples[VGC_TIMED_GPU] + at->times.samples[VGC_TIMED_CPU] > 0;
    return is_known && at->times.is_new ? &at->times : NULL;
}

static bool next_new(void *data, struct vgc_times_line *line)
{
    struct news *news = data;
    for (; news->slot < news->slots->room; news->slot++, news->size_class = 0) {
        const struct vgc_named *named = news->slots->at[news->slot];
        while (named != NULL && news->size_class < VGC_SIZE_CLASSES) {
            struct vgc_times *times = new_times(named, news->size_class++);
            if (times == NULL)
                continue;
            put_name(named->name, news->name);
            *line = (struct vgc_times_line){.owner = news->table->owner,
                                            .name = news->name,
                                            .size_class = news->size_class - 1,
                                            .remark = news->table->remark};
            vgc_times_give(times, line);
            return true;
        }
    }
    return false;
}

static bool is_new(void *data, const struct vgc_times_line *line)
{
    const struct news *news = data;
    char name[VGC_MAX_NAME + 1];
    if (line->owner != news->table->owner || line->size_class >= VGC_SIZE_CLASSES || !get_name(line->name, name))
        return false;
    const struct vgc_named *named = vgc_named_find(news->table, name);
    return named != NULL && new_times(named, line->size_class) != NULL;
}

/* Reads entries alone, so other threads may go on. */
static void keep(const struct vgc_named_table *table)
{
    struct vgc_times_line line;
    struct news first = {.table = table, .slots = table->slots};
    if (!table->has_file || vgc_named_is_inherited(table) || !next_new(&first, &line))
        return;
    struct news all = {.table = table, .slots = table->slots};
    const struct vgc_times_news news = {.next = next_new, .has = is_new, .data = &all};
    vgc_times_write(&table->file, &news);
}

/* At the end of the process, when other threads may hold whatever they hold. */
__attribute__((destructor)) static void keep_all(void)
{
    if (pthread_mutex_trylock(&tables_mutex) != 0)
        return;
    for (const struct vgc_named_table *table = tables; table != NULL; table = table->next)
        keep(table);
    (void)pthread_mutex_unlock(&tables_mutex);
}

void vgc_choice_keep(struct vgc_device *device)
{
    const struct vgc_named_table *table = vgc_named_table_of(device);
    if (table != NULL)
        keep(table);
}

int vgc_choice_file(char *path, size_t room)
{
    struct vgc_times_file file;
    if (!vgc_times_find(&file, "VGC_CHOICE_FILE", "choice"))
        return vgc_fail(VGC_NOT_FOUND, "times are not kept: VGC_CHOICE_FILE is empty, or there is no home");
    if (strlen(file.path) >= room)
        return vgc_fail(VGC_INVALID_ARGUMENT, "a path of %zu bytes, and room for %zu", strlen(file.path), room);
    memcpy(path, file.path, strlen(file.path) + 1);
    return VGC_OK;
}

uint64_t vgc_choice_owner(const struct vgc_device *device)
{
    if (device == NULL)
        return 0;
    const struct vgc_config *config = &device->config;
    size_t len = strnlen((const char *)config->engine_name, sizeof(config->engine_name));
    uint64_t hash = hash_of(config->engine_name, len, FIRST_HASH);
    return hash_of(&config->quota_pes, sizeof(config->quota_pes), hash);
}

/* ---- tables --------------------------------------------------------------------------------- */

static void free_table(struct vgc_named_table *table)
{
    struct slots *slots = table->slots;
    for (size_t i = 0; slots != NULL && i < slots->room; i++)
        if (slots->at[i] != NULL) {
            vgc_sizes_free(&slots->at[i]->sizes);
            free(slots->at[i]);
        }
    for (struct slots *smaller; slots != NULL; slots = smaller) {
        smaller = slots->smaller;
        free(slots);
    }
    for (struct rules *earlier, *set = table->rules; set != NULL; set = earlier) {
        earlier = set->earlier;
        free(set);
    }
    for (struct vgc_local *next, *local = table->locals; local != NULL; local = next) {
        next = local->next;
        free(local);
    }
    (void)pthread_mutex_destroy(&table->mutex);
    free(table);
}

static void describe(struct vgc_named_table *table, const struct vgc_device *device)
{
    if (device == NULL)
        return;
    const struct vgc_config *config = &device->config;
    (void)snprintf(table->remark, sizeof(table->remark), "%.*s, %u processing elements",
                   (int)strnlen((const char *)config->engine_name, sizeof(config->engine_name)),
                   (const char *)config->engine_name, config->quota_pes);
    for (char *at = table->remark; *at != '\0'; at++)
        if ((uint8_t)*at < ' ')
            *at = '?';
}

static int new_table(const struct vgc_device *device, struct vgc_named_table **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    struct vgc_named_table *table = calloc(1, sizeof(*table));
    if (table == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    (void)pthread_mutex_init(&table->mutex, NULL);
    table->forks = forks;
    table->owner = vgc_choice_owner(device);
    describe(table, device);
    table->slots = new_slots(FIRST_ROOM, NULL);
    int result = table->slots != NULL ? set_rules(table, NULL) : vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    if (result != VGC_OK) {
        free_table(table);
        return result;
    }
    table->has_file = device != NULL && vgc_times_find(&table->file, "VGC_CHOICE_FILE", "choice");
    if (table->has_file)
        vgc_times_read(&table->file, take_line, table);
    *out = table;
    return VGC_OK;
}

/* The table, which is made at the first use. */
static int table_of(struct vgc_device *device, struct vgc_named_table **table)
{
    int result = VGC_OK;
    *table = vgc_named_table_of(device);
    if (*table != NULL)
        return VGC_OK;
    pthread_mutex_lock(&tables_mutex);
    *table = vgc_named_table_of(device);
    if (*table == NULL)
        result = new_table(device, table);
    if (result == VGC_OK && vgc_named_table_of(device) == NULL) {
        (*table)->next = tables;
        tables = *table;
        atomic_store_explicit(device != NULL ? &device->named : &without_device, *table, memory_order_release);
    }
    pthread_mutex_unlock(&tables_mutex);
    return result;
}

void vgc_named_close(struct vgc_device *device)
{
    struct vgc_named_table *table = atomic_exchange(&device->named, NULL);
    if (table == NULL)
        return;
    keep(table);
    pthread_mutex_lock(&tables_mutex);
    struct vgc_named_table **at = &tables;
    while (*at != table)
        at = &(*at)->next;
    *at = table->next;
    pthread_mutex_unlock(&tables_mutex);
    free_table(table);
}

/* ---- registering ---------------------------------------------------------------------------- */

static int add_local(struct vgc_named_table *table, const char *name, vgc_local_call function, void *user)
{
    struct vgc_named *named = make(table, name);
    struct vgc_local *local = named != NULL ? malloc(sizeof(*local)) : NULL;
    if (local == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest, or more than %d names", MOST_ENTRIES);
    if (named->local != NULL) {
        free(local);
        return vgc_fail(VGC_INVALID_ARGUMENT, "a local function '%s' is registered already: unregister it first", name);
    }
    *local = (struct vgc_local){function, user, table->locals};
    table->locals = local;
    atomic_store_explicit(&named->local, local, memory_order_release);
    return VGC_OK;
}

int vgc_local_register(struct vgc_device *device, const char *name, vgc_local_call function, void *user)
{
    struct vgc_named_table *table;
    int result = vgc_check_name(name);
    if (result == VGC_OK)
        result = table_of(device, &table);
    if (result != VGC_OK)
        return result;
    pthread_mutex_lock(&table->mutex);
    result = add_local(table, name, function, user);
    pthread_mutex_unlock(&table->mutex);
    return result;
}

int vgc_local_unregister(struct vgc_device *device, const char *name)
{
    int result = vgc_check_name(name);
    if (result != VGC_OK)
        return result;
    struct vgc_named_table *table = vgc_named_table_of(device);
    struct vgc_named *named = table != NULL ? vgc_named_find(table, name) : NULL;
    if (named == NULL || atomic_exchange(&named->local, NULL) == NULL)
        return vgc_fail(VGC_NOT_FOUND, "no local function '%s' is registered", name);
    return VGC_OK;
}

int vgc_choice_rules(struct vgc_device *device, const char *rules)
{
    struct vgc_named_table *table;
    int result = table_of(device, &table);
    if (result != VGC_OK)
        return result;
    pthread_mutex_lock(&table->mutex);
    result = set_rules(table, rules);
    pthread_mutex_unlock(&table->mutex);
    return result;
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
