/* Second process of a program, at the other end of a socket. */
#pragma once
#include "check.h"
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct Peer {
    pid_t pid = -1; /* of the child, in the parent */
    int fd = -1;

    void send(const void *data, size_t size) const
    {
        if (write(fd, data, size) != (ssize_t)size)
            fail("the other process takes nothing");
    }

    void receive(void *data, size_t size) const
    {
        if (recv(fd, data, size, MSG_WAITALL) != (ssize_t)size)
            fail("the other process says nothing");
    }

    /* Each of the two goes on when both are here. */
    void meet() const
    {
        char word = 'x';
        send(&word, 1);
        receive(&word, 1);
    }

    /* The child's exit status; -1 if it was killed. */
    int wait()
    {
        int status = -1;
        close(fd);
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
            return -1;
        return WEXITSTATUS(status);
    }

  private:
    static void fail(const char *what)
    {
        printf("FAIL %s\n", what);
        fflush(stdout);
        _exit(1);
    }
};

/* A copy of this process, in which it returns as well: with pid 0 there. */
static inline Peer fork_peer()
{
    int ends[2];
    Peer peer;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        abort();
    peer.pid = fork();
    peer.fd = ends[peer.pid == 0];
    close(ends[peer.pid != 0]);
    return peer;
}

/* Runs the program in a new process, whose first argument is the number of its socket. */
static inline Peer exec_peer(const char *program)
{
    Peer peer = fork_peer();
    if (peer.pid != 0)
        return peer;
    char number[16];
    snprintf(number, sizeof number, "%d", peer.fd);
    execl(program, program, number, (char *)NULL);
    _exit(127);
}
