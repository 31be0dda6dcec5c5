/* vgc-keeper PROGRAM...: runs vgcd, and keeps for it what must not end when vgcd does.
 *
 * It holds the connections of the frontends and passes their messages on one by one, and it holds descriptors and
 * records that vgcd leaves with it. When vgcd dies or hangs, a spare that has loaded its modules already gets all of
 * it, within milliseconds. SIGUSR2 has vgcd replaced by the program as it is on disk now; one that does not start
 * leaves the present one in its place. All other signals are vgcd's. Guest code never reaches this process: it reads no
 * shared memory, and of a frontend's messages the length alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keeper.h"

#define SOCKET_BYTES (4 << 20)
#define SEND_PATIENCE_S 5       /* a daemon that reads nothing for this time is killed */
#define FIXED (4 + CLIENTS_FDS) /* descriptors that are always waited for: signals, three daemons, clients */
#define FIRST_DELAY_MS 100
#define LONGEST_DELAY_MS 5000
#define QUICK_DEATH_MS 10000 /* a spare that has lived for longer says nothing about the next one */
#define PROMPT_STARTS 3      /* quick deaths of spares in a row after which the next one starts at once */
#define FD_ENVIRONMENT "VGC_KEEPER_FD"
#define VERSION_ENVIRONMENT "VGC_KEEPER_VERSION"
#define LISTEN_ENVIRONMENT "VGC_KEEPER_LISTEN"
#ifndef START_PATIENCE_MS
#define START_PATIENCE_MS 60000 /* a daemon that loads, or takes over, and says nothing for this time is killed */
#endif
#ifndef SERVE_PATIENCE_MS
#define SERVE_PATIENCE_MS 60000 /* likewise one that serves, and has said that it is alive before */
#endif
#define LOOK_MS (SERVE_PATIENCE_MS / 10) /* a wait lasts no longer while a daemon is to say something */
#define OVERSLEPT_MS 1000  /* by so much longer a wait took than it should, if the host has run nobody meanwhile */
#define LONGEST_PATIENCE 4 /* it is doubled so often at most, whenever a daemon has been killed for it */

struct daemon {
    pid_t pid; /* 0: none */
    int sock;
    bool has_loaded;  /* it said HELLO */
    bool serves;      /* it said READY */
    bool takes_over;  /* it replaces the present one once it has loaded */
    bool ends;        /* it said END */
    uint32_t version; /* of its records */
    int64_t started_ms;
    int64_t due_ms; /* when it is to have said something; 0: at no time */
};

static struct daemon active, following; /* `following`: the spare, or one that takes over when the active has ended */
static struct daemon candidate;         /* the program on disk, which is to take over once it has loaded */
static char **program;
static sigset_t original_mask;
static bool is_ending, has_served, wants_following;
static bool replaces_later; /* the present daemon is to be replaced as soon as it serves */
static int failures;        /* starts in a row that came to nothing, but for spares */
static int spare_deaths;    /* quick ones in a row */
static int64_t start_at_ms;
static int late; /* daemons that were killed for saying nothing, since one has served */

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Has a daemon say something soon. */
static void expect(struct daemon *daemon)
{
    const int64_t patience_ms = daemon->serves
                                    ? SERVE_PATIENCE_MS
                                    : (int64_t)START_PATIENCE_MS << (late < LONGEST_PATIENCE ? late : LONGEST_PATIENCE);
    daemon->due_ms = now_ms() + patience_ms;
}

/* Gives daemons the time in which this process did not run: a host that was paused, or a service that was frozen.
 * `most_ms`: the longest wait since the last call; the work since then takes no time worth mentioning. */
static void forgive(int64_t at_ms, int most_ms)
{
    static int64_t last_ms;
    struct daemon *const daemons[] = {&active, &following, &candidate};
    const int64_t lost_ms = at_ms - last_ms - most_ms;
    last_ms = at_ms;
    if (most_ms < 0 || lost_ms < OVERSLEPT_MS)
        return;
    for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
        if (daemons[i]->due_ms != 0)
            daemons[i]->due_ms += lost_ms;
}

