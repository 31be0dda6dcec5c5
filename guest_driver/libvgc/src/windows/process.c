/* The process, its environment and its rights. */
#include "win32.h"

#include <bcrypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- this process --------------------------------------------------------------------------- */

uint32_t vgc_process(void)
{
    return GetCurrentProcessId(); /* there is no fork() */
}

void vgc_in_children(void (*call)(void))
{
    (void)call;
}

int vgc_thread_id(void)
{
    return (int)GetCurrentThreadId();
}

static char program_name[64];

static void find_program_name(void)
{
    char path[MAX_PATH] = "";
    (void)GetModuleFileNameA(NULL, path, sizeof(path) - 1);
    const char *slash = strrchr(path, '\\');
    (void)snprintf(program_name, sizeof(program_name), "%.63s", slash != NULL ? slash + 1 : path);
}

const char *vgc_program_name(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_program_name);
    return program_name;
}

/* ---- environment ---------------------------------------------------------------------------- */

const char *vgc_variable(const char *name)
{
    return getenv(name); /* no program has more rights than who starts it, who can also change its memory */
}

static char state_dir[MAX_PATH];

static void find_state_dir(void)
{
    const char *data = getenv("ProgramData");
    (void)snprintf(state_dir, sizeof(state_dir), "%s\\virtio-gpu-compute",
                   data != NULL && data[0] != '\0' ? data : "C:\\ProgramData");
}

const char *vgc_default_state_dir(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_state_dir);
    return state_dir;
}

bool vgc_cache_folder(char *path, size_t room)
{
    const char *local = getenv("LOCALAPPDATA");
    if (local == NULL || local[0] == '\0')
        return false;
    (void)snprintf(path, room, "%s", local);
    return true;
}

/* ---- the guest, and what it allows ---------------------------------------------------------- */

const char vgc_denied_hint[] = " (libvgc needs the rights of an administrator for devices, and a folder of state that "
                               "this user may write: VGC_STATE_DIR)";

bool vgc_random(void *bytes, size_t size)
{
    NTSTATUS status = BCryptGenRandom(NULL, bytes, (ULONG)size, BCRYPT_USE_SYSTEM_PREFERRED_RNG);
    return status >= 0 || vgc_failed_with(ERROR_GEN_FAILURE);
}

/* KUSER_SHARED_DATA.BootId [ntddk.h]: the kernel maps the page into every process, at this address. */
void vgc_boot_id(char *text, size_t room)
{
    const volatile ULONG *boot_id = (const volatile ULONG *)(uintptr_t)0x7ffe02c4;
    memset(text, 0, room);
    (void)snprintf(text, room, "%lu", *boot_id);
}

bool vgc_file_may_have(uint64_t bytes)
{
    (void)bytes; /* only disks and quotas limit files, and these end no program */
    return true;
}
