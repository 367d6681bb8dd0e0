/* A provider that answers at once: one thread, epoll, so that it is never the bottleneck.
 *
 * It listens at a free port of 127.0.0.1 and prints the port. A request whose body asks for a
 * stream gets 50 server-sent events, one a millisecond; any other a chat completion of about 700
 * bytes. It ends with its parent, and drops a client that does not read.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { MOST_CLIENTS = 4096, EVENTS = 50, TICK_NS = 1000000, ROOM = 1 << 16, MOST_BYTES = 1 << 25 };

struct client {
    char *bytes; /* received and not yet answered */
    size_t size, room;
    int events_left; /* of the stream under way; 0 when there is none */
};

static struct client clients[MOST_CLIENTS];
static int streams; /* how many clients are being streamed to */
static int poller, listener, ticker;

static char answer[2048], stream_head[512], event[512], last_event[1024];
static size_t answer_size, stream_head_size, event_size, last_event_size;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void write_answers(void)
{
    char body[1400], data[700];
    int size = snprintf(body, sizeof body,
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1800000000,"
        "\"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
        "\"content\":\"%s\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
        "\"usage\":{\"prompt_tokens\":180,\"completion_tokens\":60,\"total_tokens\":240,"
        "\"prompt_tokens_details\":{\"cached_tokens\":0}},\"service_tier\":\"default\"}",
        "The invoice was sent twice because the first call timed out while the second was under "
        "way. The customer has paid one of them, and the other is marked as void. Nothing is left "
        "to do but to tell the customer so, and to raise the time limit of the billing tool.");
    answer_size = snprintf(answer, sizeof answer,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        "x-request-id: req_bench\r\n\r\n%s", size, body);
    stream_head_size = snprintf(stream_head, sizeof stream_head,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        "Transfer-Encoding: chunked\r\nx-request-id: req_bench\r\n\r\n");
    size = snprintf(data, sizeof data,
        "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\","
        "\"created\":1800000000,\"model\":\"gpt-4o-mini\",\"choices\":[{\"index\":0,"
        "\"delta\":{\"content\":\" invoice\"},\"finish_reason\":null}]}\n\n");
    event_size = snprintf(event, sizeof event, "%x\r\n%s\r\n", size, data);
    size = snprintf(data, sizeof data,
        "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\","
        "\"created\":1800000000,\"model\":\"gpt-4o-mini\",\"choices\":[],\"usage\":"
        "{\"prompt_tokens\":180,\"completion_tokens\":49,\"total_tokens\":229}}\n\n"
        "data: [DONE]\n\n");
    last_event_size = snprintf(last_event, sizeof last_event, "%x\r\n%s\r\n0\r\n\r\n", size, data);
}

static void set_ticking(int on)
{
    long tick = on ? TICK_NS : 0;
    struct itimerspec every = { { 0, tick }, { 0, tick } };
    timerfd_settime(ticker, 0, &every, NULL);
}

static void end_stream(struct client *client)
{
    client->events_left = 0;
    if (--streams == 0)
        set_ticking(0);
}

static void drop(int socket)
{
    struct client *client = &clients[socket];
    if (client->events_left)
        end_stream(client);
    client->size = 0;
    close(socket);
}

static int send_all(int socket, const char *bytes, size_t size)
{
    if (send(socket, bytes, size, MSG_NOSIGNAL) == (ssize_t)size)
        return 1;
    drop(socket);
    return 0;
}

/* Return the size of the first request that has arrived whole, or 0. */
static size_t whole_request(const struct client *client, int *wants_stream)
{
    const char *start = client->bytes;
    const char *end = client->size ? memmem(start, client->size, "\r\n\r\n", 4) : NULL;
    if (end == NULL)
        return 0;
    size_t body_size = 0, here = client->size - (end + 4 - start);
    int chunked = 0;
    for (const char *line = start; line < end;) {
        if (!strncasecmp(line, "content-length:", 15))
            body_size = strtoul(line + 15, NULL, 10);
        else if (!strncasecmp(line, "transfer-encoding:", 18))
            chunked = 1;
        line = (const char *)memmem(line, end + 2 - line, "\r\n", 2) + 2;
    }
    const char *body = end + 4;
    if (chunked) {
        const char *last = memmem(body, here, "0\r\n\r\n", 5);
        if (last == NULL)
            return 0;
        body_size = last + 5 - body;
    }
    if (here < body_size)
        return 0;
    *wants_stream = memmem(body, body_size, "\"stream\":true", 13) != NULL
        || memmem(body, body_size, "\"stream\": true", 14) != NULL;
    return body + body_size - start;
}

static void answer_requests(int socket)
{
    struct client *client = &clients[socket];
    int wants_stream = 0;
    size_t size;
    while (!client->events_left && (size = whole_request(client, &wants_stream)) > 0) {
        client->size -= size;
        memmove(client->bytes, client->bytes + size, client->size);
        if (!wants_stream) {
            if (!send_all(socket, answer, answer_size))
                return;
        } else if (send_all(socket, stream_head, stream_head_size)) {
            client->events_left = EVENTS;
            if (streams++ == 0)
                set_ticking(1);
        } else
            return;
    }
}

static void receive(int socket)
{
    struct client *client = &clients[socket];
    for (;;) {
        if (client->room - client->size < ROOM) {
            if (client->room >= MOST_BYTES) {
                drop(socket);
                return;
            }
            client->room = client->room ? client->room * 2 : 2 * ROOM;
            client->bytes = realloc(client->bytes, client->room);
            if (client->bytes == NULL)
                die("realloc");
        }
        size_t room = client->room - client->size;
        ssize_t got = recv(socket, client->bytes + client->size, room, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            drop(socket);
            return;
        }
        if (got > 0)
            client->size += got;
        if (got < (ssize_t)room)
            break;
    }
    answer_requests(socket);
}

static void tick(void)
{
    uint64_t passed;
    if (read(ticker, &passed, sizeof passed) < 0)
        return;
    int left = streams;
    for (int socket = 0; socket < MOST_CLIENTS && left > 0; socket++) {
        struct client *client = &clients[socket];
        if (!client->events_left)
            continue;
        left--;
        if (client->events_left > 1) {
            if (send_all(socket, event, event_size))
                client->events_left--;
        } else if (send_all(socket, last_event, last_event_size)) {
            end_stream(client);
            answer_requests(socket);
        }
    }
}

static void welcome(void)
{
    int socket, on = 1;
    while ((socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (socket >= MOST_CLIENTS) {
            close(socket);
            continue;
        }
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event watch = { .events = EPOLLIN, .data.fd = socket };
        epoll_ctl(poller, EPOLL_CTL_ADD, socket, &watch);
    }
}

int main(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t address_size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    write_answers();
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096))
        die("listen");
    getsockname(listener, (struct sockaddr *)&address, &address_size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    poller = epoll_create1(0);
    ticker = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    for (int i = 0; i < 2; i++) {
        int watched = i ? ticker : listener;
        struct epoll_event watch = { .events = EPOLLIN, .data.fd = watched };
        epoll_ctl(poller, EPOLL_CTL_ADD, watched, &watch);
    }
    for (;;) {
        struct epoll_event ready[256];
        int count = epoll_wait(poller, ready, 256, -1);
        for (int i = 0; i < count; i++) {
            int socket = ready[i].data.fd;
            if (socket == listener)
                welcome();
            else if (socket == ticker)
                tick();
            else
                receive(socket);
        }
    }
}
