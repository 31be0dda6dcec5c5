/* Settings of the simulated machine: lines "key value"; "N.key" is for device N only. */
#define _GNU_SOURCE /* dladdr */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const struct fake_device H200 = {
    .name = "Fake H200",
    .sms = 132,
    .major = 9,
    .minor = 0,
    .granularity = 8,
    .min_partition = 8,
    .memory_bytes = 1ULL << 30,
    .shared_per_block = 48 << 10,
    .shared_optin = 227 << 10,
    .stream_memops = 1,
    .vmm = 1,
};

void fake_settings_default(struct fake_settings *settings)
{
    *settings = (struct fake_settings){.driver_version = 13000, .num_devices = 1, .queue_depth = 1024};
    for (int i = 0; i < FAKE_MAX_DEVICES; i++) {
        settings->devices[i] = H200;
        memset(settings->devices[i].uuid, 0x10 + i, sizeof settings->devices[i].uuid);
    }
}

static void set_uuid(struct fake_device *device, const char *text)
{
    int digits = 0;
    for (text += strncmp(text, "GPU-", 4) == 0 ? 4 : 0; *text && digits < 32; text++) {
        const char *place = strchr("0123456789abcdef", *text);
        if (!place)
            continue;
        int digit = (int)(place - "0123456789abcdef"), shift = digits % 2 ? 0 : 4;
        char *byte = &device->uuid[digits++ / 2];
        *byte = (char)(shift ? digit << 4 : ((unsigned char)*byte & 0xf0) | digit);
    }
}

static bool set_number(struct fake_device *device, const char *key, const char *value)
{
    const struct {
        const char *key;
        int *place;
    } numbers[] = {
        {"sms", &device->sms},
        {"granularity", &device->granularity},
        {"min_partition", &device->min_partition},
        {"shared_per_block", &device->shared_per_block},
        {"shared_optin", &device->shared_optin},
        {"stream_memops", &device->stream_memops},
        {"host_pointers", &device->host_pointers},
        {"vmm", &device->vmm},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(numbers[i].key, key) == 0) {
            *numbers[i].place = (int)strtol(value, NULL, 0);
            return true;
        }
    return false;
}

static bool set_attribute(struct fake_device *device, const char *key, const char *value)
{
    if (device->num_attributes == 16)
        return false;
    device->attributes[device->num_attributes].key = (int)strtol(key, NULL, 0);
    device->attributes[device->num_attributes++].value = (int)strtol(value, NULL, 0);
    return true;
}

static bool set_device(struct fake_device *device, const char *key, const char *value)
{
    if (strcmp(key, "name") == 0)
        snprintf(device->name, sizeof device->name, "%s", value);
    else if (strcmp(key, "uuid") == 0)
        set_uuid(device, value);
    else if (strcmp(key, "mig") == 0)
        snprintf(device->mig, sizeof device->mig, "%s", value), set_uuid(device, value);
    else if (strcmp(key, "capability") == 0)
        return sscanf(value, "%d.%d", &device->major, &device->minor) == 2;
    else if (strcmp(key, "memory") == 0)
        device->memory_bytes = strtoull(value, NULL, 0);
    else if (strncmp(key, "attribute.", 10) == 0)
        return set_attribute(device, key + 10, value);
    else
        return set_number(device, key, value);
    return true;
}

static bool set_process(struct fake_settings *settings, const char *key, const char *value)
{
    char name[64];
    unsigned long nth = 1, times = 1;
    int result;
    if (strcmp(key, "driver_version") == 0)
        settings->driver_version = atoi(value);
    else if (strcmp(key, "devices") == 0)
        settings->num_devices = atoi(value) < FAKE_MAX_DEVICES ? atoi(value) : FAKE_MAX_DEVICES;
    else if (strcmp(key, "queue_depth") == 0)
        settings->queue_depth = atoi(value);
    else if (strcmp(key, "init_result") == 0)
        settings->init_result = atoi(value);
    else if (strcmp(key, "timer_ppm") == 0)
        settings->timer_ppm = atoi(value);
    else if (strcmp(key, "timer_hangs") == 0)
        settings->timer_hangs = atoi(value);
    else if (strcmp(key, "timer_offset_ns") == 0)
        fake_timer_offset_ns = atoll(value);
    else if (strcmp(key, "reserve_elsewhere") == 0)
        settings->reserve_elsewhere = atoi(value);
    else if (strcmp(key, "foreign_kernels") == 0)
        settings->foreign_kernels = atoi(value);
    else if (strcmp(key, "hide") == 0)
        fake_hide(value);
    else if (strcmp(key, "log") == 0)
        return fake_log_file(value);
    else if (strcmp(key, "inject") == 0 && sscanf(value, "%63s %d %lu %lu", name, &result, &nth, &times) >= 2)
        fake_inject(name, nth, times, result);
    else
        return fake_hardware_set(&settings->hardware, key, value);
    return true;
}

