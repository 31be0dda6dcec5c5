/* NVTX: ranges and instants that the program marks, as rt_note_mark() takes them. Texts are copied when a range begins,
 * since the program may reuse them; names of categories and threads are looked up when it ends. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "nvtx3/nvToolsExt.h"
#include "runtime.h"

enum { TEXT_BYTES = 256, NAME_BYTES = 64, MAX_DEPTH = 64, MAX_OPEN = 256, MAX_NAMES = 256 };

struct nvtxDomainRegistration_st {
    char name[NAME_BYTES];
};

struct nvtxStringRegistration_st {
    char text[TEXT_BYTES];
};

struct range {
    const struct nvtxDomainRegistration_st *domain;
    struct vgc_mark_info mark; /* without its texts */
    char text[TEXT_BYTES];
};

struct stack { /* of a thread */
    uint32_t thread;
    uint32_t depth; /* ranges above MAX_DEPTH are counted and not kept */
    struct range ranges[MAX_DEPTH];
};

struct name {
    const void *of; /* a domain, whose category is named; &names for threads */
    uint32_t number;
    char text[NAME_BYTES];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of names and open ranges */
static struct name names[MAX_NAMES];
static size_t num_names;
static struct range *open_ranges; /* those of start(), MAX_OPEN of them */
static uint32_t turns[MAX_OPEN];  /* +1 whenever the place begins or ends a range: odd while it is taken */
static pthread_key_t stack_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* ---- texts ---------------------------------------------------------------------------------- */

static size_t put_utf8(char *to, uint32_t value)
{
    size_t more = value < 0x80 ? 0 : value < 0x800 ? 1 : value < 0x10000 ? 2 : 3;
    static const unsigned char FIRST[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(FIRST[more] | value >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        to[i] = (char)(0x80 | (value >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

/* One of the two texts, cut to `room`. */
static void put_text(char *to, size_t room, const char *ascii, const wchar_t *unicode)
{
    size_t size = 0;
    if (ascii != NULL) {
        size = strnlen(ascii, room - 1);
        memcpy(to, ascii, size);
    } else if (unicode != NULL) {
        for (; *unicode != 0 && size + 4 < room; unicode++)
            size += put_utf8(to + size, (uint32_t)*unicode & 0x1fffff);
    }
    to[size] = '\0';
}

static void put_message(char *to, const nvtxEventAttributes_t *event)
{
    const nvtxMessageValue_t *message = &event->message;
    to[0] = '\0';
    if (event->messageType == NVTX_MESSAGE_TYPE_ASCII)
        put_text(to, TEXT_BYTES, message->ascii, NULL);
    else if (event->messageType == NVTX_MESSAGE_TYPE_UNICODE)
        put_text(to, TEXT_BYTES, NULL, message->unicode);
    else if (event->messageType == NVTX_MESSAGE_TYPE_REGISTERED && message->registered != NULL)
        put_text(to, TEXT_BYTES, message->registered->text, NULL);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* With the mutex. NULL: it has no name. */
static struct name *find_name(const void *of, uint32_t number)
{
    for (size_t i = 0; i < num_names; i++)
        if (names[i].of == of && names[i].number == number)
            return &names[i];
    return NULL;
}

static void set_name(const void *of, uint32_t number, const char *ascii, const wchar_t *unicode)
{
    (void)pthread_mutex_lock(&mutex);
    struct name *name = find_name(of, number);
    if (name == NULL && num_names < MAX_NAMES)
        name = &names[num_names++];
    if (name != NULL) {
        name->of = of;
        name->number = number;
        put_text(name->text, sizeof(name->text), ascii, unicode);
    }
    (void)pthread_mutex_unlock(&mutex);
}

static void copy_name(const void *of, uint32_t number, char *to)
{
    const struct name *name = num_names > 0 ? find_name(of, number) : NULL;
    put_text(to, NAME_BYTES, name != NULL ? name->text : "", NULL);
}

/* ---- ranges --------------------------------------------------------------------------------- */

static void free_stack(void *stack)
{
    free(stack);
}

static void make_key(void)
{
    (void)pthread_key_create(&stack_key, free_stack);
}

static struct stack *own_stack(void)
{
    (void)pthread_once(&key_once, make_key);
    struct stack *stack = pthread_getspecific(stack_key);
    if (stack == NULL && (stack = malloc(sizeof(*stack))) != NULL) {
        stack->thread = (uint32_t)syscall(SYS_gettid);
        stack->depth = 0;
        (void)pthread_setspecific(stack_key, stack);
    }
    return stack;
}

static uint32_t own_thread(void)
{
    const struct stack *stack = own_stack();
    return stack != NULL ? stack->thread : 0;
}

static void put_payload(struct vgc_mark_info *mark, const nvtxEventAttributes_t *event)
{
    static const uint32_t KINDS[] = {VGC_PAYLOAD_NONE,     VGC_PAYLOAD_UNSIGNED, VGC_PAYLOAD_SIGNED, VGC_PAYLOAD_FLOAT,
                                     VGC_PAYLOAD_UNSIGNED, VGC_PAYLOAD_SIGNED,   VGC_PAYLOAD_FLOAT};
    int32_t type = event->payloadType;
    mark->payload_kind = type >= 0 && type <= NVTX_PAYLOAD_TYPE_FLOAT ? KINDS[type] : VGC_PAYLOAD_NONE;
    mark->payload = event->payload.ullValue;
    if (type == NVTX_PAYLOAD_TYPE_UNSIGNED_INT32)
        mark->payload = event->payload.uiValue;
    if (type == NVTX_PAYLOAD_TYPE_INT32)
        mark->payload = (uint64_t)(int64_t)event->payload.iValue;
    if (type == NVTX_PAYLOAD_TYPE_FLOAT) {
        double value = (double)event->payload.fValue;
        memcpy(&mark->payload, &value, sizeof(value));
    }
}

static void begin(struct range *range, nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event, uint32_t kind)
{
    range->domain = domain;
    range->mark = (struct vgc_mark_info){.kind = kind, .category = event->category, .thread = own_thread()};
    if (event->colorType == NVTX_COLOR_ARGB)
        range->mark.colour = event->color;
    put_payload(&range->mark, event);
    put_message(range->text, event);
    range->mark.begin_ns = rt_clock_ns();
}

static void end(struct range *range)
{
    char category[NAME_BYTES];
    char thread[NAME_BYTES];
    range->mark.end_ns = range->mark.kind == VGC_MARK_INSTANT ? range->mark.begin_ns : rt_clock_ns();
    (void)pthread_mutex_lock(&mutex);
    copy_name(range->domain, range->mark.category, category);
    copy_name(names, range->mark.thread, thread);
    (void)pthread_mutex_unlock(&mutex);
    range->mark.text = range->text;
    range->mark.domain = range->domain != NULL ? range->domain->name : "";
    range->mark.category_name = category;
    range->mark.thread_name = thread;
    rt_note_mark(&range->mark);
}

/* ---- what the header calls ------------------------------------------------------------------ */

static void nvtx_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    struct range range;
    if (event == NULL)
        return;
    begin(&range, domain, event, VGC_MARK_INSTANT);
    end(&range);
}

/* The number of a range is its place and the turn of that. */
static nvtxRangeId_t nvtx_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    nvtxRangeId_t number = 0;
    if (event == NULL)
        return 0;
    (void)pthread_mutex_lock(&mutex);
    if (open_ranges == NULL)
        open_ranges = malloc(MAX_OPEN * sizeof(open_ranges[0]));
    uint32_t place = 0;
    while (place < MAX_OPEN && turns[place] % 2 != 0)
        place++;
    if (open_ranges != NULL && place < MAX_OPEN) {
        begin(&open_ranges[place], domain, event, VGC_MARK_RANGE);
        number = (uint64_t)++turns[place] << 32 | place;
    }
    (void)pthread_mutex_unlock(&mutex);
    return number;
}

static void nvtx_end(nvtxRangeId_t number)
{
    struct range range;
    uint32_t place = (uint32_t)number;
    (void)pthread_mutex_lock(&mutex);
    bool is_open = place < MAX_OPEN && turns[place] % 2 != 0 && turns[place] == number >> 32;
    if (is_open) {
        range = open_ranges[place];
        turns[place]++;
    }
    (void)pthread_mutex_unlock(&mutex);
    if (is_open)
        end(&range);
}

/* Ranges of a domain that are open in this thread. */
static int level(const struct stack *stack, nvtxDomainHandle_t domain)
{
    int found = 0;
    for (uint32_t i = 0; i < RT_MIN(stack->depth, (uint32_t)MAX_DEPTH); i++)
        found += stack->ranges[i].domain == domain;
    return found + (stack->depth > MAX_DEPTH ? (int)(stack->depth - MAX_DEPTH) : 0);
}

static int nvtx_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    struct stack *stack = own_stack();
    if (event == NULL || stack == NULL)
        return NVTX_NO_PUSH_POP_TRACKING;
    int before = level(stack, domain);
    if (stack->depth < MAX_DEPTH)
        begin(&stack->ranges[stack->depth], domain, event, VGC_MARK_NESTED);
    stack->depth++;
    return before;
}

static int nvtx_pop(nvtxDomainHandle_t domain)
{
    struct stack *stack = own_stack();
    if (stack == NULL || stack->depth == 0)
        return NVTX_NO_PUSH_POP_TRACKING;
    if (stack->depth > MAX_DEPTH) {
        stack->depth--;
        return level(stack, domain);
    }
    uint32_t at = stack->depth;
    while (at > 0 && stack->ranges[at - 1].domain != domain)
        at--;
    if (at == 0)
        return NVTX_NO_PUSH_POP_TRACKING;
    end(&stack->ranges[at - 1]);
    memmove(&stack->ranges[at - 1], &stack->ranges[at], (stack->depth - at) * sizeof(stack->ranges[0]));
    stack->depth--;
    return level(stack, domain);
}

static void nvtx_name_category(nvtxDomainHandle_t domain, uint32_t category, const char *ascii, const wchar_t *unicode)
{
    set_name(domain, category, ascii, unicode);
}

static void nvtx_name_thread(uint32_t thread, const char *ascii, const wchar_t *unicode)
{
    set_name(names, thread, ascii, unicode);
}

static nvtxDomainHandle_t nvtx_create_domain(const char *ascii, const wchar_t *unicode)
{
    nvtxDomainHandle_t domain = malloc(sizeof(*domain));
    if (domain != NULL)
        put_text(domain->name, sizeof(domain->name), ascii, unicode);
    return domain;
}

static nvtxStringHandle_t nvtx_register_string(const char *ascii, const wchar_t *unicode)
{
    nvtxStringHandle_t string = malloc(sizeof(*string));
    if (string != NULL)
        put_text(string->text, sizeof(string->text), ascii, unicode);
    return string;
}

RT_API const struct vgc_nvtx *vgc_nvtx_functions(void)
{
    static const struct vgc_nvtx FUNCTIONS = {nvtx_mark,        nvtx_start,         nvtx_end,
                                              nvtx_push,        nvtx_pop,           nvtx_name_category,
                                              nvtx_name_thread, nvtx_create_domain, nvtx_register_string};
    return &FUNCTIONS;
}
