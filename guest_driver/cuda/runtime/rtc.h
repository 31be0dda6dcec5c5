/* NVRTC: CUDA C that programs compile as they run; here the host compiles it. The functions are hidden, as the driver
 * API's are: libnvrtc.so.N finds them in the runtime that the process has, by vgc_nvrtc_function(). */
#ifndef VGC_CUDART_RTC_H
#define VGC_CUDART_RTC_H

#include "nvrtc.h"

#include "base.h"

/* ---- texts.c ----------------------------------------------------------------------------------------------------- */

/* A text that grows. `bytes` ends with a NUL, unless it is NULL: nothing was added, or there was no memory. */
struct rt_text {
    char *bytes;
    size_t len;
    size_t room;
    bool has_failed; /* no memory: what was added since is missing */
};

void rt_text_add(struct rt_text *text, const char *bytes, size_t len);
void rt_text_print(struct rt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_text_free(struct rt_text *text);

/* ---- paths.c ----------------------------------------------------------------------------------------------------- */

enum { RT_MAX_PATH = 1024 };

/* Absolute path of `name` in `folder`, without "." and "..". False: it is too long. */
bool rt_join_path(char path[RT_MAX_PATH], const char *folder, const char *name);
/* The folder that a path is in. */
void rt_folder_of(char folder[RT_MAX_PATH], const char *path);
/* Is it a folder of the system's headers, of a CUDA toolkit's, or of CUB's and Thrust's? The host has its own. */
bool rt_is_hosts_folder(const char *folder);

/* ---- options.c --------------------------------------------------------------------------------------------------- */

/* A list of words that it owns. */
struct rt_words {
    char **words;
    size_t count;
    bool has_failed; /* no memory */
};

void rt_words_add(struct rt_words *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_words_free(struct rt_words *list);

struct rt_rtc_options {
    struct rt_words passed;       /* to the host's compiler */
    struct rt_words folders;      /* of headers, absolute */
    struct rt_words pre_included; /* headers */
    bool has_virtual_arch;        /* there is no machine code of it */
    bool has_lto;
    bool is_relocatable;
    bool searches_own_folder; /* where the source lies */
    bool is_syntax_only;
};

/* Takes the options of nvrtcCompileProgram(). What is wrong is added to the log. */
nvrtcResult rt_take_rtc_options(int count, const char *const *words, struct rt_rtc_options *options,
                                struct rt_text *log);
void rt_free_rtc_options(struct rt_rtc_options *options);

/* ---- includes.c -------------------------------------------------------------------------------------------------- */

struct rt_header { /* that the program gave */
    char *name;
    char *text;
};

/* Folder in which the program's headers and its source lie, for the host's compiler. */
#define RT_PROGRAM_FOLDER "/program"

/* Writes the list of headers before a source (vhost_backend/engines/cpu/compiler/guest_headers.h): those of the
 * program, and those that its texts include and that are found in the guest. Writes nothing for a source without
 * headers. */
void rt_write_headers(struct rt_text *out, const char *source, const char *source_name, const struct rt_header *headers,
                      size_t num_headers, const struct rt_rtc_options *options);

/* ---- containers.c ------------------------------------------------------------------------------------------------ */

/* Writes what nvrtcGetPTX() and its kin hand out: a text with the source, and the options to compile it with. */
void rt_write_container(struct rt_text *out, const struct rt_words *options, const char *source);
bool rt_is_container(const char *image);
/* The source in a container, and its options, each with a NUL, in `options`; NULL: it is damaged. */
const char *rt_read_container(const char *image, char *options, size_t room, uint32_t *num_options);

/* ---- names.c ----------------------------------------------------------------------------------------------------- */

/* Written by table.awk. */
extern const struct rt_named_function RT_RTC_NAMES[];
extern const size_t RT_NUM_RTC_NAMES;

/* NVRTC's function with that name; NULL: it has no such function. */
RT_API void *vgc_nvrtc_function(const char *name);

#endif
