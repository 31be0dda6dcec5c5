/* Headers for the host's compiler, which sees no file of the guest: those that the program gives by name, and those
 * that its texts include and that lie in folders of the guest. Directives are read without regard to conditions: a
 * header too many does no harm. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime.h"

enum { MAX_FILE = 4 << 20, MAX_FILES = 4096 };

struct file {
    char path[RT_MAX_PATH];
    char *text;
};

struct search {
    const struct rt_words *folders;
    struct file *files;
    size_t num_files;
};

static bool is_listed(const struct search *search, const char *path)
{
    for (size_t i = 0; i < search->num_files; i++)
        if (strcmp(search->files[i].path, path) == 0)
            return true;
    return false;
}

static bool is_plain(const char *path)
{
    for (const char *c = path; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || *c == '"' || *c == '\\')
            return false;
    return *path != '\0';
}

/* Takes the text over, also where it is not listed. */
static void list(struct search *search, const char *path, char *text)
{
    struct file *files = text == NULL || is_listed(search, path) || search->num_files >= MAX_FILES || !is_plain(path)
                             ? NULL
                             : realloc(search->files, (search->num_files + 1) * sizeof(*files));
    if (files == NULL) {
        free(text);
        return;
    }
    search->files = files;
    struct file *file = &files[search->num_files++];
    (void)snprintf(file->path, sizeof(file->path), "%s", path);
    file->text = text;
}

/* A text in a file; NULL: the file is missing, or no text. */
static char *read_text(const char *path)
{
    struct stat status;
    FILE *file =
        stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= MAX_FILE ? fopen(path, "rbe") : NULL;
    if (file == NULL)
        return NULL;
    const size_t size = (size_t)status.st_size;
    char *text = malloc(size + 1);
    const size_t read = text == NULL ? 0 : fread(text, 1, size, file);
    (void)fclose(file);
    if (text == NULL || memchr(text, '\0', read) != NULL) {
        free(text);
        return NULL;
    }
    text[read] = '\0';
    return text;
}

/* Lists the file if it exists. True: it is listed, now or before. */
static bool find_in(struct search *search, const char *folder, const char *name)
{
    char path[RT_MAX_PATH];
    if (!rt_join_path(path, folder, name))
        return false;
    if (!is_listed(search, path))
        list(search, path, read_text(path));
    return is_listed(search, path);
}

/* Looks for an included file as a compiler does; `goes_on` for #include_next, which passes some of the folders. */
static void find(struct search *search, const char *name, const char *includer, bool is_quoted, bool goes_on)
{
    char folder[RT_MAX_PATH];
    rt_folder_of(folder, includer);
    if (is_quoted && find_in(search, folder, name) && !goes_on)
        return;
    for (size_t i = 0; i < search->folders->count; i++)
        if (find_in(search, search->folders->words[i], name) && !goes_on)
            return;
}

/* Takes the name behind #include or __has_include. */
static void take_name(struct search *search, const char *at, const char *includer, bool goes_on)
{
    char name[RT_MAX_PATH];
    at += strspn(at, " \t(");
    if (*at != '"' && *at != '<')
        return;
    const size_t len = strcspn(at + 1, *at == '"' ? "\"\n" : ">\n");
    if (len == 0 || len >= sizeof(name) || at[1 + len] == '\n')
        return;
    (void)snprintf(name, sizeof(name), "%.*s", (int)len, at + 1);
    find(search, name, includer, *at == '"', goes_on);
}

static void take_line(struct search *search, const char *line, size_t len, const char *includer)
{
    static const char INCLUDE[] = "include", NEXT[] = "_next", ASKED[] = "__has_include";
    const char *at = line + strspn(line, " \t");
    if (*at != '#')
        return;
    at += 1 + strspn(at + 1, " \t");
    if (strncmp(at, INCLUDE, strlen(INCLUDE)) == 0) {
        at += strlen(INCLUDE);
        const bool goes_on = strncmp(at, NEXT, strlen(NEXT)) == 0;
        take_name(search, goes_on ? at + strlen(NEXT) : at, includer, goes_on);
        return;
    }
    while ((at = memmem(at, (size_t)(line + len - at), ASKED, strlen(ASKED))) != NULL) {
        at += strlen(ASKED);
        take_name(search, at, includer, false);
    }
}

static void take_text(struct search *search, const char *text, const char *includer)
{
    while (*text != '\0') {
        const size_t len = strcspn(text, "\n");
        take_line(search, text, len, includer);
        text += len + (text[len] == '\n');
    }
}

static void write_list(struct rt_text *out, const struct search *search)
{
    rt_text_print(out, "//# vgc headers %zu %zu\n", search->folders->count, search->num_files);
    for (size_t i = 0; i < search->folders->count; i++)
        rt_text_print(out, "%s\n", search->folders->words[i]);
    for (size_t i = 0; i < search->num_files; i++) {
        rt_text_print(out, "%zu %s\n", strlen(search->files[i].text), search->files[i].path);
        rt_text_add(out, search->files[i].text, strlen(search->files[i].text));
    }
}

/* Folders in the order of the search: the program's own headers, the source's folder, and those of options. */
static struct rt_words folders_of(const char *source_path, const struct rt_rtc_options *options)
{
    char folder[RT_MAX_PATH];
    struct rt_words folders = {.count = 0};
    rt_words_add(&folders, RT_PROGRAM_FOLDER);
    rt_folder_of(folder, source_path);
    if (options->searches_own_folder && folder[0] != '\0' && !rt_is_hosts_folder(folder))
        rt_words_add(&folders, "%s", folder);
    for (size_t i = 0; i < options->folders.count; i++)
        if (is_plain(options->folders.words[i]))
            rt_words_add(&folders, "%s", options->folders.words[i]);
    return folders;
}

void rt_write_headers(struct rt_text *out, const char *source, const char *source_name, const struct rt_header *headers,
                      size_t num_headers, const struct rt_rtc_options *options)
{
    char path[RT_MAX_PATH];
    if (!rt_join_path(path, ".", source_name))
        (void)snprintf(path, sizeof(path), "%s", "");
    struct rt_words folders = folders_of(path, options);
    struct search search = {.folders = &folders};
    for (size_t i = 0; i < num_headers; i++)
        if (rt_join_path(path, RT_PROGRAM_FOLDER, headers[i].name))
            list(&search, path, strdup(headers[i].text));
    if (!rt_join_path(path, ".", source_name))
        path[0] = '\0';
    for (size_t i = 0; i < options->pre_included.count; i++)
        find(&search, options->pre_included.words[i], path, true, false);
    take_text(&search, source, path);
    for (size_t i = 0; i < search.num_files; i++) { /* the list grows meanwhile */
        char includer[RT_MAX_PATH];
        (void)snprintf(includer, sizeof(includer), "%s", search.files[i].path);
        take_text(&search, search.files[i].text, includer);
    }
    if (search.num_files > 0)
        write_list(out, &search);
    for (size_t i = 0; i < search.num_files; i++)
        free(search.files[i].text);
    free(search.files);
    rt_words_free(&folders);
}
