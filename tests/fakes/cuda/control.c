/* Functions by which tests control the fake; plain, for ctypes. */
#include <string.h>

#include "fake.h"

#define FAKE_LOCKED(statement)                                                                                         \
    do {                                                                                                               \
        pthread_mutex_lock(&fake.lock);                                                                                \
        statement;                                                                                                     \
        pthread_mutex_unlock(&fake.lock);                                                                              \
    } while (0)

/* Applies a line of settings ("devices 2", "0.name X"), before cuInit; 0, or -1 if it is not valid. */
FAKE_API int fake_cuda_set(const char *line)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", line);
    bool known = false;
    FAKE_LOCKED(known = fake_settings_once() == 0 && fake_settings_line(&fake.settings, copy));
    return known ? 0 : -1;
}

/* Makes `times` calls of a function fail, from the `nth` on; 1 is the next call. */
FAKE_API void fake_cuda_inject(const char *name, int result, unsigned long nth, unsigned long times)
{
    FAKE_LOCKED(fake_inject(name, nth, times, result));
}

/* Hides a function from cuGetProcAddress. */
FAKE_API void fake_cuda_hide(const char *name)
{
    FAKE_LOCKED(fake_hide(name));
}

/* Keeps streams from beginning operations, or lets them continue. */
FAKE_API void fake_cuda_hold(int held)
{
    FAKE_LOCKED(fake.held = held != 0; pthread_cond_broadcast(&fake.progress));
}

/* Ends the kernels that hang now. */
FAKE_API void fake_cuda_release(void)
{
    FAKE_LOCKED(fake.released++; pthread_cond_broadcast(&fake.progress));
}

/* Sets a sticky error of a device's contexts, as if a kernel had failed. */
FAKE_API void fake_cuda_poison(int device, int result)
{
    FAKE_LOCKED(if (fake.primaries[device]) fake_poison(fake.primaries[device], (CUresult)result));
}

/* Waits until `count` kernels hang. */
FAKE_API void fake_cuda_await_hanging(unsigned int count)
{
    FAKE_LOCKED(while (fake.hanging < count) fake_wait());
}

static unsigned long default_pools(void)
{
    unsigned long count = 0;
    for (int i = 0; i < FAKE_MAX_DEVICES; i++)
        count += fake.default_pools[i] != NULL;
    return count;
}

static unsigned long number(const char *name)
{
    const struct {
        const char *name;
        unsigned long value;
    } numbers[] = {
        {"submitted", fake.submitted},
        {"finished", fake.finished},
        {"blocked", fake.blocked},
        {"hanging", fake.hanging},
        {"threads", fake.running},
        {"contexts", fake_handle_count(FAKE_CONTEXT)},
        {"streams", fake_handle_count(FAKE_STREAM)},
        {"events", fake_handle_count(FAKE_EVENT)},
        {"modules", fake_handle_count(FAKE_MODULE)},
        {"pools", fake_handle_count(FAKE_POOL) - default_pools()},
        {"device_allocations", fake_memory_count(false)},
        {"host_allocations", fake_memory_count(true)},
        {"device_bytes", fake_memory_used(0)},
        {"arrays", fake_handle_count(FAKE_ARRAY) + fake_handle_count(FAKE_MIPMAP)},
        {"objects", fake_objects_count()},
        {"library_objects", fake.library_objects},
        {"reservations", fake_vmm_count(FAKE_VMM_RANGES)},
        {"physical", fake_vmm_count(FAKE_VMM_PHYSICAL)},
        {"mappings", fake_vmm_count(FAKE_VMM_MAPPINGS)},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(numbers[i].name, name) == 0)
            return numbers[i].value;
    unsigned long value = ~0UL;
    fake_hardware_number(&fake.settings.hardware, name, &value);
    return value;
}

/* Returns a count by name (see `number`); ~0 for an unknown name. */
FAKE_API unsigned long fake_cuda_number(const char *name)
{
    unsigned long value = 0;
    FAKE_LOCKED(value = number(name));
    return value;
}

/* Logs objects that the process has not released at its end. */
__attribute__((destructor)) static void log_leaks(void)
{
    static const char *const names[] = {
        "contexts",         "streams",      "events",   "modules", "pools",   "device_allocations",
        "host_allocations", "reservations", "physical", "arrays",  "objects", "library_objects"};
    pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (number(names[i]))
            fake_log_note("leak: %lu %s", number(names[i]), names[i]);
    pthread_mutex_unlock(&fake.lock);
}

/* Clears calls, misuse and injected errors, and lets streams and hanging kernels continue. Contexts remain. */
FAKE_API void fake_cuda_clear(void)
{
    FAKE_LOCKED(fake_log_clear(); fake_inject_clear(); fake.held = false; fake.released++; fake.blocked = 0;
                pthread_cond_broadcast(&fake.progress));
}

/* Restores the state of a new process: ends contexts and everything in them, hanging kernels too. */
FAKE_API void fake_cuda_reset(void)
{
    fake_cuda_clear();
    pthread_mutex_lock(&fake.lock);
    fake.ending = true;
    fake_contexts_end();
    fake_pools_end();
    fake_vmm_end();
    fake_turns_end();
    fake_node_close();
    fake.ending = false;
    fake_current_forget();
    fake_settings_default(&fake.settings);
    fake.settings_read = fake.initialised = false;
    fake_log_clear();
    pthread_mutex_unlock(&fake.lock);
}
