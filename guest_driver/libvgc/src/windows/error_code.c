/* Error codes of Windows as errno, with the system's text. */
#include <stdio.h>
#include <string.h>

#include "win32.h"

static _Thread_local DWORD last_code;
static _Thread_local int last_errno;

static int errno_of(DWORD code)
{
    switch (code) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
        return ENOENT;
    case ERROR_ACCESS_DENIED:
        return EACCES;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        return EEXIST;
    case ERROR_LOCK_VIOLATION:
    case ERROR_IO_PENDING:
        return EAGAIN;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
        return ENOMEM;
    case ERROR_DISK_FULL:
        return ENOSPC;
    default:
        return EIO;
    }
}

bool vgc_failed_with(DWORD code)
{
    last_code = code;
    last_errno = errno = errno_of(code);
    return false;
}

const char *vgc_error_text(int error)
{
    static _Thread_local char text[256];
    const DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    if (error != last_errno || last_code == 0)
        return strerror(error);
    DWORD len = FormatMessageA(flags, NULL, last_code, 0, text, sizeof(text) - 32, NULL);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == '.' || text[len - 1] == ' '))
        len--;
    (void)snprintf(text + len, sizeof(text) - len, "%s(error %lu)", len > 0 ? " " : "", last_code);
    return text;
}
