/* fuzz_peer_info.c: what a rank tells of itself, from hostile bytes. */
#include <assert.h>
#include <string.h>

#include "bootstrap/peer_info.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static struct card card, again;
    static unsigned char written[CARD_BYTES];
    struct hvd_error err;
    if (card_decode(&card, bytes, length, &err) != HVD_OK)
        return 0;
    size_t size = card_encode(&card, written);
    assert(card_decode(&again, written, size, &err) == HVD_OK);
    assert(card_difference(&card, &again) == OPT_COUNT);
    assert(card_same_ranks(&card, &again));
    return 0;
}
