/* fuzz_part_list.c: the lists by which the ranks of an elastic job find out which part of their states
 * differs, as each gets them from all others. The first two bytes of an input say where the lists of ranks 1
 * and 2 begin. */
#include <assert.h>
#include <string.h>

#include "elastic/part_list.h"
#include "fuzz.h"

enum { RANKS = 3 };

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct hvd_error err = {""};
    int64_t lengths[RANKS] = {0};
    if (length < 2)
        return 0;
    int64_t left = (int64_t)length - 2;
    for (int rank = 0; rank < RANKS; rank++) {
        lengths[rank] = rank < RANKS - 1 && bytes[rank] < left ? bytes[rank] : left;
        left -= lengths[rank];
    }
    int rc = part_list_compare("call", (const char *)bytes + 2, lengths, RANKS, &err);
    assert(rc == HVD_OK || rc == HVD_ERR_MISMATCH);
    assert((rc == HVD_OK) == (err.text[0] == 0));
    for (const char *at = err.text; *at != 0; at++)
        assert((unsigned char)*at >= ' ' && *at != 0x7f); /* nothing that a terminal obeys */
    return 0;
}
