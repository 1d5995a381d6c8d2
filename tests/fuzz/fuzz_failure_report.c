/* fuzz_failure_report.c: what srun reads of a failed task, from whoever connects to it. The plug-in's part in
 * srun decodes it. And what a node takes for the address that srun answers. */
#include <assert.h>
#include <string.h>

#include "options/node_address.h"
#include "fuzz.h"
#include "verdict/failure_report.h"

/* In the kept reports as well, so that what follows it is tried. */
static const char token[FAILURE_TOKEN_BYTES] = "0123456789abcdef0123456789abcdef";

/* It goes into the environment of tasks. */
static void try_answer(const unsigned char *bytes, size_t length)
{
    char text[FAILURE_ANSWER_BYTES];
    size_t used = length < sizeof(text) ? length : sizeof(text) - 1;
    memcpy(text, bytes, used);
    text[used] = 0;
    if (!node_address_leads(text, false))
        return;
    assert(strlen(text) >= strlen("a::") && text[strspn(text, "0123456789abcdefABCDEF.:")] == 0);
    assert(node_address_leads(text, true) && strncmp(text, "127.", 4) != 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct failure_report report, again;
    unsigned char message[FAILURE_REPORT_BYTES];
    try_answer(bytes, length);
    if (!failure_report_decode(bytes, length, token, &report))
        return 0;
    assert(report.rank >= 0 && report.rank < report.size && report.size <= FAILURE_MAX_SIZE);
    assert(report.pid >= 0 && report.after_us >= 0 && report.failed_count >= 0);
    size_t encoded = failure_report_encode(&report, token, message);
    assert(encoded > 0);
    assert(failure_report_decode(message, encoded, token, &again));
    assert(strcmp(report.node, again.node) == 0 && strcmp(report.crash, again.crash) == 0);
    assert(memcmp(&report.facts, &again.facts, sizeof(report.facts)) == 0 || length != encoded);
    return 0;
}
