/* test_link.c: frames over a real TCP connection and over a ring whose other end does not read. */
#include "config.h"
#include "unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
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
        atomic_store(&rings[1].entries[0].stamp, UINT64_MAX);
    else
        atomic_store(&rings[0].entry_tail, 1);
    ck_assert_int_eq(link_send(&a, FRAME_MESSAGE, 7, "x", 1, NULL), HVD_OK);
    ck_assert_int_eq(link_next(&a, ALL, &frame, &err), LINK_CORRUPT);
    ck_assert_str_eq(err.text, "impossible positions in their shared ring");
    link_close(&a);
    free(rings);
}
END_TEST

/* ---- Rings that wait ---- */

/* A link to an end that sleeps. */
struct sleeper {
    struct byte_ring *rings;
    _Atomic uint32_t armed;
    int fd;
    struct link link;
};

static void sleeper_new(struct sleeper *sleeper)
{
    size_t bytes = 2 * sizeof(*sleeper->rings);
    sleeper->rings = aligned_alloc(CACHE_LINE_BYTES, bytes);
    memset(sleeper->rings, 0, bytes);
    sleeper->armed = 1;
    sleeper->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    link_open_rings(&sleeper->link, 1, &sleeper->rings[0], &sleeper->rings[1],
                    (struct doorbell_eventfd){&sleeper->armed, sleeper->fd});
}

static void sleeper_free(struct sleeper *sleeper)
{
    link_close(&sleeper->link);
    close(sleeper->fd);
    free(sleeper->rings);
}

/* Was it rung since it was last asked? */
static bool was_rung(struct sleeper *sleeper)
{
    eventfd_t rings;
    return eventfd_read(sleeper->fd, &rings) == 0;
}

static void send_to(struct sleeper *sleeper, enum frame_type type)
{
    ck_assert_int_eq(link_send(&sleeper->link, type, 7, "x", 1, NULL), HVD_OK);
}

static void poll_times(struct sleeper *sleeper, int count)
{
    for (int i = 0; i < count; i++)
        link_poll_ring(&sleeper->link);
}

START_TEST(a_ring_waits_for_polls)
{
    struct sleeper sleeper;
    sleeper_new(&sleeper);
    link_defer_rings(&sleeper.link, true);
    send_to(&sleeper, FRAME_MESSAGE);
    poll_times(&sleeper, LINK_POLLS_TO_RING / 2);
    send_to(&sleeper, FRAME_MESSAGE); /* the first of them counts */
    poll_times(&sleeper, LINK_POLLS_TO_RING / 2 - 1);
    ck_assert(!was_rung(&sleeper) && !link_has_rung(&sleeper.link));
    poll_times(&sleeper, 1);
    ck_assert(was_rung(&sleeper) && link_has_rung(&sleeper.link));
    ck_assert(!link_has_rung(&sleeper.link));
    poll_times(&sleeper, 2 * LINK_POLLS_TO_RING);
    ck_assert(!was_rung(&sleeper));
    sleeper_free(&sleeper);
}
END_TEST

START_TEST(who_woke_by_itself_is_not_rung)
{
    struct sleeper sleeper;
    sleeper_new(&sleeper);
    link_defer_rings(&sleeper.link, true);
    send_to(&sleeper, FRAME_MESSAGE);
    atomic_store(&sleeper.armed, 0);
    poll_times(&sleeper, 1);
    atomic_store(&sleeper.armed, 1); /* it has looked, and sleeps again */
    poll_times(&sleeper, 2 * LINK_POLLS_TO_RING);
    link_defer_rings(&sleeper.link, false);
    ck_assert(!was_rung(&sleeper));
    sleeper_free(&sleeper);
}
END_TEST

/* Each way by which a ring does not wait longer. */
START_TEST(a_ring_that_cannot_wait_comes_at_once)
{
    struct sleeper sleeper;
    sleeper_new(&sleeper);
    link_defer_rings(&sleeper.link, _i > 0);
    send_to(&sleeper, FRAME_MESSAGE);
    ck_assert(was_rung(&sleeper) == (_i == 0));
    if (_i == 1)
        link_defer_rings(&sleeper.link, false);
    else if (_i == 2)
        send_to(&sleeper, FRAME_ABORT);
    else if (_i == 3)
        link_close(&sleeper.link);
    ck_assert(was_rung(&sleeper) == (_i > 0));
    if (_i == 2) { /* nor do those that follow */
        atomic_store(&sleeper.armed, 1);
        send_to(&sleeper, FRAME_MESSAGE);
        ck_assert(was_rung(&sleeper));
    }
    sleeper_free(&sleeper);
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
    tcase_add_test(tcase, a_ring_waits_for_polls);
    tcase_add_test(tcase, who_woke_by_itself_is_not_rung);
    tcase_add_loop_test(tcase, a_ring_that_cannot_wait_comes_at_once, 0, 4);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("link", fill);
}
