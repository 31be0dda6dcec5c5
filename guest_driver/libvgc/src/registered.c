/* Functions that every process of the VM finds: by name, in a list, and their end. */
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { LOOKUP_BYTES = 64 << 10, LIST_BYTES = 64 << 10 };

struct vgc_listing {
    struct vgc_listed *functions;
    uint32_t size;
};

/* ---- requests with a long answer ------------------------------------------------------------ */

/* Sends a request of one body and `extra` bytes; *payload is the caller's. */
static int ask(struct vgc_device *device, uint16_t opcode, const void *body, size_t body_len, const char *extra,
               size_t extra_len, uint64_t room, uint8_t **payload, struct vgc_response *response)
{
    struct vgc_message message;
    uint8_t *staging = NULL;
    uint8_t *copy = calloc(1, room);
    struct vgc_copy_back *back = malloc(sizeof(*back));
    *payload = NULL;
    int result = copy == NULL || back == NULL ? vgc_fail(VGC_SYSTEM, "out of memory in the guest")
                                              : vgc_alloc_or_reap(device, room, &staging);
    if (result == VGC_OK)
        result = vgc_message_begin(&message, device, opcode, 0, true);
    if (result != VGC_OK) {
        if (staging != NULL)
            (void)vgc_heap_free(device, staging);
        free(back);
        free(copy);
        return result;
    }
    *back = (struct vgc_copy_back){copy, staging, room};
    message.job->staging = staging;
    message.job->copies = back;
    message.job->num_copies = 1;
    (void)vgc_message_put(&message, body, body_len);
    (void)vgc_message_put(&message, extra, extra_len);
    (void)vgc_message_writable(&message, staging, room);
    result = vgc_job_ask(&message, response);
    if (result == VGC_OK)
        *payload = copy;
    else
        free(copy);
    return result;
}

/* ---- by name -------------------------------------------------------------------------------- */

