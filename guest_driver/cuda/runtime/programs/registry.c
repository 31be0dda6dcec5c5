/* Units, functions and variables: what objects of mynvcc and nvcc register before main().
 *
 * Functions are looked up at every launch: a table with open addressing, replaced as a whole when it grows, which
 * readers look at without a lock. Entries and tables stay for the life of the process, as readers may hold them. */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "runtime.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_unit *units;

struct entry {
    const void *host; /* NULL: free */
    void *what;
};

struct table {
    size_t room; /* a power of two */
    size_t count;
    _Atomic(struct entry *) entries[]; /* `room` of them */
};

static _Atomic(struct table *) functions;
static _Atomic(struct table *) variables;

void rt_registry_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void rt_registry_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

struct rt_unit *rt_units(void)
{
    return units;
}

/* ---- tables --------------------------------------------------------------------------------- */

static size_t place(const struct table *table, const void *host)
{
    uint64_t hash = (uint64_t)(uintptr_t)host * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (table->room - 1);
    for (;; at = (at + 1) & (table->room - 1)) {
        const struct entry *entry = atomic_load_explicit(&table->entries[at], memory_order_acquire);
        if (entry == NULL || entry->host == host)
            return at;
    }
}

static void *look_up(_Atomic(struct table *) *tables, const void *host)
{
    const struct table *table = atomic_load_explicit(tables, memory_order_acquire);
    if (table == NULL)
        return NULL;
    const struct entry *entry = atomic_load_explicit(&table->entries[place(table, host)], memory_order_acquire);
    return entry != NULL ? entry->what : NULL;
}

static struct table *grown(const struct table *old)
{
    size_t room = old == NULL ? 64 : old->room * 2;
    struct table *table = calloc(1, sizeof(*table) + room * sizeof(table->entries[0]));
    if (table == NULL)
        abort(); /* before main() nobody could be told */
    table->room = room;
    for (size_t i = 0; old != NULL && i < old->room; i++) {
        struct entry *entry = atomic_load(&old->entries[i]);
        if (entry != NULL && entry->what != NULL) {
            atomic_store(&table->entries[place(table, entry->host)], entry);
            table->count++;
        }
    }
    return table;
}

/* With the lock. A stub that is registered again, by a library that was loaded where another had been, is replaced. */
static void enter(_Atomic(struct table *) *tables, const void *host, void *what)
{
    struct table *table = atomic_load(tables);
    if (table == NULL || 2 * (table->count + 1) > table->room) {
        table = grown(table);
        atomic_store_explicit(tables, table, memory_order_release);
    }
    struct entry *entry = malloc(sizeof(*entry));
    if (entry == NULL)
        abort();
    *entry = (struct entry){host, what};
    size_t at = place(table, host);
    table->count += atomic_load(&table->entries[at]) == NULL;
    atomic_store_explicit(&table->entries[at], entry, memory_order_release);
}

void rt_variable_alias(struct rt_variable *variable, const void *host)
{
    rt_registry_lock();
    enter(&variables, host, variable);
    rt_registry_unlock();
}

struct rt_function *rt_function(const void *host)
{
    return look_up(&functions, host);
}

struct rt_variable *rt_variable(const void *host)
{
    return look_up(&variables, host);
}

bool rt_has_variables(const struct rt_unit *unit)
{
    bool found = false;
    const struct table *table = atomic_load(&variables);
    for (size_t i = 0; table != NULL && i < table->room && !found; i++) {
        const struct entry *entry = atomic_load(&table->entries[i]);
        found = entry != NULL && entry->what != NULL && ((const struct rt_variable *)entry->what)->unit == unit;
    }
    return found;
}

struct rt_variable *rt_variable_named(const struct rt_unit *unit, const char *name)
{
    struct rt_variable *found = NULL;
    rt_registry_lock();
    const struct table *table = atomic_load(&variables);
    for (size_t i = 0; table != NULL && i < table->room && found == NULL; i++) {
        const struct entry *entry = atomic_load(&table->entries[i]);
        struct rt_variable *variable = entry != NULL ? entry->what : NULL;
        if (variable != NULL && variable->unit == unit && strcmp(variable->name, name) == 0)
            found = variable;
    }
    rt_registry_unlock();
    return found;
}

