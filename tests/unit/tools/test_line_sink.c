/* test_line_sink.c: lines of events for readers that are slow, stop, go away and come back. */
#include "config.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "temp_folder.h"
#include "tools/hvdrun/events/line_sink.h"

static struct line_sink sink;
static char path[200], where[210];

static int listen_at_path(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(path);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static void put(const char *line)
{
    line_sink_put(&sink, line, strlen(line));
}

static void expect_read(int fd, const char *expected)
{
    char bytes[256];
    ssize_t count = read(fd, bytes, sizeof(bytes) - 1);
    ck_assert_int_ge(count, 0);
    bytes[count] = 0;
    ck_assert_str_eq(bytes, expected);
}

static void open_sink(void)
{
    struct hvd_error err;
    ck_assert_msg(line_sink_open(&sink, where, &err) == HVD_OK, "%s", err.text);
}

START_TEST(a_file_is_appended_to)
{
    char bytes[64] = "";
    snprintf(where, sizeof(where), "%s/lines", folder);
    for (int i = 0; i < 2; i++) {
        open_sink();
        put("one\n");
        put("two\n");
        line_sink_close(&sink);
    }
    FILE *file = fopen(where, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fread(bytes, 1, sizeof(bytes), file), 16);
    ck_assert_str_eq(bytes, "one\ntwo\none\ntwo\n");
    fclose(file);
}
END_TEST

START_TEST(what_cannot_be_opened_is_refused)
{
    struct hvd_error err;
    ck_assert_int_eq(line_sink_open(&sink, "/no/such/folder/x", &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "--events=/no/such/folder/x: No such file"));
    ck_assert_int_eq(line_sink_open(&sink, "unix:/no/such/socket", &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "on which a reader listens"));
    char long_name[300];
    snprintf(long_name, sizeof(long_name), "unix:/%0*d", 200, 1);
    ck_assert_int_eq(line_sink_open(&sink, long_name, &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "too long"));
}
END_TEST

/* A reader that has stopped gets whole lines, as many as there was room for, when it goes on. */
START_TEST(a_stopped_reader_costs_lines_and_no_time)
{
    static char line[1001], bytes[1 << 20];
    int64_t put_lines = 0, read_lines = 0;
    memset(line, 'x', sizeof(line) - 1);
    line[999] = '\n';
    line[1000] = 0;
    int listener = listen_at_path();
    open_sink();
    int reader = accept(listener, NULL, NULL);
    for (put_lines = 0; sink.dropped < 3; put_lines++) {
        ck_assert_int_lt(put_lines, 10000);
        put(line);
    }
    ck_assert_int_ge(line_sink_fd(&sink), 0);
    for (size_t used = 0; line_sink_fd(&sink) >= 0;) {
        ssize_t count = read(reader, bytes + used, sizeof(bytes) - used);
        ck_assert_int_gt(count, 0);
        used += (size_t)count;
        line_sink_flush(&sink);
    }
    put("last\n");
    ck_assert_int_eq(sink.dropped, 0);
    ck_assert_int_eq(sink.dropped_all, 3);
    line_sink_close(&sink);
    close(listener);
    FILE *file = fdopen(reader, "r");
    while (fgets(bytes, sizeof(bytes), file) != NULL)
        read_lines++;
    ck_assert_str_eq(bytes, "last\n");
    ck_assert_int_gt(read_lines, 0);
    fclose(file);
}
END_TEST

START_TEST(a_reader_that_comes_back_gets_the_lines_from_then_on)
{
    int listener = listen_at_path();
    open_sink();
    int reader = accept(listener, NULL, NULL);
    put("one\n");
    expect_read(reader, "one\n");
    close(reader);
    close(listener);
    put("two\n");
    put("three\n");
    ck_assert_int_eq(sink.dropped, 2);
    listener = listen_at_path();
    put("four\n");
    ck_assert_int_eq(sink.dropped, 0);
    ck_assert_int_eq(sink.dropped_all, 2);
    reader = accept(listener, NULL, NULL);
    expect_read(reader, "four\n");
    line_sink_close(&sink);
    expect_read(reader, "");
    close(reader);
    close(listener);
}
END_TEST

/* /dev/full has no room: lines wait, then they are dropped. */
START_TEST(a_disk_without_room_costs_lines)
{
    static char line[10001];
    memset(line, 'x', sizeof(line) - 1);
    snprintf(where, sizeof(where), "/dev/full");
    open_sink();
    for (int i = 0; i < 8; i++)
        put(line);
    ck_assert_int_eq(sink.dropped, 2);
    ck_assert_int_eq(line_sink_fd(&sink), -1); /* which poll would call writable all the time */
    line_sink_close(&sink);
}
END_TEST

START_TEST(without_a_place_nothing_is_written)
{
    put("one\n");
    ck_assert_int_eq(sink.dropped_all, 0);
    ck_assert_int_eq(line_sink_fd(&sink), -1);
    line_sink_close(&sink);
}
END_TEST

static void begin(void)
{
    folder_empty();
    sink = (struct line_sink){.fd = -1};
    snprintf(path, sizeof(path), "%s/socket", folder);
    snprintf(where, sizeof(where), "unix:%s", path);
}

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("line_sink");
    tcase_add_unchecked_fixture(tcase, folder_make, folder_remove);
    tcase_add_checked_fixture(tcase, begin, NULL);
    tcase_add_test(tcase, a_file_is_appended_to);
    tcase_add_test(tcase, what_cannot_be_opened_is_refused);
    tcase_add_test(tcase, a_stopped_reader_costs_lines_and_no_time);
    tcase_add_test(tcase, a_reader_that_comes_back_gets_the_lines_from_then_on);
    tcase_add_test(tcase, a_disk_without_room_costs_lines);
    tcase_add_test(tcase, without_a_place_nothing_is_written);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("line_sink", fill);
}
