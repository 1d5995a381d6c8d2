/* test_cpu.c: a streaming copy writes the bytes that it is given and no others, at any alignment. */
#include "unit.h"

#include "base/cpu.h"

#define MOST  200
#define SHIFT 64
#define ROOM  (MOST + 2 * SHIFT)

START_TEST(copies_any_length_from_anywhere_to_anywhere)
{
    _Alignas(64) unsigned char from[ROOM];
    _Alignas(64) unsigned char to[ROOM];
    unsigned char expected[ROOM];
    for (int i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i + 1);
    for (int shift = 0; shift < SHIFT * SHIFT; shift++) {
        int read_at = shift % SHIFT;
        int write_at = shift / SHIFT;
        for (int bytes = 0; bytes <= MOST; bytes += 1 + bytes / 7) {
            memset(to, 0, sizeof(to));
            memset(expected, 0, sizeof(expected));
            memcpy(expected + write_at, from + read_at, (size_t)bytes);
            streaming_copy((char *)to + write_at, (const char *)from + read_at, bytes);
            streaming_copy_fence();
            ck_assert_mem_eq(to, expected, sizeof(to));
        }
    }
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("cpu");
    tcase_add_test(tcase, copies_any_length_from_anywhere_to_anywhere);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("cpu", fill);
}
