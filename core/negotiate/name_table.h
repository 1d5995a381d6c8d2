/* name_table.h: a hash table of named things that grows with their number. It is intrusive: each thing
 * contains a name_link, and the table allocates nothing but its buckets. The caller compares the names,
 * because names differ in kind: an operation's name in one process set, or a set and a name. Not locked. */
#ifndef NEGOTIATE_NAME_TABLE_H
#define NEGOTIATE_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_link {
    struct name_link *next; /* in its bucket */
    uint64_t hash;          /* of the name; set before name_table_insert, and constant while inserted */
};

struct name_table {
    struct name_link **buckets;
    size_t bucket_count, count; /* bucket_count: a power of two */
};

/* Create a table of [bucket_count] buckets, a power of two. Returns false if there is no memory. */
bool name_table_init(struct name_table *table, size_t bucket_count);
void name_table_fini(
    struct name_table *table); /* the things in it are not freed; a zeroed table is accepted */

/* The first link in the bucket of [hash]. Follow [next] to find a name, comparing hashes first. */
static inline struct name_link *name_table_bucket(const struct name_table *table, uint64_t hash)
{
    return table->buckets[hash & (table->bucket_count - 1)];
}

/* Cannot fail: without memory for more buckets, the chains get longer. */
void name_table_insert(struct name_table *table, struct name_link *link);
void name_table_remove(struct name_table *table, struct name_link *link);

#endif
