/* Texts that grow, and lists of words. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static bool make_room(struct rt_text *text, size_t len)
{
    if (text->has_failed)
        return false;
    if (text->bytes != NULL && len < text->room - text->len)
        return true;
    const size_t room = (text->len + len + 1) * 2;
    char *bytes = realloc(text->bytes, room);
    text->has_failed = bytes == NULL;
    if (bytes == NULL)
        return false;
    text->bytes = bytes;
    text->room = room;
    return true;
}

void rt_text_add(struct rt_text *text, const char *bytes, size_t len)
{
    if (!make_room(text, len))
        return;
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
}

void rt_text_print(struct rt_text *text, const char *format, ...)
{
    va_list values;
    char *printed = NULL;
    va_start(values, format);
    const int len = vasprintf(&printed, format, values);
    va_end(values);
    if (len < 0) {
        text->has_failed = true;
        return;
    }
    rt_text_add(text, printed, (size_t)len);
    free(printed);
}

void rt_text_free(struct rt_text *text)
{
    free(text->bytes);
    *text = (struct rt_text){.bytes = NULL};
}

void rt_words_add(struct rt_words *list, const char *format, ...)
{
    va_list values;
    char *word = NULL;
    va_start(values, format);
    const int len = vasprintf(&word, format, values);
    va_end(values);
    char **words = len < 0 ? NULL : realloc(list->words, (list->count + 1) * sizeof(*words));
    if (words != NULL)
        list->words = words;
    if (words == NULL) {
        list->has_failed = true;
        if (len >= 0)
            free(word);
        return;
    }
    words[list->count++] = word;
}

void rt_words_free(struct rt_words *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->words[i]);
    free(list->words);
    *list = (struct rt_words){.words = NULL};
}
