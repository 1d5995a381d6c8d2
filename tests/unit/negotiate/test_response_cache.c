/* test_response_cache.c: the ids of a response cache, at the limits of its memory. */
#include "unit.h"

#include <stdio.h>

#include "negotiate/response_cache.h"
#include "negotiate/wire.h"

#define ENTRIES 40 /* the memory for ids grows twice on the way */

static struct response_cache cache;

static struct cache_entry *add(int number)
{
    char name[16];
    snprintf(name, sizeof(name), "t%d", number);
    struct cache_entry *entry = response_cache_find_or_add(&cache, name);
    ck_assert_ptr_nonnull(entry);
    uint32_t id = response_cache_free_id(&cache, 0);
    ck_assert(response_cache_assign_id(&cache, entry, id));
    ck_assert_uint_eq(entry->id, id);
    return entry;
}

START_TEST(an_id_that_was_never_assigned_has_no_slot)
{
    ck_assert(response_cache_init(&cache));
    for (int i = 0; i < ENTRIES; i++) {
        ck_assert_ptr_null(response_cache_slot(&cache, (uint32_t)i));
        ck_assert_ptr_null(response_cache_by_id(&cache, (uint32_t)i));
        struct cache_entry *entry = add(i);
        ck_assert_uint_eq(entry->id, (uint32_t)i);
        ck_assert_ptr_eq(response_cache_by_id(&cache, entry->id), entry);
        ck_assert_ptr_eq(response_cache_slot(&cache, entry->id)->entry, entry);
    }
    ck_assert_ptr_null(response_cache_slot(&cache, WIRE_NO_ID));
    response_cache_fini(&cache);
}
END_TEST

START_TEST(the_lowest_free_id_is_used_again)
{
    ck_assert(response_cache_init(&cache));
    for (int i = 0; i < ENTRIES; i++)
        add(i);
    for (uint32_t id = 30; id >= 10; id -= 10) {
        response_cache_retire(&cache, id);
        ck_assert(response_cache_slot(&cache, id)->retiring);
        response_cache_release_id(&cache, id);
        ck_assert_ptr_null(response_cache_by_id(&cache, id));
        ck_assert_ptr_nonnull(response_cache_slot(&cache, id));
    }
    ck_assert_uint_eq(response_cache_free_id(&cache, ENTRIES), 10);
    for (uint32_t id = 10; id <= 30; id += 10)
        ck_assert_uint_eq(add(ENTRIES + (int)id)->id, id);
    ck_assert_uint_eq(response_cache_free_id(&cache, ENTRIES), WIRE_NO_ID);
    ck_assert_uint_eq(response_cache_free_id(&cache, ENTRIES + 1), ENTRIES);
    ck_assert_uint_eq(response_cache_free_id(&cache, 0), ENTRIES);
    response_cache_fini(&cache);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("response_cache");
    tcase_add_test(tcase, an_id_that_was_never_assigned_has_no_slot);
    tcase_add_test(tcase, the_lowest_free_id_is_used_again);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("response_cache", fill);
}