/* Ends a daemon that does not serve, if there is one. */
static void end_idle(struct daemon *daemon)
{
    if (daemon->pid == 0)
        return;
    (void)kill(daemon->pid, SIGKILL);
    (void)waitpid(daemon->pid, NULL, 0);
    if (daemon->sock >= 0)
        (void)close(daemon->sock);
    *daemon = (struct daemon){.sock = -1};
}

_Noreturn static void leave(int status)
{
    end_idle(&following);
    end_idle(&candidate);
    clients_end();
    exit(status);
}

_Noreturn static void run_program(int sock)
{
    char number[16];
    (void)snprintf(number, sizeof(number), "%d", sock);
    (void)fcntl(sock, F_SETFD, 0);
    (void)setenv(FD_ENVIRONMENT, number, 1);
    if (active.has_loaded) {
        (void)snprintf(number, sizeof(number), "%u", active.version);
        (void)setenv(VERSION_ENVIRONMENT, number, 1);
    } else {
        (void)unsetenv(VERSION_ENVIRONMENT);
    }
    const char *listener = getenv("LISTEN_PID"); /* [sd_listen_fds(3)] */
    if (listener != NULL && strtol(listener, NULL, 10) == (long)getppid()) {
        (void)snprintf(number, sizeof(number), "%d", (int)getpid());
        (void)setenv("LISTEN_PID", number, 1);
    }
    (void)setpgid(0, 0); /* a terminal's signals are the keeper's */
    (void)sigprocmask(SIG_SETMASK, &original_mask, NULL);
    execvp(program[0], program);
    keeper_say("cannot run %s: %s", program[0], strerror(errno));
    _exit(127);
}