void rt_programs_forget(struct rt_device *device)
{
    rt_registry_lock();
    struct table *table = atomic_load(&functions);
    for (size_t i = 0; table != NULL && i < table->room; i++) {
        const struct entry *entry = atomic_load(&table->entries[i]);
        if (entry != NULL && entry->what != NULL)
            atomic_store(&((struct rt_function *)entry->what)->loaded[device->ordinal], NULL);
    }
    table = atomic_load(&variables);
    for (size_t i = 0; table != NULL && i < table->room; i++) {
        const struct entry *entry = atomic_load(&table->entries[i]);
        if (entry != NULL && entry->what != NULL)
            ((struct rt_variable *)entry->what)->address[device->ordinal] = 0;
    }
    rt_registry_unlock();
}

/* ---- what clang's and nvcc's constructors call ------------------------------------------------ */

void **__cudaRegisterFatBinary(const struct vgc_cuda_wrapper *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                            void *thread, void *block, void *block_size, void *grid_size, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int is_extern, size_t size,
                       int is_constant, int is_global);
void __cudaRegisterManagedVar(void **handle, void **host, void *initial, const char *name, size_t size,
                              unsigned alignment);
void __cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name, int dimensions,
                           int normalised, int is_extern);
void __cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name, int dimensions,
                           int is_extern);
char __cudaInitModule(void **handle);

RT_API void **__cudaRegisterFatBinary(const struct vgc_cuda_wrapper *wrapper)
{
    struct rt_unit *unit = calloc(1, sizeof(*unit));
    if (unit == NULL)
        abort();
    Dl_info where;
    struct link_map *map = NULL;
    unit->data = wrapper->data;
    unit->has_local = rt_has_local(unit);
    if (dladdr1(wrapper, &where, (void **)&map, RTLD_DL_LINKMAP) != 0) {
        unit->library = where.dli_fbase;
        unit->is_of_program = map != NULL && map->l_prev == NULL; /* the executable comes first */
    }
    rt_registry_lock();
    unit->next = units;
    units = unit;
    rt_registry_unlock();
    return (void **)unit;
}

RT_API void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

RT_API char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

RT_API void __cudaUnregisterFatBinary(void **handle)
{
    struct rt_unit *unit = (struct rt_unit *)handle;
    if (rt_is_forked)
        return; /* a thread of the parent may have held the lock, and what is loaded is the parent's */
    if (unit->is_of_program)
        return; /* the process ends: destructors and other threads may still launch */
    rt_registry_lock();
    for (struct rt_unit **at = &units; *at != NULL; at = &(*at)->next) {
        if (*at == unit) {
            *at = unit->next;
            break;
        }
    }
    rt_registry_unlock();
    rt_unload_unit(unit);
}

RT_API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                                   void *thread, void *block, void *block_size, void *grid_size, int *warp_size)
{
    (void)device, (void)thread_limit, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
    struct rt_function *function = calloc(1, sizeof(*function));
    if (function == NULL)
        abort();
    function->host = host;
    function->name = name;
    function->unit = (struct rt_unit *)handle;
    function->max_dynamic_shared = -1;
    if (function->unit->has_local)
        rt_local_register(function);
    rt_registry_lock();
    enter(&functions, host, function);
    function->unit->num_kernels++;
    rt_registry_unlock();
}

struct rt_function *rt_register_kernel(struct rt_unit *unit, const char *name)
{
    struct rt_function *function = calloc(1, sizeof(*function));
    char *kept = strdup(name);
    if (function == NULL || kept == NULL) {
        free(function);
        free(kept);
        return NULL;
    }
    *function = (struct rt_function){.host = function, .name = kept, .unit = unit, .max_dynamic_shared = -1};
    rt_registry_lock();
    enter(&functions, function, function);
    rt_registry_unlock();
    return function;
}

struct rt_variable *rt_register_variable(struct rt_unit *unit, const char *name)
{
    struct rt_variable *variable = calloc(1, sizeof(*variable));
    char *kept = strdup(name);
    if (variable == NULL || kept == NULL) {
        free(variable);
        free(kept);
        return NULL;
    }
    *variable = (struct rt_variable){.host = variable, .name = kept, .unit = unit};
    rt_registry_lock();
    enter(&variables, variable, variable);
    rt_registry_unlock();
    return variable;
}

