/* Shell patterns [POSIX 1003.1, XCU 2.13], for names in ASCII: no classes as [:alpha:], no order but that of bytes. */
#include <fnmatch.h>
#include <stdbool.h>
#include <stddef.h>

/* End of the bracket that begins at `at`; NULL: it has none, and is an ordinary '['. */
static const char *end_of_bracket(const char *at)
{
    at += at[1] == '!' || at[1] == '^' ? 2 : 1;
    for (const char *first = at; *at != '\0'; at++) {
        if (*at == ']' && at != first)
            return at;
        if (*at == '\\' && at[1] != '\0')
            at++;
    }
    return NULL;
}

static bool is_in_bracket(const char *at, const char *end, unsigned char c)
{
    bool negated = at[1] == '!' || at[1] == '^', found = false;
    for (at += negated ? 2 : 1; at < end; at++) {
        at += *at == '\\';
        unsigned char low = (unsigned char)*at, high = low;
        if (at[1] == '-' && at + 2 < end) {
            at += 2;
            at += *at == '\\';
            high = (unsigned char)*at;
        }
        found = found || (c >= low && c <= high);
    }
    return found != negated;
}

/* Does the pattern's first element, which is no '*', match a character? *next is behind the element. */
static bool matches_one(const char *pattern, char c, const char **next)
{
    const char *end = *pattern == '[' ? end_of_bracket(pattern) : NULL;
    *next = (end != NULL ? end : pattern) + 1;
    if (end != NULL)
        return is_in_bracket(pattern, end, (unsigned char)c);
    if (*pattern == '?')
        return true;
    if (*pattern == '\\') /* one at the end matches nothing */
        *next = ++pattern + 1;
    return *pattern == c;
}

int fnmatch(const char *pattern, const char *name, int flags)
{
    const char *behind_star = NULL, *tried = NULL, *next;
    (void)flags;
    while (*name != '\0') {
        if (*pattern == '*') {
            behind_star = ++pattern;
            tried = name;
        } else if (*pattern != '\0' && matches_one(pattern, *name, &next)) {
            pattern = next;
            name++;
        } else if (behind_star != NULL) {
            pattern = behind_star;
            name = ++tried;
        } else {
            return 1;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern != '\0';
}
