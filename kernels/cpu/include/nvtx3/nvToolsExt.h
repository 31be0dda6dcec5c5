/* NVTX, version 3: marks and ranges of a program's host code. In a virtual machine libcudart takes them for the time line of
 * the host's control system; where no libcudart is in the process, the functions do nothing and return what NVTX returns
 * then. Values as published. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>
#define NVTX_VERSION 3
#define NVTX_SUCCESS 0
#define NVTX_FAIL 1
#define NVTX_NO_PUSH_POP_TRACKING (-2)
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))
typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st *nvtxStringHandle_t;
typedef struct nvtxResourceHandle *nvtxResourceHandle_t;
typedef enum nvtxColorType_t { NVTX_COLOR_UNKNOWN = 0, NVTX_COLOR_ARGB = 1 } nvtxColorType_t;
typedef enum nvtxMessageType_t {
    NVTX_MESSAGE_UNKNOWN = 0,
    NVTX_MESSAGE_TYPE_ASCII = 1,
    NVTX_MESSAGE_TYPE_UNICODE = 2,
    NVTX_MESSAGE_TYPE_REGISTERED = 3
} nvtxMessageType_t;
typedef enum nvtxPayloadType_t {
    NVTX_PAYLOAD_UNKNOWN = 0,
    NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1,
    NVTX_PAYLOAD_TYPE_INT64 = 2,
    NVTX_PAYLOAD_TYPE_DOUBLE = 3,
    NVTX_PAYLOAD_TYPE_UNSIGNED_INT32 = 4,
    NVTX_PAYLOAD_TYPE_INT32 = 5,
    NVTX_PAYLOAD_TYPE_FLOAT = 6
} nvtxPayloadType_t;
typedef union nvtxMessageValue_t {
    const char *ascii;
    const wchar_t *unicode;
    nvtxStringHandle_t registered;
} nvtxMessageValue_t;
typedef struct nvtxEventAttributes_v2 {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    union payload_t {
        uint64_t ullValue;
        int64_t llValue;
        double dValue;
        uint32_t uiValue;
        int32_t iValue;
        float fValue;
    } payload;
    int32_t messageType;
    nvtxMessageValue_t message;
} nvtxEventAttributes_t;

typedef struct nvtxResourceAttributes_v0 {
    uint16_t version, size;
    int32_t identifierType;
    union identifier_t {
        const void *pValue;
        uint64_t ullValue;
    } identifier;
    int32_t messageType;
    nvtxMessageValue_t message;
} nvtxResourceAttributes_t;
#define NVTX_RESOURCE_MAKE_TYPE(CLASS, INDEX) ((((uint32_t)(NVTX_RESOURCE_CLASS_##CLASS)) << 16) | ((uint32_t)(INDEX)))
#define NVTX_RESOURCE_CLASS_GENERIC 1
#define NVTX_RESOURCE_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxResourceAttributes_t))
typedef enum nvtxResourceGenericType_t {
    NVTX_RESOURCE_TYPE_UNKNOWN = 0,
    NVTX_RESOURCE_TYPE_GENERIC_POINTER = NVTX_RESOURCE_MAKE_TYPE(GENERIC, 1),
    NVTX_RESOURCE_TYPE_GENERIC_HANDLE = NVTX_RESOURCE_MAKE_TYPE(GENERIC, 2),
    NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE = NVTX_RESOURCE_MAKE_TYPE(GENERIC, 3),
    NVTX_RESOURCE_TYPE_GENERIC_THREAD_POSIX = NVTX_RESOURCE_MAKE_TYPE(GENERIC, 4)
} nvtxResourceGenericType_t;

/* Functions of libcudart that take marks. A text is given in one of two forms; the other is null. The domain 0 is the global one. */
struct vgc_nvtx {
    void (*mark)(nvtxDomainHandle_t, const nvtxEventAttributes_t *);
    nvtxRangeId_t (*start)(nvtxDomainHandle_t, const nvtxEventAttributes_t *);
    void (*end)(nvtxRangeId_t);
    int (*push)(nvtxDomainHandle_t, const nvtxEventAttributes_t *);
    int (*pop)(nvtxDomainHandle_t);
    void (*name_category)(nvtxDomainHandle_t, uint32_t, const char *, const wchar_t *);
    void (*name_thread)(uint32_t, const char *, const wchar_t *);
    nvtxDomainHandle_t (*create_domain)(const char *, const wchar_t *);
    nvtxStringHandle_t (*register_string)(const char *, const wchar_t *);
};
#ifdef __cplusplus
extern "C"
#else
extern
#endif
const struct vgc_nvtx *vgc_nvtx_functions(void) __attribute__((weak));

