/* Frontends' connections: one message after the other is read whole, passed on to the daemon, and answered when the
 * daemon has committed what follows from it. A daemon that dies before that leaves the message to the next one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "keeper.h"

#define HEADER_BYTES 12 /* [vhost-user: Header] */
#define SIZE_OFFSET 8
/* Descriptors of one sendmsg [unix(7), SCM_MAX_FD]: the kernel would close those that find no room here. */
#define MOST_FDS 253

enum state { READING, READ, PASSED_ON, GONE };

struct relay {
    char key[VGC_KEEP_MAX_KEY];
    size_t key_len;
    int sock;
    enum state state;
    bool is_told; /* the daemon knows that the frontend is gone */
    uint32_t seq; /* number of the message that is being read, or is open */
    char message[HEADER_BYTES + VGC_KEEP_MAX_MESSAGE];
    size_t size;
    uint32_t flags;
    int fds[VGC_KEEP_MAX_MESSAGE_FDS];
    size_t num_fds;
    char *reply; /* what the frontend has not taken yet */
    size_t reply_len;
};

static struct relay **relays;
static size_t num_relays, room;

static struct relay *find(const char *key, size_t key_len)
{
    for (size_t i = 0; i < num_relays; i++)
        if (relays[i]->key_len == key_len && memcmp(relays[i]->key, key, key_len) == 0)
            return relays[i];
    return NULL;
}

static void close_fds(struct relay *relay)
{
    for (size_t i = 0; i < relay->num_fds; i++)
        keeper_close(relay->fds[i]);
    relay->num_fds = 0;
}

static void forget(size_t index)
{
    struct relay *relay = relays[index];
    close_fds(relay);
    keeper_close(relay->sock);
    free(relay->reply);
    free(relay);
    relays[index] = relays[--num_relays];
}

void relay_add(const char *key, size_t key_len, int sock)
{
    relay_drop(key, key_len);
    if (num_relays == room) {
        room = 2 * room + 16;
        relays = keeper_grown(relays, room * sizeof(*relays));
    }
    struct relay *relay = keeper_grown(NULL, sizeof(*relay));
    *relay = (struct relay){.key_len = key_len, .sock = sock, .seq = 1};
    memcpy(relay->key, key, key_len);
    relays[num_relays++] = relay;
}

void relay_drop(const char *key, size_t key_len)
{
    for (size_t i = num_relays; i-- > 0;)
        if (key_is_in(relays[i]->key, relays[i]->key_len, key, key_len))
            forget(i);
}

bool relay_any(void)
{
    return num_relays > 0;
}

bool relay_has_open(const char *key, size_t key_len, uint32_t seq)
{
    const struct relay *relay = find(key, key_len);
    return relay != NULL && relay->state == PASSED_ON && relay->seq == seq;
}

/* Sends as much of the reply as the frontend takes. */
static void send_reply(struct relay *relay)
{
    while (relay->reply_len > 0) {
        ssize_t sent = send(relay->sock, relay->reply, relay->reply_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            relay->state = GONE;
            relay->reply_len = 0;
            return;
        }
        relay->reply_len -= (size_t)sent;
        memmove(relay->reply, relay->reply + sent, relay->reply_len);
    }
}

bool relay_answer(const char *key, size_t key_len, uint32_t seq, const char *reply, size_t size)
{
    struct relay *relay = find(key, key_len);
    if (relay == NULL || relay->state != PASSED_ON || relay->seq != seq)
        return false;
    close_fds(relay);
    relay->state = READING;
    relay->size = 0;
    relay->flags = 0;
    relay->seq++;
    relay->reply = keeper_grown(relay->reply, size);
    memcpy(relay->reply, reply, size);
    relay->reply_len = size;
    send_reply(relay);
    return true;
}

bool relay_send_all(int sock)
{
    for (size_t i = 0; i < num_relays; i++) {
        struct relay *relay = relays[i];
        struct vgc_keep_head head = {.type = VGC_KEEP_RELAY, .key_len = (uint32_t)relay->key_len};
        if (!packet_send(sock, head, relay->key, NULL, NULL, 0))
            return false;
        relay->is_told = false;
        if (relay->state == PASSED_ON)
            relay->state = READ;
    }
    return true;
}

/* Length of the message of which `relay` has the first bytes, as far as it is known. */
static size_t wanted(const struct relay *relay)
{
    uint32_t payload;
    if (relay->size < HEADER_BYTES)
        return HEADER_BYTES;
    memcpy(&payload, relay->message + SIZE_OFFSET, sizeof(payload));
    return HEADER_BYTES + (payload <= VGC_KEEP_MAX_MESSAGE ? payload : 0);
}

/* True if the next message is to be read: not before the frontend has taken the reply to the last one. */
static bool is_read(const struct relay *relay)
{
    return relay->state == READING && relay->reply_len == 0;
}

static void read_some(struct relay *relay)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(MOST_FDS * sizeof(int))];
    } control;
    while (is_read(relay)) {
        struct iovec part = {.iov_base = relay->message + relay->size, .iov_len = wanted(relay) - relay->size};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
        ssize_t size = recvmsg(relay->sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            return;
        if (size > 0 && !keeper_take_fds(&message, relay->fds, &relay->num_fds, VGC_KEEP_MAX_MESSAGE_FDS))
            relay->flags |= VGC_KEEP_CUT;
        if (size <= 0)
            relay->state = GONE;
        else if ((relay->size += (size_t)size) == wanted(relay))
            relay->state = READ;
    }
}

/* False as of `packet_send`. */
static bool pass_on(struct relay *relay, int sock)
{
    struct vgc_keep_head head = {
        .key_len = (uint32_t)relay->key_len,
        .seq = relay->seq,
        .size = (uint32_t)relay->size,
        .flags = relay->flags,
    };
    if (relay->state == READ) {
        head.type = VGC_KEEP_MESSAGE;
        if (!packet_send(sock, head, relay->key, relay->message, relay->fds, relay->num_fds))
            return false;
        relay->state = PASSED_ON;
    } else if (relay->state == GONE && !relay->is_told) {
        head.type = VGC_KEEP_HANGUP;
        relay->is_told = packet_send(sock, head, relay->key, relay->message, NULL, 0);
        return relay->is_told;
    }
    return true;
}

size_t relay_wait_for(struct pollfd *fds, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < num_relays; i++) {
        short events = (short)((is_read(relays[i]) ? POLLIN : 0) | (relays[i]->reply_len > 0 ? POLLOUT : 0));
        if (events == 0)
            continue;
        if (count < max)
            fds[count] = (struct pollfd){.fd = relays[i]->sock, .events = events};
        count++;
    }
    return count;
}

bool relay_work(int sock)
{
    bool reads = true;
    for (size_t i = 0; i < num_relays; i++) {
        send_reply(relays[i]);
        read_some(relays[i]);
        if (sock >= 0 && reads)
            reads = pass_on(relays[i], sock);
    }
    return reads;
}
