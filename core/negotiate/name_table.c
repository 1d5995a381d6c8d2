/* name_table.c: a hash table of named things that grows with them. */
#include "negotiate/name_table.h"

#include <stdlib.h>

bool name_table_init(struct name_table *table, size_t bucket_count)
{
    *table = (struct name_table){.buckets = calloc(bucket_count, sizeof(struct name_link *)),
                                 .bucket_count = bucket_count};
    return table->buckets != NULL;
}

void name_table_fini(struct name_table *table)
{
    free(table->buckets);
    *table = (struct name_table){.buckets = NULL};
}

static void push(struct name_table *table, struct name_link *link)
{
    struct name_link **bucket = &table->buckets[link->hash & (table->bucket_count - 1)];
    link->next = *bucket;
    *bucket = link;
}

static void double_buckets(struct name_table *table)
{
    struct name_table larger;
    if (!name_table_init(&larger, 2 * table->bucket_count))
        return; /* longer chains only make it slower */
    larger.count = table->count;
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct name_link *next = NULL;
        for (struct name_link *link = table->buckets[i]; link != NULL; link = next) {
            next = link->next;
            push(&larger, link);
        }
    }
    name_table_fini(table);
    *table = larger;
}

void name_table_insert(struct name_table *table, struct name_link *link)
{
    if (table->count >= table->bucket_count)
        double_buckets(table);
    push(table, link);
    table->count++;
}

void name_table_remove(struct name_table *table, struct name_link *link)
{
    struct name_link **at = &table->buckets[link->hash & (table->bucket_count - 1)];
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    table->count--;
}
