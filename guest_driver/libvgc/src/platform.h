/* The seam to the operating system: all that libvgc asks of it but C's library and pthreads. Each of linux/ and
 * windows/ defines all of these functions. Those that fail set errno, unless they return an enum vgc_result, which has
 * a message. */
#ifndef VGC_PLATFORM_H
#define VGC_PLATFORM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- time.c --------------------------------------------------------------------------------- */

/* Nanoseconds of a clock that never goes back, the same for all processes of the guest. */
uint64_t vgc_now_ns(void);
void vgc_nap(uint64_t ns); /* less than a second */
/* A condition whose waits end by vgc_now_ns(). */
void vgc_cond_init(pthread_cond_t *condition);
void vgc_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns);

/* ---- process.c ------------------------------------------------------------------------------ */

/* A number of this process that a child of fork() does not have. Cheap. */
uint32_t vgc_process(void);
/* Has a function called in every child of fork(). */
void vgc_in_children(void (*call)(void));
int vgc_thread_id(void);
const char *vgc_program_name(void);
/* An environment variable that the program's user may set; NULL: it is not set, or the program has more rights than
 * its user. */
const char *vgc_variable(const char *name);
const char *vgc_error_text(int error); /* of errno, as this thread has just got it */
bool vgc_random(void *bytes, size_t size);
/* Text that differs from boot to boot of the guest; zeros behind it. */
void vgc_boot_id(char *text, size_t room);
/* May a file of the program's have that many bytes (ulimit -f)? Writing more would end it by a signal. */
bool vgc_file_may_have(uint64_t bytes);
/* Folder for what the processes of the guest share, unless the user names one. */
const char *vgc_default_state_dir(void);
/* The user's folder for files that can be made anew, which is made. False: the user has no such folder. */
bool vgc_cache_folder(char *path, size_t room);
extern const char vgc_denied_hint[]; /* who may use the device: ends the message of a refusal by the system */

/* ---- file.c --------------------------------------------------------------------------------- */

/* An open file or device: a descriptor on Linux, a HANDLE on Windows. */
typedef intptr_t vgc_handle;
#define VGC_NO_HANDLE ((vgc_handle) - 1)

enum vgc_file_access {
    VGC_FILE_READ,      /* reads an old one */
    VGC_FILE_CHANGE,    /* reads and writes an old one */
    VGC_FILE_MAKE,      /* reads and writes it, makes it for its user if it is not there */
    VGC_FILE_EXCLUSIVE, /* reads and writes a new one, which is its user's; EEXIST if it is there */
};

/* On Linux not through a link, which anybody can make there. Programs that this one starts do not have it. */
vgc_handle vgc_file_open(const char *path, enum vgc_file_access access);
void vgc_file_close(vgc_handle file);
/* Is it a file of its own that root, this user or the folder's owner has made? Others may write into a folder. */
bool vgc_file_is_trusted(vgc_handle file, const char *folder);
bool vgc_file_size(vgc_handle file, uint64_t *bytes);
/* Gives a file so many bytes; new ones are zeros. May leave a larger file as it is. */
bool vgc_file_resize(vgc_handle file, uint64_t bytes);
/* Makes a file have these bytes, for which the disk has room then. */
bool vgc_file_reserve(vgc_handle file, uint64_t offset, size_t bytes);
/* Maps a part of a file, shared with all who map it; `offset` is a multiple of 64 KiB. NULL: it cannot be mapped. */
void *vgc_file_map(vgc_handle file, uint64_t offset, size_t bytes, bool writable);
void vgc_unmap(void *pointer, size_t bytes);
/* Moves a mapping to an address; false: it stays where it is. */
bool vgc_move_mapping(void *pointer, size_t bytes, void *wanted);

/* Locks one byte for this opening of the file, without waiting; EAGAIN: a second opening has it. The lock ends with the
 * last handle of the opening, however its process dies. */
