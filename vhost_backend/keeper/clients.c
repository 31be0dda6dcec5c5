/* Clients of the keeper's socket: each gives one order, and waits for the line that answers it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "keeper.h"

struct client {
    int sock; /* -1: nobody */
    bool has_asked;
    uint64_t number; /* of clients so far; 0: nobody */
};

static int listener = -1;
static struct client clients[MAX_CLIENTS];

void clients_begin(int sock)
{
    listener = sock;
    for (size_t i = 0; i < MAX_CLIENTS; i++)
        clients[i].sock = -1;
}

void clients_end(void)
{
    struct sockaddr_un address = {0};
    socklen_t size = sizeof(address) - 1;
    if (listener >= 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0 && address.sun_path[0] != '\0')
        (void)unlink(address.sun_path);
}

static void end_client(struct client *client)
{
    keeper_close(client->sock);
    *client = (struct client){.sock = -1};
}

void clients_answer(const char *word, pid_t pid)
{
    char line[32];
    int size =
        pid > 0 ? snprintf(line, sizeof(line), "%s %d\n", word, (int)pid) : snprintf(line, sizeof(line), "%s\n", word);
    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        if (clients[i].sock < 0 || !clients[i].has_asked)
            continue;
        (void)send(clients[i].sock, line, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
        end_client(&clients[i]);
    }
}

/* The place of the next client: a free one, or that of the client that has said nothing for longest; NULL: none. */
static struct client *next_place(void)
{
    struct client *place = NULL;
    for (size_t i = 0; i < MAX_CLIENTS; i++)
        if (!clients[i].has_asked && (place == NULL || clients[i].number < place->number))
            place = &clients[i];
    return place;
}

static void take(void)
{
    static uint64_t taken;
    struct client *place = next_place();
    if (place == NULL)
        return; /* it waits until somebody is answered */
    int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0)
        return;
    if (place->sock >= 0)
        end_client(place);
    *place = (struct client){.sock = sock, .number = ++taken};
}

/* Hears a client's order, and whether it has gone. */
static void hear(struct client *client, bool (*on_order)(char order))
{
    char said[16];
    ssize_t size = recv(client->sock, said, sizeof(said), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) {
        end_client(client);
    } else if (!client->has_asked) {
        client->has_asked = true;
        if (!on_order(said[0]))
            end_client(client);
    }
}

void clients_wait_for(struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = next_place() != NULL ? listener : -1, .events = POLLIN};
    for (size_t i = 0; i < MAX_CLIENTS; i++)
        fds[1 + i] = (struct pollfd){.fd = clients[i].sock, .events = POLLIN};
}

void clients_work(const struct pollfd *fds, bool (*on_order)(char order))
{
    for (size_t i = 0; i < MAX_CLIENTS; i++)
        if (clients[i].sock >= 0)
            hear(&clients[i], on_order);
    if (fds[0].revents != 0)
        take();
}
