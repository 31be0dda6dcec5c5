/* Packets of the keeper's protocol. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper.h"

static char received[VGC_KEEP_MAX_PACKET + 1];

void keeper_say(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    (void)dprintf(STDERR_FILENO, "vgc-keeper: %s\n", line);
}

void *keeper_grown(void *memory, size_t size)
{
    void *grown = realloc(memory, size > 0 ? size : 1);
    if (grown == NULL) {
        keeper_say("no memory for %zu bytes", size);
        abort();
    }
    return grown;
}

/* Keeps all descriptors of this process open until `owner`, its parent, kills it or ends. */
_Noreturn static void hold(pid_t owner)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != owner)
        _exit(0); /* it has ended before */
    for (;;)
        (void)pause();
}

void keeper_close(int fd)
{
    int domain;
    socklen_t size = sizeof(domain);
    const pid_t owner = getpid();
    pid_t holder = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 ? fork() : -1;
    if (holder == 0)
        hold(owner);
    (void)close(fd); /* not the last time, if there is a holder */
    if (holder > 0) {
        (void)kill(holder, SIGKILL); /* sockets do not linger where a process ends */
        (void)waitpid(holder, NULL, 0);
    }
}

bool keeper_take_fds(struct msghdr *message, int *fds, size_t *count, size_t max)
{
    bool has_all = !(message->msg_flags & MSG_CTRUNC);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t there = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < there; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (*count < max) {
                fds[(*count)++] = fd;
            } else {
                keeper_close(fd);
                has_all = false;
            }
        }
    }
    return has_all;
}

enum received packet_receive(int sock, struct packet *packet)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(VGC_KEEP_MAX_FDS * sizeof(int))];
    } control;
    for (;;) {
        struct iovec part = {.iov_base = received, .iov_len = sizeof(received)};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
        ssize_t size = recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (size < 0 && (errno == EINTR || errno == ECONNRESET))
            continue; /* the latter once, if the sender has died without reading all; what it has said is there still */
        if (size < 0)
            return errno == EAGAIN ? NOTHING_YET : ENDED;
        packet->num_fds = 0;
        bool has_all = keeper_take_fds(&message, packet->fds, &packet->num_fds, VGC_KEEP_MAX_FDS);
        if (size == 0)
            return ENDED;
        size_t behind = (size_t)size - sizeof(packet->head);
        if ((size_t)size >= sizeof(packet->head) && (size_t)size <= VGC_KEEP_MAX_PACKET && has_all) {
            memcpy(&packet->head, received, sizeof(packet->head));
            packet->key = received + sizeof(packet->head);
            packet->bytes = packet->key + packet->head.key_len;
            packet->rest = behind - packet->head.key_len;
            if (packet->head.key_len <= VGC_KEEP_MAX_KEY && packet->head.key_len <= behind &&
                packet->head.size <= packet->rest)
                return RECEIVED;
        }
        keeper_say("vgcd sent a packet of %zd bytes that cannot be read; it is left out", size);
        packet_close_fds(packet);
    }
}

void packet_close_fds(struct packet *packet)
{
    for (size_t i = 0; i < packet->num_fds; i++)
        if (packet->fds[i] >= 0)
            keeper_close(packet->fds[i]);
    packet->num_fds = 0;
}

bool packet_send(int sock, struct vgc_keep_head head, const char *key, const void *bytes, const int *fds,
                 size_t num_fds)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(VGC_KEEP_MAX_MESSAGE_FDS * sizeof(int))];
    } control = {0};
    struct iovec parts[] = {
        {.iov_base = &head, .iov_len = sizeof(head)},
        {.iov_base = (void *)(uintptr_t)key, .iov_len = head.key_len},
        {.iov_base = (void *)(uintptr_t)bytes, .iov_len = bytes == NULL ? 0 : head.size},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    if (num_fds > 0) {
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
        memcpy(CMSG_DATA(part), fds, num_fds * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(sock, &message, MSG_NOSIGNAL); /* blocks for SO_SNDTIMEO at most */
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}