#ifndef VGC_NVTX_LINKAGE /* libnvToolsExt.so.1 has functions that it exports */
#define VGC_NVTX_LINKAGE static inline
#endif
static inline const struct vgc_nvtx *vgc_nvtx(void) { return vgc_nvtx_functions != NULL ? vgc_nvtx_functions() : NULL; }
static inline nvtxEventAttributes_t vgc_nvtx_text(const char *ascii, const wchar_t *unicode) {
    nvtxEventAttributes_t event = {NVTX_VERSION, NVTX_EVENT_ATTRIB_STRUCT_SIZE, 0, 0, 0, 0, 0, {0}, 0, {0}};
    event.messageType = ascii != NULL ? NVTX_MESSAGE_TYPE_ASCII : unicode != NULL ? NVTX_MESSAGE_TYPE_UNICODE : NVTX_MESSAGE_UNKNOWN;
    if (ascii != NULL)
        event.message.ascii = ascii;
    else
        event.message.unicode = unicode;
    return event;
}

VGC_NVTX_LINKAGE void nvtxInitialize(const void *reserved) { (void)reserved; }
VGC_NVTX_LINKAGE void nvtxDomainMarkEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    const struct vgc_nvtx *to = vgc_nvtx();
    if (to != NULL)
        to->mark(domain, event);
}
VGC_NVTX_LINKAGE nvtxRangeId_t nvtxDomainRangeStartEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    const struct vgc_nvtx *to = vgc_nvtx();
    return to != NULL ? to->start(domain, event) : 0;
}
VGC_NVTX_LINKAGE void nvtxRangeEnd(nvtxRangeId_t range) {
    const struct vgc_nvtx *to = vgc_nvtx();
    if (to != NULL)
        to->end(range);
}
VGC_NVTX_LINKAGE int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
    const struct vgc_nvtx *to = vgc_nvtx();
    return to != NULL ? to->push(domain, event) : NVTX_NO_PUSH_POP_TRACKING;
}
VGC_NVTX_LINKAGE int nvtxDomainRangePop(nvtxDomainHandle_t domain) {
    const struct vgc_nvtx *to = vgc_nvtx();
    return to != NULL ? to->pop(domain) : NVTX_NO_PUSH_POP_TRACKING;
}
VGC_NVTX_LINKAGE void nvtxDomainRangeEnd(nvtxDomainHandle_t domain, nvtxRangeId_t range) { (void)domain, nvtxRangeEnd(range); }
VGC_NVTX_LINKAGE void nvtxMarkEx(const nvtxEventAttributes_t *event) { nvtxDomainMarkEx(NULL, event); }
VGC_NVTX_LINKAGE nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t *event) { return nvtxDomainRangeStartEx(NULL, event); }
VGC_NVTX_LINKAGE int nvtxRangePushEx(const nvtxEventAttributes_t *event) { return nvtxDomainRangePushEx(NULL, event); }
VGC_NVTX_LINKAGE int nvtxRangePop(void) { return nvtxDomainRangePop(NULL); }
VGC_NVTX_LINKAGE void nvtxMarkA(const char *text) {
    nvtxEventAttributes_t event = vgc_nvtx_text(text, NULL);
    nvtxMarkEx(&event);
}
VGC_NVTX_LINKAGE nvtxRangeId_t nvtxRangeStartA(const char *text) {
    nvtxEventAttributes_t event = vgc_nvtx_text(text, NULL);
    return nvtxRangeStartEx(&event);
}
VGC_NVTX_LINKAGE int nvtxRangePushA(const char *text) {
    nvtxEventAttributes_t event = vgc_nvtx_text(text, NULL);
    return nvtxRangePushEx(&event);
}
VGC_NVTX_LINKAGE void nvtxMarkW(const wchar_t *text) {
    nvtxEventAttributes_t event = vgc_nvtx_text(NULL, text);
    nvtxMarkEx(&event);
}
VGC_NVTX_LINKAGE nvtxRangeId_t nvtxRangeStartW(const wchar_t *text) {
    nvtxEventAttributes_t event = vgc_nvtx_text(NULL, text);
    return nvtxRangeStartEx(&event);
}
VGC_NVTX_LINKAGE int nvtxRangePushW(const wchar_t *text) {
    nvtxEventAttributes_t event = vgc_nvtx_text(NULL, text);
    return nvtxRangePushEx(&event);
}
VGC_NVTX_LINKAGE void nvtxDomainNameCategoryA(nvtxDomainHandle_t domain, uint32_t category, const char *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    if (to != NULL)
        to->name_category(domain, category, text, NULL);
}
VGC_NVTX_LINKAGE void nvtxNameCategoryA(uint32_t category, const char *text) { nvtxDomainNameCategoryA(NULL, category, text); }
VGC_NVTX_LINKAGE void nvtxNameOsThreadA(uint32_t thread, const char *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    if (to != NULL)
        to->name_thread(thread, text, NULL);
}
VGC_NVTX_LINKAGE nvtxDomainHandle_t nvtxDomainCreateA(const char *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    return to != NULL ? to->create_domain(text, NULL) : NULL;
}
VGC_NVTX_LINKAGE nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain, const char *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    (void)domain;
    return to != NULL ? to->register_string(text, NULL) : NULL;
}
VGC_NVTX_LINKAGE void nvtxDomainNameCategoryW(nvtxDomainHandle_t domain, uint32_t category, const wchar_t *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    if (to != NULL)
        to->name_category(domain, category, NULL, text);
}
VGC_NVTX_LINKAGE void nvtxNameCategoryW(uint32_t category, const wchar_t *text) { nvtxDomainNameCategoryW(NULL, category, text); }
VGC_NVTX_LINKAGE void nvtxNameOsThreadW(uint32_t thread, const wchar_t *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    if (to != NULL)
        to->name_thread(thread, NULL, text);
}
VGC_NVTX_LINKAGE nvtxDomainHandle_t nvtxDomainCreateW(const wchar_t *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    return to != NULL ? to->create_domain(NULL, text) : NULL;
}
VGC_NVTX_LINKAGE nvtxStringHandle_t nvtxDomainRegisterStringW(nvtxDomainHandle_t domain, const wchar_t *text) {
    const struct vgc_nvtx *to = vgc_nvtx();
    (void)domain;
    return to != NULL ? to->register_string(NULL, text) : NULL;
}
/* Ranges keep the name of a domain, so it stays. Names of resources are not shown. */
VGC_NVTX_LINKAGE void nvtxDomainDestroy(nvtxDomainHandle_t domain) { (void)domain; }
VGC_NVTX_LINKAGE nvtxResourceHandle_t nvtxDomainResourceCreate(nvtxDomainHandle_t domain, nvtxResourceAttributes_t *resource) {
    return (void)domain, (void)resource, (nvtxResourceHandle_t)0;
}
VGC_NVTX_LINKAGE void nvtxDomainResourceDestroy(nvtxResourceHandle_t resource) { (void)resource; }

#ifdef UNICODE
#define nvtxMark nvtxMarkW
#define nvtxRangeStart nvtxRangeStartW
#define nvtxRangePush nvtxRangePushW
#define nvtxNameCategory nvtxNameCategoryW
#define nvtxNameOsThread nvtxNameOsThreadW
#define nvtxDomainCreate nvtxDomainCreateW
#define nvtxDomainRegisterString nvtxDomainRegisterStringW
#define nvtxDomainNameCategory nvtxDomainNameCategoryW
#else
#define nvtxMark nvtxMarkA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxRangePush nvtxRangePushA
#define nvtxNameCategory nvtxNameCategoryA
#define nvtxNameOsThread nvtxNameOsThreadA
#define nvtxDomainCreate nvtxDomainCreateA
#define nvtxDomainRegisterString nvtxDomainRegisterStringA
#define nvtxDomainNameCategory nvtxDomainNameCategoryA
#endif
