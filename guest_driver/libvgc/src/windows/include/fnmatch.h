/* fnmatch() of POSIX, without flags, for systems that lack it. */
#ifndef VGC_FNMATCH_H
#define VGC_FNMATCH_H

/* 0: `name` matches the shell pattern, of `*`, `?`, `[a-z]`, `[!a-z]` and `\`. */
int fnmatch(const char *pattern, const char *name, int flags);

#endif