bool vgc_file_lock(vgc_handle file, uint64_t byte);
void vgc_file_unlock(vgc_handle file, uint64_t byte);
/* Has another opening locked this byte? True as well if that cannot be told. */
bool vgc_file_is_locked(vgc_handle file, uint64_t byte);
/* Opens a file that is nothing but a lock, and takes that; without waiting. EAGAIN as above: `*file` is open then. */
bool vgc_file_lock_whole(const char *path, vgc_handle *file);

bool vgc_folder_make(const char *path, bool is_private); /* true as well if it is there */
/* An old file to read, NULL for whatever is no file: opening a pipe would wait for a writer. */
FILE *vgc_stream_old(const char *path);
FILE *vgc_stream_new(const char *path);     /* that was not there before */
bool vgc_file_is_special(const char *path); /* there is something, and it is no file */
bool vgc_file_replace(const char *from, const char *to);

/* ---- socket.c ------------------------------------------------------------------------------- */

enum vgc_wakeup {
    VGC_WAKEUP_NONE, /* within that time */
    VGC_WAKEUP_CAME,
    VGC_WAKEUP_BROKEN, /* there will never be one */
};

/* A TCP connection to a port of 127.0.0.1; VGC_NO_HANDLE on errors. */
vgc_handle vgc_socket_connect(uint16_t port);
bool vgc_socket_send(vgc_handle socket, const void *bytes, size_t size);
/* Waits until bytes come, and takes all that have come. */
enum vgc_wakeup vgc_socket_wait(vgc_handle socket, uint64_t timeout_ns);
void vgc_socket_close(vgc_handle socket);

/* ---- pci.c ---------------------------------------------------------------------------------- */

enum { VGC_PCI_ADDRESS_LEN = 32 };

struct vgc_pci_id {
    char address[VGC_PCI_ADDRESS_LEN];
    uint16_t vendor;
    uint16_t device;
};

/* All functions of one vendor and device id, in address order. */
int vgc_pci_find(uint16_t vendor, uint16_t device, struct vgc_pci_id *ids, size_t room, size_t *count);
/* Base and size of a BAR. */
int vgc_pci_bar(const char *address, uint32_t bar, uint64_t *base, uint64_t *size);
/* Maps a BAR. `file` is the name that Linux has for it: resourceN, or resourceN_wc for the mapping that may be cached.
 */
int vgc_pci_map(const char *address, const char *file, uint64_t size, void **pointer);
/* Sets bits in the PCI command register, unless they are set. */
int vgc_pci_command(const char *address, uint16_t set);
void vgc_pci_driver(const char *address, char *driver, size_t room); /* "" if none */
int vgc_pci_open_config(const char *address, vgc_handle *config);    /* the function's configuration space */
void vgc_pci_close_config(vgc_handle config);
bool vgc_pci_read(vgc_handle config, uint32_t at, void *bytes, size_t size);
bool vgc_pci_write(vgc_handle config, uint32_t at, const void *bytes, size_t size);
/* Over all processes. */
void vgc_pci_lock(vgc_handle config);
void vgc_pci_unlock(vgc_handle config);
/* Until it is closed, other processes see that this one uses the function. */
void vgc_pci_mark_used(vgc_handle config);
bool vgc_pci_is_used(vgc_handle config); /* by another opening of it */
/* Takes a function from the kernel's virtio-pci (*was_virtio), unless a driver uses its virtio device. VGC_NO_DEVICE if
 * it is another driver's. */
int vgc_pci_release(const char *address, bool *was_virtio);
/* Lets the kernel's drivers have it again. */
void vgc_pci_give_back(const char *address);
/* Gives a function that no driver has to user space. */
int vgc_pci_bind_uio(const char *address);
/* Name by which its interrupt is opened; false: it has none. */
bool vgc_pci_uio(const char *address, char *node, size_t room);
vgc_handle vgc_pci_open_interrupt(const char *node);

enum vgc_wakeup vgc_pci_wait_interrupt(vgc_handle interrupt, uint64_t timeout_ns);

#endif
