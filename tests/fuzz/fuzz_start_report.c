/* fuzz_start_report.c: how a node fared in a step of the start, and the lists in which leaders hand such
 * reports on, from hostile bytes: every leader has put the same. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/start_report.h"
#include "fuzz.h"
#include "fuzz_wireup.h"

/* The first [count] ranks lead nodes. */
static void read_all(int count)
{
    int ranks[SIZE];
    struct peer_table peer_table;
    struct blob_list reports = {NULL, 0, 0};
    struct hvd_error err = {""};
    const struct hvd_job job = {.rank = 5, .size = SIZE, .epoch = 1};
    const struct leader_list leaders = {ranks, count, 0};
    for (int i = 0; i < count; i++)
        ranks[i] = i;
    if (peer_table_open(&peer_table, &job, &err) != HVD_OK)
        return;
    const struct leader_exchange exchange = {&peer_table, &wireup, 0};
    int rc = leader_exchange_hand_on(&exchange, &leaders, "step", &err);
    if (rc == HVD_OK)
        rc = start_report_read(&exchange, &leaders, "step", &reports, &err);
    assert(rc == HVD_OK || err.text[0] != 0);
    blob_list_free(&reports);
    peer_table_close(&peer_table);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static unsigned char written[START_REPORT_BYTES];
    struct start_report report = {.step = "step"};
    input = (struct wireup_blob){(void *)bytes, length};
    if (start_report_decode(&report, bytes, length) == HVD_OK) {
        size_t size = start_report_encode(&report, written);
        assert(size == length && memcmp(written, bytes, size) == 0);
    }
    read_all(3);
    read_all(SIZE);
    return 0;
}
