/* Utilization: the part of a period in which launches of the VM ran, by the time that the host's engine counts.
 *
 * It counts a launch when it has ended. Launches that run beside one another count each, up to the whole period. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "devices.h"

static const uint64_t NS_PER_S = 1000000000;
static const uint64_t PERIOD_NS = 1000000000 / 6; /* the shortest of NVIDIA's */
static const uint64_t LONGEST_PERIOD_NS = 2000000000;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(void)
{
    (void)pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(lock, unlock, unlock);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void wait_until(uint64_t time_ns)
{
    struct timespec at = {(time_t)(time_ns / NS_PER_S), (long)(time_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

static nvmlReturn_t take_sample(const struct nvmlDevice_st *device, struct nv_sample *sample)
{
    struct nv_look look;
    nvmlReturn_t result = nv_look(device, &look);
    if (result == NVML_SUCCESS)
        *sample = (struct nv_sample){now_ns(), look.usage.busy_ns, look.usage.generation};
    return result;
}

/* May the two be compared? A new worker of the host counts anew. */
static bool is_period(const struct nv_sample *begin, const struct nv_sample *end)
{
    return begin->time_ns != 0 && begin->generation == end->generation && begin->busy_ns <= end->busy_ns &&
           end->time_ns - begin->time_ns <= LONGEST_PERIOD_NS;
}

static unsigned percent_of(const struct nv_sample *begin, const struct nv_sample *end)
{
    uint64_t percent = (end->busy_ns - begin->busy_ns) * 100 / (end->time_ns - begin->time_ns);
    return percent < 100 ? (unsigned)percent : 100;
}

/* The period goes from the last call to this one. Without a call shortly before, it begins now, and is waited for; a
 * call that follows too soon tells the last period's. */
static nvmlReturn_t measure(struct nvmlDevice_st *device)
{
    struct nv_sample sample;
    nvmlReturn_t result = take_sample(device, &sample);
    if (result == NVML_SUCCESS && !is_period(&device->sample, &sample)) {
        device->sample = sample;
        wait_until(sample.time_ns + PERIOD_NS);
        result = take_sample(device, &sample);
        if (result == NVML_SUCCESS && !is_period(&device->sample, &sample))
            result = NVML_ERROR_NO_DATA;
        if (result != NVML_SUCCESS)
            device->sample.time_ns = 0;
    }
    if (result == NVML_SUCCESS && sample.time_ns - device->sample.time_ns >= PERIOD_NS) {
        device->percent = percent_of(&device->sample, &sample);
        device->sample = sample;
    }
    return result;
}

/* The host does not measure how long memory is read and written; NVML has no way to say so of one of the two. */
NV_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    nvmlReturn_t result = nv_check_device(device);
    if (result == NVML_SUCCESS && utilization == NULL)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        return result;
    lock();
    result = measure(device);
    if (result == NVML_SUCCESS)
        *utilization = (nvmlUtilization_t){.gpu = device->percent, .memory = 0};
    unlock();
    return result;
}
