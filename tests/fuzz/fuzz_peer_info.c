/* fuzz_peer_info.c: what a rank tells of itself, from hostile bytes. */
#include <assert.h>
#include <string.h>

#include "bootstrap/peer_info.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static struct peer_info peer_info, again;
    static unsigned char written[PEER_INFO_BYTES];
    struct hvd_error err;
    if (peer_info_decode(&peer_info, bytes, length, &err) != HVD_OK)
        return 0;
    size_t size = peer_info_encode(&peer_info, written);
    assert(peer_info_decode(&again, written, size, &err) == HVD_OK);
    assert(peer_info_differing_option(&peer_info, &again) == NULL);
    assert(peer_info_same_ranks(&peer_info, &again));
    return 0;
}