bool fake_settings_line(struct fake_settings *settings, char *line)
{
    line[strcspn(line, "\n")] = 0;
    if (!*line || *line == '#')
        return true;
    char *value = strchr(line, ' ');
    if (!value)
        return false;
    *value++ = 0;
    if (line[0] >= '0' && line[0] < '0' + FAKE_MAX_DEVICES && line[1] == '.')
        return set_device(&settings->devices[line[0] - '0'], line + 2, value);
    if (set_process(settings, line, value))
        return true;
    bool known = false;
    for (int i = 0; i < FAKE_MAX_DEVICES; i++)
        known = set_device(&settings->devices[i], line, value);
    return known;
}

static int load(struct fake_settings *settings)
{
    char path[4096], line[1024];
    const char *named = getenv("VGC_FAKE_CUDA");
    Dl_info library;
    if (named)
        snprintf(path, sizeof path, "%s", named);
    else if (dladdr(&fake, &library))
        snprintf(path, sizeof path, "%s.settings", library.dli_fname);
    FILE *file = fopen(path, "re");
    if (!file)
        return named ? -1 : 0;
    int result = 0;
    while (fgets(line, sizeof line, file))
        if (!fake_settings_line(settings, line)) {
            fprintf(stderr, "fake CUDA driver: %s: no such setting: %s\n", path, line);
            result = -1;
        }
    fclose(file);
    return result;
}

int fake_settings_once(void)
{
    if (fake.settings_read)
        return fake.settings_bad ? -1 : 0;
    fake_settings_default(&fake.settings);
    fake.settings_read = true;
    fake.settings_bad = load(&fake.settings) != 0;
    return fake.settings_bad ? -1 : 0;
}

static bool named(const struct fake_device *device, int index, const char *item)
{
    char uuid[64] = "GPU-";
    char *at = uuid + 4;
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", (unsigned char)device->uuid[i]);
    if (*device->mig)
        return strcmp(item, device->mig) == 0;
    if (strncmp(item, "GPU-", 4) == 0)
        return strncmp(uuid, item, strlen(item)) == 0;
    return *item >= '0' && *item <= '9' && atoi(item) == index;
}

/* Like the driver, ignores everything after an entry that names no device. */
static int visible_by_name(struct fake_settings *settings, char *list)
{
    struct fake_device all[FAKE_MAX_DEVICES];
    memcpy(all, settings->devices, sizeof all);
    int count = 0;
    char *rest = NULL;
    for (char *item = strtok_r(list, ",", &rest); item && count < FAKE_MAX_DEVICES; item = strtok_r(NULL, ",", &rest)) {
        int found = 0;
        while (found < settings->num_devices && !named(&all[found], found, item))
            found++;
        if (found == settings->num_devices)
            break;
        settings->devices[count++] = all[found];
    }
    return count;
}

/* Without names, instances of partitioned devices are not visible, except the first if there is no other device. */
static int visible_by_default(struct fake_settings *settings)
{
    int count = 0;
    for (int i = 0; i < settings->num_devices; i++)
        if (!*settings->devices[i].mig)
            settings->devices[count++] = settings->devices[i];
    return !count && settings->num_devices ? 1 : count;
}

void fake_settings_visible(struct fake_settings *settings)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char copy[1024];
    if (list)
        snprintf(copy, sizeof copy, "%s", list);
    settings->num_devices = list ? visible_by_name(settings, copy) : visible_by_default(settings);
}
