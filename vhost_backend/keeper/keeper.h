/* Parts of the keeper: the store, the relayed connections, clients, packets. */
#ifndef KEEPER_H
#define KEEPER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "vgc_keeper.h"

/* Prints a line on stderr, which begins with the keeper's name. */
__attribute__((format(printf, 1, 2))) void keeper_say(const char *format, ...);

/* Ends the program where the host has no memory: everything that it keeps ends with it. */
void *keeper_grown(void *memory, size_t size);

/* Closes a descriptor that a frontend or a guest may have made. The last close of a socket can take as long as its
 * owner likes (SO_LINGER), and so can that of one with such sockets in its queue: a process that ends at once has it
 * instead. */
void keeper_close(int fd);

/* ---- packets ------------------------------------------------------------------------------------------------ */

struct packet {
    struct vgc_keep_head head;
    const char *key;   /* not terminated */
    const char *bytes; /* `head.size` bytes, and what is behind them */
    size_t rest;       /* length from `bytes` to the packet's end */
    int fds[VGC_KEEP_MAX_FDS];
    size_t num_fds;
};

enum received { RECEIVED, NOTHING_YET, ENDED };

/* Receives a packet, which is valid until the next call. Descriptors that stay in `fds` are the caller's to close. */
enum received packet_receive(int sock, struct packet *packet);
void packet_close_fds(struct packet *packet);

/* Takes the descriptors of a message that was received into `fds`, which has `*count` already; false: some did not fit,
 * or were lost on the way. */
bool keeper_take_fds(struct msghdr *message, int *fds, size_t *count, size_t max);

/* Sends a packet; false if the receiver is gone, or does not read for some seconds. */
bool packet_send(int sock, struct vgc_keep_head head, const char *key, const void *bytes, const int *fds,
                 size_t num_fds);

/* ---- the store ---------------------------------------------------------------------------------------------- */

/* Sets an entry; takes `fd` over, which may be -1. */
void store_put(const char *key, size_t key_len, const char *blob, size_t blob_len, int fd);

/* Removes the entry `key` and all below it. */
void store_drop(const char *key, size_t key_len);

/* Sends all entries; false as `packet_send`. */
bool store_send(int sock);

/* True if `key` is `of`, or below it. */
bool key_is_in(const char *key, size_t key_len, const char *of, size_t of_len);

/* ---- connections -------------------------------------------------------------------------------------------- */

/* Relays a frontend's connection from now on; takes `sock` over. */
void relay_add(const char *key, size_t key_len, int sock);
void relay_drop(const char *key, size_t key_len);
bool relay_any(void);

/* Answers message number `seq` of a connection with `size` bytes, which may be 0; false: no such message is open. */
bool relay_answer(const char *key, size_t key_len, uint32_t seq, const char *reply, size_t size);
bool relay_has_open(const char *key, size_t key_len, uint32_t seq);

/* Tells a new daemon of all connections, and forgets what was passed on to the one before. */
bool relay_send_all(int sock);

/* Number of descriptors to wait for, of which the first `max` are put into `fds`. */
size_t relay_wait_for(struct pollfd *fds, size_t max);

/* Reads, passes on to the daemon at `sock` and answers as much as can be done now; -1: there is no daemon. False as of
 * `packet_send`: the rest is to be passed on to another daemon. */
bool relay_work(int sock);

/* ---- who wait for another daemon ---------------------------------------------------------------------------- */

#define MAX_CLIENTS 8
#define CLIENTS_FDS (1 + MAX_CLIENTS)

/* Takes clients from a listening socket from now on; -1: the service has no socket, and so no clients. */
void clients_begin(int sock);

/* Removes the socket that the service was found by. */
void clients_end(void);

/* Answers all who have given an order, each with a line of `word` and, if it is positive, `pid`. */
void clients_answer(const char *word, pid_t pid);

/* Fills in the `CLIENTS_FDS` descriptors to wait for. */
void clients_wait_for(struct pollfd *fds);

/* Takes clients and hears what they say, after a wait for `fds`. `on_order` returns false if it does not follow an
 * order: who gave it is not answered. */
void clients_work(const struct pollfd *fds, bool (*on_order)(char order));

#endif
