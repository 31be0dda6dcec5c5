/* The tables of functions by name that are open, and registering. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named_table.h"

enum { FIRST_ROOM = 64 };

static pthread_mutex_t tables_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct vgc_named_table *tables; /* all that are open */
static _Atomic(struct vgc_named_table *) without_device;

static void free_mutex(void)
{
    (void)pthread_mutex_init(&tables_mutex, NULL); /* a thread of the parent's may have held it */
}

static void watch_forks(void)
{
    vgc_in_children(free_mutex);
}

bool vgc_named_is_inherited(const struct vgc_named_table *table)
{
    return table->process != vgc_process();
}

struct vgc_named_table *vgc_named_table_of(const struct vgc_device *device)
{
    return atomic_load_explicit(device != NULL ? &device->named : &without_device, memory_order_acquire);
}

uint64_t vgc_choice_owner(const struct vgc_device *device)
{
    if (device == NULL)
        return 0;
    const struct vgc_config *config = &device->config;
    size_t len = strnlen((const char *)config->engine_name, sizeof(config->engine_name));
    uint64_t hash = vgc_named_hash(config->engine_name, len, VGC_NAMED_HASH);
    uint32_t quota_pes = config->quota_pes;
    return vgc_named_hash(&quota_pes, sizeof(quota_pes), hash);
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
    table->process = vgc_process();
    table->owner = vgc_choice_owner(device);
    describe(table, device);
    table->slots = vgc_named_new_slots(FIRST_ROOM, NULL);
    int result =
        table->slots != NULL ? vgc_named_set_rules(table, NULL) : vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    if (result != VGC_OK) {
        vgc_named_free(table);
        return result;
    }
    table->has_file = device != NULL && vgc_times_find(&table->file, "VGC_CHOICE_FILE", "choice");
    if (table->has_file)
        vgc_named_recall(table);
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

/* A process that was forked leaves its parent's file alone. */
static void keep(const struct vgc_named_table *table)
{
    if (!vgc_named_is_inherited(table))
        vgc_named_keep(table);
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
    vgc_named_free(table);
}

/* ---- registering ---------------------------------------------------------------------------- */

static int add_local(struct vgc_named_table *table, const char *name, vgc_local_call function, void *user)
{
    struct vgc_named *named = vgc_named_make(table, name);
    struct vgc_local *local = named != NULL ? malloc(sizeof(*local)) : NULL;
    if (local == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest, or more than %d names", VGC_NAMED_MOST);
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
    result = vgc_named_set_rules(table, rules);
    pthread_mutex_unlock(&table->mutex);
    return result;
}
