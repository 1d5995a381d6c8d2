/* name_table.h: a hash table of named things that grows with them. Intrusive: a thing has a name_link in it,
 * and the table holds no memory but its buckets. The user compares names, as what a name is differs: that of
 * an operation in one process set, or a set and a name. Not locked. */
#ifndef BASE_NAME_TABLE_H
#define BASE_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_link {
    struct name_link *next; /* in its bucket */
    uint64_t hash;          /* of the name; set it before name_table_insert, never change it while inserted */
};

struct name_table {
    struct name_link **buckets;
    size_t bucket_count, count; /* bucket_count: a power of two */
};

/* With [bucket_count] buckets, a power of two. False if memory is out. */
bool name_table_init(struct name_table *table, size_t bucket_count);
void name_table_fini(struct name_table *table); /* things stay; a zeroed table is fine */

/* The first link of the bucket of [hash]; look for the name along [next], comparing hashes first. */
static inline struct name_link *name_table_bucket(const struct name_table *table, uint64_t hash)
{
    return table->buckets[hash & (table->bucket_count - 1)];
}

/* Cannot fail: if there is no memory for more buckets, chains get longer. */
void name_table_insert(struct name_table *table, struct name_link *link);
void name_table_remove(struct name_table *table, struct name_link *link);

#endif