/* Makes the table of a program that consists of one function, from what a lookup has answered. */
static int make_table(const struct vgc_function_entry *entry, const void *params, const char *name, size_t name_len,
                      uint8_t **table, uint64_t *len)
{
    uint64_t params_len = entry->num_params * sizeof(struct vgc_param_entry);
    struct vgc_program_table head = {
        .num_functions = 1, .num_params = entry->num_params, .strings_len = (uint32_t)name_len};
    struct vgc_function_entry own = *entry;
    own.name_off = own.short_off = own.first_param = 0;
    own.name_len = own.short_len = (uint32_t)name_len;
    *len = sizeof(head) + sizeof(own) + params_len + name_len;
    *table = malloc(*len);
    if (*table == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    uint8_t *at = *table;
    memcpy(at, &head, sizeof(head));
    memcpy(at += sizeof(head), &own, sizeof(own));
    memcpy(at += sizeof(own), params, params_len);
    memcpy(at + params_len, name, name_len);
    return VGC_OK;
}

int vgc_function_find(struct vgc_device *device, const char *name, struct vgc_function **function)
{
    struct vgc_response response;
    struct vgc_function_entry entry;
    struct vgc_program *program = NULL;
    uint8_t *payload, *table = NULL;
    uint64_t len = 0;
    *function = NULL;
    int result = vgc_check_name(name);
    if (result == VGC_OK)
        result = vgc_check_usable(device);
    if (result != VGC_OK)
        return result;
    size_t name_len = strlen(name);
    struct vgc_body_lookup body = {.name_len = (uint32_t)name_len};
    result = ask(device, VGC_OP_FUNCTION_LOOKUP, VGC_BYTES(body), sizeof(body), name, name_len, LOOKUP_BYTES, &payload,
                 &response);
    if (result != VGC_OK)
        return result;
    memcpy(&entry, payload, sizeof(entry)); /* of zeroes, if the payload is shorter */
    if (response.payload_len < sizeof(entry) || response.payload_len > LOOKUP_BYTES ||
        entry.num_params > (response.payload_len - sizeof(entry)) / sizeof(struct vgc_param_entry))
        result = vgc_fail(VGC_INTERNAL, "the device answered with a function that contradicts itself");
    else
        result = make_table(&entry, payload + sizeof(entry), name, name_len, &table, &len);
    free(payload);
    if (result == VGC_OK)
        result = vgc_program_make(device, 0, true, table, len, &program);
    if (result == VGC_OK)
        *function = vgc_program_function_at(program, 0);
    return result;
}

void vgc_function_release(struct vgc_function *function)
{
    if (function != NULL)
        (void)vgc_program_unload(function->program);
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* Parts of a list's payload. */
struct page {
    struct vgc_function_list head;
    const uint8_t *functions;
    const struct vgc_param_entry *params;
    const char *strings;
};

static bool locate(uint8_t *payload, uint64_t len, struct page *page)
{
    if (len < sizeof(page->head))
        return false;
    memcpy(&page->head, payload, sizeof(page->head));
    uint64_t params_at = sizeof(page->head) + (uint64_t)page->head.num_functions * sizeof(struct vgc_listed_function);
    uint64_t strings_at = params_at + (uint64_t)page->head.num_params * sizeof(struct vgc_param_entry);
    page->functions = payload + sizeof(page->head);
    page->params = (const struct vgc_param_entry *)(const void *)(payload + params_at);
    page->strings = (const char *)payload + strings_at;
    return strings_at + page->head.strings_len == len;
}

static void free_listed(struct vgc_listed *listed)
{
    free((char *)(uintptr_t)listed->name);
    free((char *)(uintptr_t)listed->short_name);
    free((char *)(uintptr_t)listed->problem);
    free((void *)(uintptr_t)listed->params);
}

static bool read_listed(const struct page *page, uint32_t index, struct vgc_listed *listed)
{
    struct vgc_listed_function from;
    const char *strings = page->strings;
    uint32_t size = page->head.strings_len;
    memcpy(&from, page->functions + index * sizeof(from), sizeof(from));
    *listed = (struct vgc_listed){.name = vgc_text_of(strings, size, from.name_off, from.name_len),
                                  .short_name = vgc_text_of(strings, size, from.short_off, from.short_len),
                                  .problem = vgc_text_of(strings, size, from.text_off, from.text_len),
                                  .program = from.program,
                                  .is_of_host = from.origin == VGC_FUNCTION_ORIGIN_HOST,
                                  .is_kept = (from.flags & VGC_FUNCTION_FLAG_KEPT) != 0,
                                  .is_broken = (from.flags & VGC_FUNCTION_FLAG_BROKEN) != 0,
                                  .num_params = from.num_params,
                                  .launches = from.launches,
                                  .busy_ns = from.busy_ns,
                                  .p99_ns = from.p99_ns};
    if (from.first_param > page->head.num_params || from.num_params > page->head.num_params - from.first_param)
        return false;
    struct vgc_param *params = calloc(from.num_params + 1u, sizeof(*params));
    listed->params = params;
    for (uint32_t i = 0; params != NULL && i < from.num_params; i++) {
        const struct vgc_param_entry *entry = &page->params[from.first_param + i];
        params[i] = (struct vgc_param){.offset = entry->offset, .size = entry->size, .kind = entry->kind};
    }
    return params != NULL && listed->name != NULL && listed->short_name != NULL && listed->problem != NULL;
}

static int add_page(struct vgc_listing *listing, const struct page *page)
{
    uint32_t count = page->head.num_functions;
    if (count == 0)
        return VGC_OK;
    struct vgc_listed *functions = realloc(listing->functions, (listing->size + (size_t)count) * sizeof(*functions));
    if (functions == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    listing->functions = functions;
    for (uint32_t i = 0; i < count; i++) {
        if (!read_listed(page, i, &functions[listing->size])) {
            free_listed(&functions[listing->size]);
            return vgc_fail(VGC_INTERNAL, "the device answered with a list of functions that contradicts itself");
        }
        listing->size++;
    }
    return VGC_OK;
}

/* Adds the functions from number *first on; *first is then the number of the next one, 0 at the end. */
static int take_page(struct vgc_device *device, struct vgc_listing *listing, uint32_t *first)
{
    struct vgc_body_function_list body = {.first = *first};
    struct vgc_response response;
    struct page page = {0};
    uint8_t *payload;
    int result =
        ask(device, VGC_OP_FUNCTION_LIST, VGC_BYTES(body), sizeof(body), "", 0, LIST_BYTES, &payload, &response);
    if (result != VGC_OK)
        return result;
    if (response.payload_len > LIST_BYTES || !locate(payload, response.payload_len, &page) ||
        (page.head.next != 0 && page.head.next <= *first))
        result = vgc_fail(VGC_INTERNAL, "the device answered with a list of functions that contradicts itself");
    else
        result = add_page(listing, &page);
    *first = page.head.next;
    free(payload);
    return result;
}

int vgc_functions(struct vgc_device *device, struct vgc_listing **listing)
{
    uint32_t first = 0;
    *listing = NULL;
    int result = vgc_check_usable(device);
    if (result != VGC_OK)
        return result;
    struct vgc_listing *own = calloc(1, sizeof(*own));
    if (own == NULL)
        return vgc_fail(VGC_SYSTEM, "out of memory in the guest");
    do
        result = take_page(device, own, &first);
    while (result == VGC_OK && first != 0);
    if (result == VGC_OK)
        *listing = own;
    else
        vgc_listing_free(own);
    return result;
}

uint32_t vgc_listing_size(const struct vgc_listing *listing)
{
    return listing->size;
}

const struct vgc_listed *vgc_listing_at(const struct vgc_listing *listing, uint32_t index)
{
    return index < listing->size ? &listing->functions[index] : NULL;
}

void vgc_listing_free(struct vgc_listing *listing)
{
    if (listing == NULL)
        return;
    for (uint32_t i = 0; i < listing->size; i++)
        free_listed(&listing->functions[i]);
    free(listing->functions);
    free(listing);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* The registered program that has the function; 0: none has it. */
static uint32_t program_of(const struct vgc_listing *listing, const char *name)
{
    for (uint32_t i = 0; i < listing->size; i++) {
        const struct vgc_listed *listed = &listing->functions[i];
        if (!listed->is_of_host && (strcmp(listed->name, name) == 0 || strcmp(listed->short_name, name) == 0))
            return listed->program;
    }
    return 0;
}

int vgc_unregister(struct vgc_device *device, const char *name)
{
    struct vgc_listing *listing;
    int result = vgc_check_name(name);
    if (result == VGC_OK)
        result = vgc_functions(device, &listing);
    if (result != VGC_OK)
        return result;
    uint32_t program = program_of(listing, name);
    vgc_listing_free(listing);
    if (program == 0)
        return vgc_fail(VGC_NOT_FOUND, "no registered program has a function '%s'", name);
    return vgc_program_end(device, program);
}
