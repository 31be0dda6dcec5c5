/* TCP connections to this machine. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../internal.h"

vgc_handle vgc_socket_connect(uint16_t port)
{
    const int on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return VGC_NO_HANDLE;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return VGC_NO_HANDLE;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

bool vgc_socket_send(vgc_handle socket, const void *bytes, size_t size)
{
    return send((int)socket, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

enum vgc_wakeup vgc_socket_wait(vgc_handle socket, uint64_t timeout_ns)
{
    struct pollfd poll = {.fd = (int)socket, .events = POLLIN};
    struct timespec timeout = {(time_t)(timeout_ns / VGC_NS_PER_S), (long)(timeout_ns % VGC_NS_PER_S)};
    uint8_t bytes[256];
    if (ppoll(&poll, 1, &timeout, NULL) != 1)
        return VGC_WAKEUP_NONE;
    ssize_t got = recv(poll.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0)
        return VGC_WAKEUP_CAME;
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? VGC_WAKEUP_NONE : VGC_WAKEUP_BROKEN;
}

void vgc_socket_close(vgc_handle socket)
{
    (void)close((int)socket);
}
