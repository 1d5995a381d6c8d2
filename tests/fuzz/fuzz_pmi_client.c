/* fuzz_pmi_client.c: what the launcher's PMI server sends: whether it answers the question, and the fields of
 * its answer. If the first byte of an input is '+', all lines come at once, else one for each question. */
#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "pmix_shim/pmi_client.h"

static void read_fields(const struct pmi_client *client)
{
    struct hvd_error err = {""};
    struct token text;
    int number = 0;
    pmi_client_refused(client);
    if (pmi_client_text(client, "value", &text, &err) == HVD_OK)
        assert(text.text >= client->answer && text.text + text.length <= strchr(client->answer, 0));
    else
        assert(err.text[0] != 0);
    if (pmi_client_number(client, "keylen_max", 64, &number, &err) == HVD_OK)
        assert(number >= 64);
    else
        assert(err.text[0] != 0);
}

/* After a line that is no answer the connection is of no use. */
static int ask(struct pmi_client *client)
{
    struct hvd_error err = {""};
    int rc = pmi_client_ask(client, "cmd=get\n", "get_result", 0, &err);
    assert(rc == HVD_OK || err.text[0] != 0);
    if (rc == HVD_OK) {
        assert(strlen(client->answer) < PMI_LINE_BYTES && strchr(client->answer, '\n') == NULL);
        read_fields(client);
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static struct pmi_client client;
    int ends[2];
    int rc = HVD_OK;
    if (length == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    bool at_once = bytes[0] == '+';
    bytes++;
    length--;
    assert(pmi_client_open(&client, ends[0], NULL) == HVD_OK);
    while (rc == HVD_OK && length > 0) {
        const unsigned char *end = at_once ? NULL : memchr(bytes, '\n', length);
        size_t line = end == NULL ? length : (size_t)(end - bytes) + 1;
        assert(send(ends[1], bytes, line, MSG_NOSIGNAL) == (ssize_t)line);
        bytes += line;
        length -= line;
        rc = ask(&client);
    }
    close(ends[0]);
    close(ends[1]);
    return 0;
}