void rt_forget_kernel(struct rt_function *function)
{
    rt_registry_lock();
    enter(&functions, function, NULL);
    rt_registry_unlock(); /* readers of the table may look at it yet: it stays */
}

void rt_forget_unit(const struct rt_unit *unit)
{
    rt_registry_lock();
    struct table *table = atomic_load(&functions);
    for (size_t i = 0; table != NULL && i < table->room; i++) {
        const struct entry *entry = atomic_load(&table->entries[i]);
        const struct rt_function *function = entry != NULL ? entry->what : NULL;
        if (function != NULL && function->unit == unit)
            enter(&functions, function->host, NULL);
    }
    table = atomic_load(&variables);
    for (size_t i = 0; table != NULL && i < table->room; i++) {
        const struct entry *entry = atomic_load(&table->entries[i]);
        const struct rt_variable *variable = entry != NULL ? entry->what : NULL;
        if (variable != NULL && variable->unit == unit)
            enter(&variables, variable->host, NULL);
    }
    rt_registry_unlock();
}

static struct rt_variable *register_variable(void **handle, const void *host, const char *name, size_t size)
{
    struct rt_variable *variable = calloc(1, sizeof(*variable));
    if (variable == NULL)
        abort();
    variable->host = host;
    variable->name = name;
    variable->unit = (struct rt_unit *)handle;
    variable->size = size;
    rt_registry_lock();
    enter(&variables, host, variable);
    rt_registry_unlock();
    return variable;
}

RT_API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int is_extern, size_t size,
                              int is_constant, int is_global)
{
    (void)device, (void)is_extern, (void)is_global;
    register_variable(handle, host, name, size)->is_constant = is_constant != 0;
}

/* Host code reads and writes such a variable through the pointer at `host`; `initial` is its initial value. */
RT_API void __cudaRegisterManagedVar(void **handle, void **host, void *initial, const char *name, size_t size,
                                     unsigned alignment)
{
    (void)alignment;
    struct rt_variable *variable = register_variable(handle, host, name, size);
    variable->is_managed = true;
    rt_managed_variable(variable, host, initial);
}

RT_API void __cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name,
                                  int dimensions, int normalised, int is_extern)
{
    (void)device, (void)dimensions, (void)is_extern;
    struct rt_variable *reference = register_variable(handle, host, name, 0);
    reference->is_texture = true;
    reference->reads_normalised = normalised != 0;
}

RT_API void __cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name,
                                  int dimensions, int is_extern)
{
    (void)device, (void)dimensions, (void)is_extern;
    register_variable(handle, host, name, 0)->is_surface = true;
}

/* ---- objects with managed variables, whose host code clang compiles as HIP --------------------- */

void **__hipRegisterFatBinary(const struct vgc_cuda_wrapper *wrapper);
void __hipUnregisterFatBinary(void **handle);
void __hipRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                           void *thread, void *block, void *block_size, void *grid_size, int *warp_size);
void __hipRegisterVar(void **handle, char *host, char *device, const char *name, int is_extern, size_t size,
                      int is_constant, int is_global);
void __hipRegisterManagedVar(void **handle, void **host, void *initial, const char *name, size_t size,
                             unsigned alignment);

RT_API void **__hipRegisterFatBinary(const struct vgc_cuda_wrapper *wrapper)
{
    return __cudaRegisterFatBinary(wrapper);
}

RT_API void __hipUnregisterFatBinary(void **handle)
{
    __cudaUnregisterFatBinary(handle);
}

RT_API void __hipRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                                  void *thread, void *block, void *block_size, void *grid_size, int *warp_size)
{
    __cudaRegisterFunction(handle, host, device, name, thread_limit, thread, block, block_size, grid_size, warp_size);
}

RT_API void __hipRegisterVar(void **handle, char *host, char *device, const char *name, int is_extern, size_t size,
                             int is_constant, int is_global)
{
    __cudaRegisterVar(handle, host, device, name, is_extern, size, is_constant, is_global);
}

RT_API void __hipRegisterManagedVar(void **handle, void **host, void *initial, const char *name, size_t size,
                                    unsigned alignment)
{
    __cudaRegisterManagedVar(handle, host, initial, name, size, alignment);
}