/* Starts a daemon; false: the host cannot. */
static bool start(struct daemon *daemon, bool takes_over)
{
    const struct timeval patience = {.tv_sec = SEND_PATIENCE_S};
    const int size = SOCKET_BYTES;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        keeper_say("cannot start vgcd: %s", strerror(errno));
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (setsockopt(pair[i], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
            (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    pid_t pid = fork();
    if (pid == 0)
        run_program(pair[1]);
    (void)close(pair[1]);
    if (pid < 0) {
        keeper_say("cannot start vgcd: %s", strerror(errno));
        (void)close(pair[0]);
        return false;
    }
    *daemon = (struct daemon){.pid = pid, .sock = pair[0], .takes_over = takes_over, .started_ms = now_ms()};
    if (has_served)
        expect(daemon);
    return true;
}

static void forget(struct daemon *daemon)
{
    if (daemon->sock >= 0)
        (void)close(daemon->sock);
    *daemon = (struct daemon){.sock = -1};
}

/* Delays the next start, ever longer the more starts before have been delayed; returns by how much. */
static int64_t delay_start(int delayed)
{
    int64_t delay = (int64_t)FIRST_DELAY_MS << (delayed < 8 ? delayed : 8);
    delay = delay < LONGEST_DELAY_MS ? delay : LONGEST_DELAY_MS;
    start_at_ms = now_ms() + delay;
    return delay;
}

/* Has a daemon that has loaded serve: it gets the store and the connections. */
static void put_in_charge(struct daemon *daemon)
{
    struct vgc_keep_head go = {.type = VGC_KEEP_GO};
    if (has_served)
        expect(daemon);
    if (!store_send(daemon->sock) || !relay_send_all(daemon->sock) ||
        !packet_send(daemon->sock, go, NULL, NULL, NULL, 0))
        (void)kill(daemon->pid, SIGKILL); /* its end is handled as any other */
}

static void replace(void);

/* Has a daemon end on purpose: one that serves takes sockets and groups of its own along. */
static void stop(struct daemon *daemon, int number)
{
    struct vgc_keep_head order = {.type = VGC_KEEP_STOP};
    if (!daemon->serves || !packet_send(daemon->sock, order, NULL, NULL, NULL, 0))
        (void)kill(daemon->pid, number);
}

/* Kills a daemon that has not said anything for too long: its successor is started. */
static void end_if_late(struct daemon *daemon, int64_t at_ms)
{
    if (daemon->pid == 0 || daemon->due_ms == 0 || at_ms < daemon->due_ms)
        return;
    if (daemon->serves) {
        keeper_say("vgcd hangs, and is killed (pid %d)", (int)daemon->pid);
    } else {
        keeper_say("vgcd does not get ready, and is killed (pid %d)", (int)daemon->pid);
        late++;
    }
    daemon->due_ms = 0;
    (void)kill(daemon->pid, SIGKILL); /* its end is handled as any other */
}

/* ---- what daemons say ----------------------------------------------------------------------------------------- */

static void do_op(struct packet *packet, struct vgc_keep_op op, const char *key, const char *blob)
{
    int fd = -1;
    if (op.fd >= 0) {
        fd = packet->fds[op.fd];
        packet->fds[op.fd] = -1;
    }
    if (op.kind == VGC_KEEP_PUT) {
        store_put(key, op.key_len, blob, op.blob_len, fd);
    } else if (op.kind == VGC_KEEP_ADD_RELAY) {
        relay_add(key, op.key_len, fd);
    } else {
        store_drop(key, op.key_len);
        relay_drop(key, op.key_len);
    }
}

/* Reads the operation at `*at`; false: the packet has no whole one there, or it makes no sense. `*fds`: descriptors
 * that those before have used, which is one after the other. */
static bool next_op(const struct packet *packet, size_t *at, size_t *fds, struct vgc_keep_op *op, const char **key,
                    const char **blob)
{
    if (packet->rest - *at < sizeof(*op))
        return false;
    memcpy(op, packet->bytes + *at, sizeof(*op));
    *at += sizeof(*op);
    if (op->key_len == 0 || op->key_len > VGC_KEEP_MAX_KEY || op->key_len > packet->rest - *at ||
        op->blob_len > packet->rest - *at - op->key_len)
        return false;
    if (op->fd >= 0 && ((size_t)op->fd != *fds || ++*fds > packet->num_fds))
        return false;
    switch (op->kind) {
    case VGC_KEEP_PUT:
        break;
    case VGC_KEEP_ADD_RELAY:
        if (op->fd < 0)
            return false;
        break;
    case VGC_KEEP_DROP:
        if (op->fd >= 0)
            return false;
        break;
    default:
        return false;
    }
    *key = packet->bytes + *at;
    *blob = *key + op->key_len;
    *at += op->key_len + (size_t)op->blob_len;
    return true;
}

static void commit(struct packet *packet)
{
    const struct vgc_keep_head *head = &packet->head;
    struct vgc_keep_op op;
    const char *key, *blob;
    size_t at = head->size, fds = 0;
    if (head->key_len > 0 && !relay_has_open(packet->key, head->key_len, head->seq))
        return; /* the frontend has gone meanwhile, and its entries with it or soon */
    for (uint32_t i = 0; i < head->flags; i++)
        if (!next_op(packet, &at, &fds, &op, &key, &blob)) {
            keeper_say("vgcd sent a commit that cannot be read; it is left out");
            return;
        }
    at = head->size;
    fds = 0;
    for (uint32_t i = 0; i < head->flags; i++)
        if (next_op(packet, &at, &fds, &op, &key, &blob))
            do_op(packet, op, key, blob);
    if (head->key_len > 0)
        (void)relay_answer(packet->key, head->key_len, head->seq, packet->bytes, head->size);
}

static void on_hello(struct daemon *daemon, uint32_t version)
{
    daemon->has_loaded = true;
    daemon->due_ms = 0;
    daemon->version = version;
    if (daemon == &active)
        put_in_charge(daemon);
    if (daemon != &candidate)
        return;
    end_idle(&following); /* a spare of the old program */
    following = candidate;
    candidate = (struct daemon){.sock = -1};
    if (active.pid > 0)
        (void)kill(active.pid, SIGKILL); /* all that counts is here: nothing is gained by waiting */
}

static void on_ready(struct daemon *daemon)
{
    daemon->serves = has_served = wants_following = true;
    failures = late = 0;
    daemon->due_ms = 0;
    if (is_ending) {
        stop(daemon, SIGTERM);
    } else if (replaces_later) {
        replaces_later = false;
        replace();
    } else if (candidate.pid == 0) {
        clients_answer("serving", daemon->pid);
    }
}

/* Handles all that a daemon has said so far. */
static void hear(struct daemon *daemon)
{
    static struct packet packet;
    enum received result = NOTHING_YET;
    while (daemon->sock >= 0 && (result = packet_receive(daemon->sock, &packet)) == RECEIVED) {
        if (daemon->due_ms != 0)
            expect(daemon);
        if (packet.head.type == VGC_KEEP_HELLO)
            on_hello(daemon, packet.head.seq);
        else if (daemon == &active && packet.head.type == VGC_KEEP_READY)
            on_ready(daemon);
        else if (daemon == &active && packet.head.type == VGC_KEEP_COMMIT)
            commit(&packet);
        else if (daemon == &active && packet.head.type == VGC_KEEP_END)
            daemon->ends = true;
        else if (daemon == &active && daemon->serves && packet.head.type == VGC_KEEP_ALIVE)
            expect(daemon);
        packet_close_fds(&packet);
    }
    if (daemon->sock >= 0 && result == ENDED) {
        (void)close(daemon->sock);
        daemon->sock = -1; /* its end follows */
    }
}

/* ---- ends of processes ---------------------------------------------------------------------------------------- */

static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void promote(void)
{
    active = following;
    following = (struct daemon){.sock = -1};
    active.takes_over = false;
    put_in_charge(&active);
}

static void on_active_end(int status)
{
    hear(&active);
    bool did_serve = active.serves, ends = active.ends;
    forget(&active);
    if (ends || (!has_served && !relay_any()) || (is_ending && !did_serve))
        leave(exit_code(status));
    if (!following.takes_over)
        keeper_say("vgcd has ended (%s %d); the next one takes over", WIFEXITED(status) ? "exit code" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    if (following.has_loaded && (did_serve || following.takes_over)) {
        promote();
        return;
    }
    if (!did_serve)
        (void)delay_start(failures++);
    else
        start_at_ms = now_ms();
}

static void on_following_end(int status)
{
    bool was_quick = now_ms() - following.started_ms < QUICK_DEATH_MS;
    hear(&following);
    forget(&following);
    wants_following = true;
    spare_deaths = was_quick ? spare_deaths + 1 : 0;
    int64_t delay = 0;
    if (spare_deaths > PROMPT_STARTS)
        delay = delay_start(spare_deaths - PROMPT_STARTS - 1);
    else if (active.pid > 0)
        start_at_ms = now_ms();
    keeper_say("a spare vgcd has ended (%s %d); the next one starts in %d ms",
               WIFEXITED(status) ? "exit code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
               (int)delay);
}

static void on_candidate_end(int status)
{
    hear(&candidate);
    forget(&candidate);
    keeper_say("the new vgcd did not start (%s %d); the present one goes on",
               WIFEXITED(status) ? "exit code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    clients_answer("refused", active.pid);
}

static void reap(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == active.pid) {
            on_active_end(status);
        } else if (pid == following.pid) {
            on_following_end(status);
        } else if (pid == candidate.pid) {
            on_candidate_end(status);
        } else if (active.pid > 0 && active.has_loaded) {
            struct vgc_keep_head head = {.type = VGC_KEEP_EXIT, .seq = (uint32_t)pid, .flags = (uint32_t)status};
            (void)packet_send(active.sock, head, NULL, NULL, NULL, 0);
        }
    }
}

/* ---- signals and time ----------------------------------------------------------------------------------------- */

static void replace(void)
{
    if (is_ending)
        return; /* a successor would have the present daemon killed while it takes down what is its own */
    if (active.pid == 0 || !active.serves) {
        replaces_later = true;
        return;
    }
    if (candidate.pid > 0)
        keeper_say("vgcd is being replaced already");
    else if (!start(&candidate, true))
        clients_answer("refused", active.pid);
}

static void finish(int number)
{
    is_ending = true;
    end_idle(&candidate);
    if (active.pid == 0 && !has_served)
        leave(0);
    if (active.pid == 0 || (has_served && !active.serves))
        return; /* the next daemon ends once it serves: sockets and groups are there, which it takes along */
    if (!following.has_loaded)
        end_idle(&following);
    stop(&active, number);
}

/* Follows an order; false: there is no such order, or it comes too late. */
static bool on_order(char order)
{
    if (order == VGC_KEEP_FINISH)
        finish(SIGTERM);
    else if (order == VGC_KEEP_REPLACE && !is_ending)
        replace();
    else
        return false;
    return true;
}

static void on_signal(int number)
{
    if (number == SIGCHLD) {
        reap();
        return;
    }
    if (number == SIGUSR2) {
        replace();
        return;
    }
    if (number == SIGTERM || number == SIGINT)
        finish(number);
    else if (active.pid > 0)
        (void)kill(active.pid, number);
}

static void read_signals(int signals)
{
    struct signalfd_siginfo next;
    while (read(signals, &next, sizeof(next)) == (ssize_t)sizeof(next))
        on_signal((int)next.ssi_signo);
}

static void start_what_is_due(void)
{
    if (now_ms() < start_at_ms)
        return;
    if (active.pid == 0) {
        if (following.has_loaded)
            promote();
        else if (following.pid == 0 && !start(&active, false))
            (void)delay_start(failures++);
        return; /* a spare that loads still will be promoted */
    }
    if (wants_following && active.serves && following.pid == 0 && !is_ending) {
        wants_following = false;
        if (!start(&following, false)) {
            wants_following = true;
            (void)delay_start(failures++);
        }
    }
}

/* Time until `at_ms`, but `before` at most, which is negative for no time. */
static int64_t sooner(int64_t before, int64_t at_ms)
{
    int64_t left = at_ms - now_ms();
    left = left > 0 ? left : 0;
    return before < 0 || left < before ? left : before;
}

static int wait_ms(void)
{
    bool can_promote = active.pid == 0 && following.has_loaded;
    bool wants_spare = active.serves && wants_following && !is_ending;
    bool has_to_start = can_promote || (following.pid == 0 && (active.pid == 0 || wants_spare));
    int64_t left = has_to_start ? sooner(-1, start_at_ms) : -1;
    const struct daemon *daemons[] = {&active, &following, &candidate};
    const int64_t look_ms = now_ms() + LOOK_MS;
    for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
        if (daemons[i]->pid != 0 && daemons[i]->due_ms != 0)
            left = sooner(left, daemons[i]->due_ms < look_ms ? daemons[i]->due_ms : look_ms);
    return left > INT_MAX ? INT_MAX : (int)left;
}

static int open_signals(void)
{
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD};
    sigset_t mask;
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
        sigaddset(&mask, handled[i]);
    (void)sigprocmask(SIG_BLOCK, &mask, &original_mask);
    return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    static struct pollfd *fds;
    static size_t room = 64;
    if (argc < 2) {
        keeper_say("no program to run; allowed: vgc-keeper PROGRAM...");
        return 2;
    }
    program = argv + 1;
    active.sock = following.sock = candidate.sock = -1;
    int listener = -1;
    const char *number = getenv(LISTEN_ENVIRONMENT);
    if (number != NULL) {
        listener = (int)strtol(number, NULL, 10);
        (void)fcntl(listener, F_SETFD, FD_CLOEXEC);
        (void)unsetenv(LISTEN_ENVIRONMENT);
    }
    clients_begin(listener);
    raise_file_limit();
    int signals = open_signals();
    if (signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        keeper_say("cannot start: %s", strerror(errno));
        return 3;
    }
    fds = keeper_grown(NULL, (room + FIXED) * sizeof(*fds));
    if (!start(&active, false))
        return 3;
    for (;;) {
        fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = active.sock, .events = POLLIN};
        fds[2] = (struct pollfd){.fd = following.sock, .events = POLLIN};
        fds[3] = (struct pollfd){.fd = candidate.sock, .events = POLLIN};
        clients_wait_for(fds + 4);
        size_t relays = relay_wait_for(fds + FIXED, room);
        if (relays > room) {
            room = 2 * relays;
            fds = keeper_grown(fds, (room + FIXED) * sizeof(*fds));
            continue;
        }
        const int most_ms = wait_ms();
        if (poll(fds, FIXED + relays, most_ms) < 0 && errno != EINTR) {
            keeper_say("poll: %s", strerror(errno));
            return 3;
        }
        const int64_t at_ms = now_ms();
        forgive(at_ms, most_ms);
        hear(&active);
        hear(&following);
        hear(&candidate);
        read_signals(signals);
        clients_work(fds + 4, on_order);
        end_if_late(&active, at_ms);
        end_if_late(&following, at_ms);
        end_if_late(&candidate, at_ms);
        start_what_is_due();
        if (!relay_work(active.has_loaded ? active.sock : -1) && active.pid > 0)
            (void)kill(active.pid, SIGKILL); /* it does not read: the next one gets the same messages */
    }
}
