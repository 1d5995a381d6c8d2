/* fuzz_node_card.c: what leaders tell each other in the start, from hostile bytes: every rank has put the
 * same, as its card and as the list of cards that it hands on. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/card_exchange.h"
#include "fuzz.h"
#include "fuzz_wireup.h"

/* A rank of a job in blocks of [block] ranks reads all cards: 0: as rank 0's card says. */
static void read_all(int block)
{
    static struct peer_info own;
    struct peer_table peer_table;
    struct leader_list leaders = {NULL, 0, 0};
    struct blob_list list = {NULL, 0, 0};
    const struct hvd_job job = {.rank = 5, .size = SIZE, .epoch = 1};
    if (peer_table_open(&peer_table, &job, NULL) != HVD_OK)
        return;
    struct card_exchange cards = {.exchange = {&peer_table, &wireup, 0}, .block = block};
    int rc = block > 0 ? HVD_OK : card_exchange_hand_on(&cards, NULL);
    if (rc == HVD_OK)
        rc = card_exchange_read(&cards, &own, &peer_table, &leaders, &list, NULL);
    assert(leaders.count <= SIZE);
    for (int i = 1; i < leaders.count; i++)
        assert(leaders.ranks[i] > leaders.ranks[i - 1]);
    assert(rc != HVD_OK || leaders.count > 0);
    blob_list_free(&list);
    free(leaders.ranks);
    peer_table_close(&peer_table);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    input = (struct wireup_blob){(void *)bytes, length};
    read_all(0);
    read_all(8);
    return 0;
}
