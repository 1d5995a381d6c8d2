/* test_stack.c: threads get a stack that suffices, whatever the limit of the program's says. */
#include "config.h"
#include "unit.h"

#include "base/stack.h"

#define SMALL ((size_t)512 << 10)

static void *read_size(void *arg)
{
    pthread_attr_t attributes;
    ck_assert_int_eq(pthread_getattr_np(pthread_self(), &attributes), 0);
    ck_assert_int_eq(pthread_attr_getstacksize(&attributes, arg), 0);
    pthread_attr_destroy(&attributes);
    return NULL;
}

/* The stack of a thread that is started without attributes. */
static size_t new_thread_size(void)
{
    pthread_t thread;
    size_t bytes = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, read_size, &bytes), 0);
    pthread_join(thread, NULL);
    return bytes;
}

static void set_default(size_t bytes)
{
    pthread_attr_t attributes;
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, bytes), 0);
    ck_assert_int_eq(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

static size_t default_size(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    ck_assert_int_eq(pthread_getattr_default_np(&attributes), 0);
    ck_assert_int_eq(pthread_attr_getstacksize(&attributes, &bytes), 0);
    pthread_attr_destroy(&attributes);
    return bytes;
}

START_TEST(a_small_default_is_raised_and_restored)
{
    set_default(SMALL);
    size_t before = stack_raise_thread_default();
    ck_assert_uint_eq(before, SMALL);
    ck_assert_uint_ge(new_thread_size(), (size_t)1 << 20);
    stack_restore_thread_default(before);
    ck_assert_uint_eq(default_size(), SMALL);
}
END_TEST

START_TEST(a_large_default_stays)
{
    set_default((size_t)16 << 20);
    size_t before = stack_raise_thread_default();
    ck_assert_uint_eq(before, 0);
    stack_restore_thread_default(before);
    ck_assert_uint_eq(default_size(), (size_t)16 << 20);
}
END_TEST

START_TEST(own_threads_have_enough)
{
    pthread_t thread;
    size_t bytes = 0;
    set_default(SMALL);
    ck_assert_int_eq(stack_create_thread(&thread, read_size, &bytes), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_ge(bytes, (size_t)1 << 20);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("stack");
    tcase_add_test(tcase, a_small_default_is_raised_and_restored);
    tcase_add_test(tcase, a_large_default_stays);
    tcase_add_test(tcase, own_threads_have_enough);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("stack", fill);
}
