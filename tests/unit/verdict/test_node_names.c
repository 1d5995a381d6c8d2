/* test_node_names.c: names of nodes as one text. */
#include "config.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "verdict/node_names.h"

static const struct {
    const char *names[8], *text;
} lists[] = {
    {{"n1"}, "n1"},
    {{"n2", "n1"}, "n[1-2]"},
    {{"n10", "n9", "n1", "n12"}, "n[1,9-10,12]"},
    {{"n010", "n009", "n001"}, "n[001,009-010]"},
    {{"n8", "n09", "n9"}, "n8, n09, n9"},
    {{"login", "rack2-n1", "rack1-n2", "rack1-n1"}, "login, rack1-n[1-2], rack2-n1"},
    {{"n3", "n3", "n3"}, "n3"},
    {{"7", "8"}, "[7-8]"},
    {{"gpu-a", "gpu-b"}, "gpu-a, gpu-b"},
    {{"n1234567890", "n1234567891"}, "n1234567890, n1234567891"},
};

START_TEST(lists_are_written_as_slurm_does)
{
    const char *names[8];
    char text[128];
    int count = 0;
    while (count < 8 && lists[_i].names[count] != NULL)
        count++;
    memcpy(names, lists[_i].names, sizeof(names));
    node_names_text(names, count, text, sizeof(text));
    ck_assert_str_eq(text, lists[_i].text);
}
END_TEST

START_TEST(no_names_are_no_text)
{
    char text[32] = "x";
    node_names_text(NULL, 0, text, sizeof(text));
    ck_assert_str_eq(text, "");
}
END_TEST

/* Exactly sized, for the address sanitizer: what is left out is counted. */
START_TEST(a_long_list_is_cut)
{
    enum { COUNT = 60 };
    static char bytes[COUNT][16];
    const char *names[COUNT];
    for (size_t room = 24; room < 400; room++) {
        char *text = malloc(room);
        ck_assert_ptr_nonnull(text);
        int shown = 0, left = 0;
        for (int i = 0; i < COUNT; i++) {
            snprintf(bytes[i], sizeof(bytes[i]), i < 30 ? "node%d" : "%d-z", 3 * i);
            names[i] = bytes[i];
        }
        node_names_text(names, COUNT, text, room);
        ck_assert_uint_lt(strlen(text), room);
        const char *more = strstr(text, " more");
        if (more != NULL) {
            while (more > text && more[-1] >= '0' && more[-1] <= '9')
                more--;
            left = (int)strtol(more, NULL, 10);
        }
        for (const char *at = text; at < text + strlen(text) && at != more; at++)
            shown += *at == ',' || at == text;
        ck_assert_int_eq(shown + left, COUNT);
        free(text);
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("texts");
    tcase_add_loop_test(tcase, lists_are_written_as_slurm_does, 0, sizeof(lists) / sizeof(lists[0]));
    tcase_add_test(tcase, no_names_are_no_text);
    tcase_add_test(tcase, a_long_list_is_cut);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("node_names", fill);
}
