/* TCP connections to this machine. */
#include "win32.h"

static SOCKET socket_of(vgc_handle handle)
{
    return (SOCKET)handle;
}

static void start_sockets(void)
{
    WSADATA data;
    (void)WSAStartup(MAKEWORD(2, 2), &data); /* if it fails, so does socket() */
}

vgc_handle vgc_socket_connect(uint16_t port)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const BOOL on = TRUE;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    (void)pthread_once(&once, start_sockets);
    SOCKET handle = WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0, WSA_FLAG_NO_HANDLE_INHERIT);
    if (handle != INVALID_SOCKET && connect(handle, (struct sockaddr *)&address, sizeof(address)) == 0) {
        (void)setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, (const char *)&on, sizeof(on));
        return (vgc_handle)handle;
    }
    (void)vgc_failed_with((DWORD)WSAGetLastError());
    if (handle != INVALID_SOCKET)
        (void)closesocket(handle);
    return VGC_NO_HANDLE;
}

bool vgc_socket_send(vgc_handle socket, const void *bytes, size_t size)
{
    return send(socket_of(socket), bytes, (int)size, 0) == (int)size || vgc_failed_with((DWORD)WSAGetLastError());
}

enum vgc_wakeup vgc_socket_wait(vgc_handle socket, uint64_t timeout_ns)
{
    WSAPOLLFD poll = {.fd = socket_of(socket), .events = POLLIN};
    uint64_t timeout_ms = (timeout_ns + VGC_NS_PER_MS - 1) / VGC_NS_PER_MS;
    char bytes[256];
    if (WSAPoll(&poll, 1, (int)VGC_MIN(timeout_ms, 1u << 30)) != 1)
        return VGC_WAKEUP_NONE;
    return recv(poll.fd, bytes, sizeof(bytes), 0) > 0 ? VGC_WAKEUP_CAME : VGC_WAKEUP_BROKEN;
}

void vgc_socket_close(vgc_handle socket)
{
    (void)closesocket(socket_of(socket));
}
