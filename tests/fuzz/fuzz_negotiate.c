/* fuzz_negotiate.c: a rank between a hostile parent and two hostile children: errors, but no crash. The input
 * is a list of messages: who says it (1 byte), its length (1 byte), its bytes. */
#include <string.h>

#include "flow/negotiate.h"
#include "fuzz.h"

enum { FROM_PARENT, FROM_FIRST_CHILD, FROM_SECOND_CHILD, OWN_SUBMISSION, SPEAKERS };

static int hear(struct negotiate *negotiate, int speaker, const unsigned char *bytes, size_t length)
{
    struct hvd_error err;
    struct desc desc = {.kind = DESC_ALLREDUCE, .planes = 1u << PLANE_TCP, .name = "w"};
    switch (speaker) {
    case FROM_PARENT:
        return negotiate_from_parent(negotiate, bytes, length, &err);
    case OWN_SUBMISSION:
        desc.name[0] = (char)(length > 0 && bytes[0] != 0 ? bytes[0] : 'w');
        return negotiate_submit(negotiate, &desc, NULL, &err);
    default:
        return negotiate_from_child(negotiate, speaker - FROM_FIRST_CHILD, bytes, length, &err);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static const int children[] = {2, 3};
    struct negotiate_place place = {.rank = 1,
                                    .size = 4,
                                    .root = length % 2 == 0,
                                    .child_count = 2,
                                    .child_ranks = children,
                                    .plane_order = {PLANE_TCP, -1}};
    struct negotiate *negotiate = NULL;
    struct decision decision;
    const void *said = NULL;
    size_t said_length = 0;
    int rc = negotiate_create(&negotiate, &place, NULL);
    while (rc == HVD_OK && length >= 2) {
        size_t part = bytes[1] < length - 2 ? bytes[1] : length - 2;
        rc = hear(negotiate, bytes[0] % SPEAKERS, bytes + 2, part);
        bytes += 2 + part;
        length -= 2 + part;
        if (rc == HVD_OK)
            rc = negotiate_say(negotiate, &said, &said_length, NULL);
        while (negotiate_next(negotiate, &decision))
            continue;
    }
    negotiate_destroy(negotiate);
    return 0;
}
