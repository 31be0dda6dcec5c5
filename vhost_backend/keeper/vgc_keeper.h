/* Packets between the keeper and a daemon, over one SOCK_SEQPACKET socket pair, in the host's byte order.
 *
 * A packet is a `vgc_keep_head`, its key, and `size` bytes; a commit has `flags` operations behind that, each a
 * `vgc_keep_op` with its key and its blob. Descriptors go beside it (SCM_RIGHTS). Keys are paths such as
 * "web1/session": whatever is dropped takes everything below it along.
 *
 *   daemon                        keeper
 *   HELLO  (seq: version)    ->               it has loaded its modules
 *                            <-   ENTRY       for each entry of the store, with its descriptor
 *                            <-   RELAY       for each connection that is being relayed
 *                            <-   GO          the daemon serves from here on
 *   READY                    ->
 *                            <-   MESSAGE     of a frontend, with its number and descriptors; again to the next daemon
 *   COMMIT                   ->               changes of the store and the reply to a message, all or nothing
 *   ALIVE                    ->               it does not hang: again and again, once it was said
 *                            <-   HANGUP      a frontend is gone; size: bytes of a message that it has not finished
 *                            <-   EXIT        an orphan has ended (seq: its pid, flags: its wait status)
 *                            <-   STOP        the daemon is to end on purpose
 *   END                      ->               the daemon ends on purpose, and the keeper with it
 */
#ifndef VGC_KEEPER_H
#define VGC_KEEPER_H

#include <stdint.h>

#define VGC_KEEP_MAX_KEY 128
#define VGC_KEEP_MAX_PACKET (160 * 1024)
#define VGC_KEEP_MAX_FDS 200
#define VGC_KEEP_MAX_MESSAGE 4096   /* payload of a vhost-user message; of a longer one the header alone is passed on */
#define VGC_KEEP_MAX_MESSAGE_FDS 16 /* more than a vhost-user message may have */

enum vgc_keep_type {
    VGC_KEEP_HELLO = 1,
    VGC_KEEP_READY,
    VGC_KEEP_COMMIT,
    VGC_KEEP_END,
    VGC_KEEP_ALIVE,
    VGC_KEEP_ENTRY = 16,
    VGC_KEEP_RELAY,
    VGC_KEEP_GO,
    VGC_KEEP_MESSAGE,
    VGC_KEEP_HANGUP,
    VGC_KEEP_EXIT,
    VGC_KEEP_STOP,
};

enum vgc_keep_kind {
    VGC_KEEP_PUT = 1,   /* the entry `key` is `blob`, with descriptor number `fd` of the packet; -1: with none */
    VGC_KEEP_DROP,      /* removes the entry `key`, all entries below it, and connections */
    VGC_KEEP_ADD_RELAY, /* relays the connection that is descriptor number `fd` of the packet, as `key` */
};

#define VGC_KEEP_CUT 1U /* flag of a message: descriptors were lost on the way */

struct vgc_keep_head {
    uint32_t type;
    uint32_t key_len;
    uint32_t seq;
    uint32_t size;
    uint32_t flags;
};

struct vgc_keep_op {
    uint32_t kind;
    uint32_t key_len;
    uint32_t blob_len;
    int32_t fd;
};

/* Orders that a client of the keeper's socket sends, a byte each. It is answered with a line: "serving PID" once the
 * daemon serves that was asked for, or "refused PID" with the process of the one that goes on. */
#define VGC_KEEP_REPLACE 'r'
#define VGC_KEEP_FINISH 'f' /* ends all of it; the connection closes with the keeper's end */

#endif
