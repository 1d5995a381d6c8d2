/* test_link.c: frames over a real TCP connection and over a ring whose other end does not read. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/link.h"

#define ALL (FRAME_ALLOW(FRAME_MESSAGE) | FRAME_ALLOW(FRAME_ABORT) | FRAME_ALLOW(FRAME_FAREWELL))

/* Two connected links over TCP; [b] reads slowly: its buffer is small. */
static void links_new(struct link *a, struct link *b)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int small = 4096;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(out, (struct sockaddr *)&address, length), 0);
    int in = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ck_assert_int_ge(in, 0);
    ck_assert_int_eq(fcntl(out, F_SETFL, O_NONBLOCK), 0);
    close(listener);
    link_open_socket(a, 1, out);
    link_open_socket(b, 0, in);
}

/* The next news that is not LINK_NOTHING. */
static enum link_event await_news(struct link *link, struct frame *frame)
{
    enum link_event news = link_next(link, ALL, frame, NULL);
    struct pollfd wait = {.fd = link->fd, .events = POLLIN};
    while (news == LINK_NOTHING && poll(&wait, 1, 5000) == 1)
        news = link_next(link, ALL, frame, NULL);
    return news;
}

START_TEST(what_was_flushed_arrives_though_we_close_at_once)
{
    struct link a, b;
    struct frame frame;
    char bytes[20000];
    memset(bytes, 'x', sizeof(bytes));
    links_new(&a, &b);
    /* left unread: a socket that is closed like this would throw away what it has not sent yet */
    ck_assert_int_eq(link_send(&b, FRAME_MESSAGE, 7, "unread", 6, NULL), HVD_OK);
    ck_assert_int_eq(link_send(&a, FRAME_MESSAGE, 7, bytes, sizeof(bytes), NULL), HVD_OK);
    ck_assert_int_eq(link_send(&a, FRAME_FAREWELL, 7, NULL, 0, NULL), HVD_OK);
    ck_assert(link_flushed(&a));
    link_close(&a);
    ck_assert_int_eq(await_news(&b, &frame), LINK_FRAME);
    ck_assert_uint_eq(frame.length, sizeof(bytes));
    link_release(&b);
    ck_assert_int_eq(await_news(&b, &frame), LINK_FRAME);
    ck_assert_int_eq(frame.type, FRAME_FAREWELL);
    link_release(&b);
    ck_assert_int_eq(await_news(&b, &frame), LINK_ENDED);
    ck_assert(!link_has_partial_frame(&b));
    link_close(&b);
    link_close(&b); /* closed is fine */
}
END_TEST

START_TEST(send_never_waits_for_the_reader)
{
    struct link a, b;
    struct frame frame;
    size_t length = 3 << 20;
    char *bytes = malloc(length);
    memset(bytes, 'y', length);
    links_new(&a, &b);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(link_send(&a, FRAME_MESSAGE, 7, bytes, length, NULL), HVD_OK);
    ck_assert(!link_flushed(&a));
    for (int i = 0; i < 8; i++) {
        enum link_event news = LINK_NOTHING;
        while (news == LINK_NOTHING) {
            struct pollfd wait = {.fd = b.fd, .events = POLLIN};
            link_flush(&a);
            news = link_next(&b, ALL, &frame, NULL);
            ck_assert(news != LINK_NOTHING || !link_flushed(&a) || poll(&wait, 1, 5000) == 1);
        }
        ck_assert_int_eq(news, LINK_FRAME);
        ck_assert_uint_eq(frame.length, length);
        ck_assert_mem_eq(frame.payload, bytes, length);
        link_release(&b);
    }
    ck_assert(link_flushed(&a));
    ck_assert_uint_eq(a.unsent.capacity, 0); /* large buffers are not kept */
    ck_assert_uint_eq(b.received.capacity, 0);
    free(bytes);
    link_close(&a);
    link_close(&b);
}
END_TEST

START_TEST(sending_to_who_is_gone_is_harmless)
{
    struct link a, b;
    struct frame frame;
    links_new(&a, &b);
    link_close(&b);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(link_send(&a, FRAME_MESSAGE, 7, "lost", 4, NULL), HVD_OK);
        poll(NULL, 0, 1);
    }
    ck_assert(link_flushed(&a));
    ck_assert_int_eq(await_news(&a, &frame), LINK_ENDED);
    link_close(&a);
    ck_assert_int_eq(link_send(&a, FRAME_MESSAGE, 7, "lost", 4, NULL), HVD_OK);
    ck_assert_int_eq(link_next(&a, ALL, &frame, NULL), LINK_NOTHING);
    link_close(&a);
}
END_TEST

START_TEST(memory_grows_by_what_came_not_by_what_is_announced)
{
    struct link a, b;
    struct frame frame;
    unsigned char header[FRAME_HEADER_BYTES];
    links_new(&a, &b);
    frame_encode(header, FRAME_MESSAGE, 7, (size_t)FRAME_MESSAGE_BYTES);
    ck_assert_int_eq(write(a.fd, header, sizeof(header)), sizeof(header));
    struct pollfd wait = {.fd = b.fd, .events = POLLIN};
    ck_assert_int_eq(poll(&wait, 1, 5000), 1);
    ck_assert_int_eq(link_next(&b, ALL, &frame, NULL), LINK_NOTHING);
    ck_assert_uint_le(b.received.capacity, 8192);
    link_close(&a);
    ck_assert_int_eq(await_news(&b, &frame), LINK_ENDED);
    ck_assert(link_has_partial_frame(&b));
    link_close(&b);
}
END_TEST

START_TEST(spoilt_ring_is_reported)
{
    struct byte_ring *rings = aligned_alloc(CACHE_LINE_BYTES, 2 * sizeof(*rings));
    _Atomic uint32_t armed = 0;
    struct link a;
    struct frame frame;
    struct hvd_error err = {""};
    memset(rings, 0, 2 * sizeof(*rings));
    link_init(&a);
    link_open_rings(&a, 1, &rings[0], &rings[1], (struct doorbell_eventfd){&armed, -1});
    if (_i == 0)
        atomic_store(&rings[1].head, BYTE_RING_BYTES + 1);
    else
        atomic_store(&rings[0].tail, 1);
    ck_assert_int_eq(link_send(&a, FRAME_MESSAGE, 7, "x", 1, NULL), HVD_OK);
    ck_assert_int_eq(link_next(&a, ALL, &frame, &err), LINK_CORRUPT);
    ck_assert_str_eq(err.text, "impossible positions in their shared ring");
    link_close(&a);
    free(rings);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("link");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, what_was_flushed_arrives_though_we_close_at_once);
    tcase_add_test(tcase, send_never_waits_for_the_reader);
    tcase_add_test(tcase, sending_to_who_is_gone_is_harmless);
    tcase_add_test(tcase, memory_grows_by_what_came_not_by_what_is_announced);
    tcase_add_loop_test(tcase, spoilt_ring_is_reported, 0, 2);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("link", fill);
}
