/* stranger.c: what another user of a node may try against a job. It says that it is the user CLAIM_UID, which
 * PMIx's native security believes, and prints in one line what came of it.
 *
 *   read                 become a client of the PMIx server in the environment, read the key, and stay
 *   abort                likewise, and ask for the end of the job with status 77
 *   join KEY PORT EPOCH  take rank 1's place at rank 0 on PORT, with the key that PMIx carries
 *   attach KEY EPOCH     take rank 1's place at the shared memory of rank 0
 *
 * With HVD_JOB_KEY in its environment it does as a rank does, with HVD_ENCRYPT as one of a job that encrypts.
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pmix.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "auth/handshake.h"
#include "base/clock.h"
#include "bootstrap/job_key.h"
#include "net/establishment.h"
#include "node/attach.h"

#define PATIENCE_US 30000000

/* ---- libpmix asks these who it is ---- */

#define SEEN __attribute__((visibility("default")))
SEEN uid_t getuid(void);
SEEN uid_t geteuid(void);
SEEN gid_t getgid(void);
SEEN gid_t getegid(void);

static uid_t claimed(void)
{
    const char *text = getenv("CLAIM_UID");
    return text != NULL ? (uid_t)strtoul(text, NULL, 10) : 0;
}

uid_t getuid(void)
{
    return claimed();
}

uid_t geteuid(void)
{
    return claimed();
}

gid_t getgid(void)
{
    return claimed();
}

gid_t getegid(void)
{
    return claimed();
}

/* ---- PMIx ---- */

static int say(const char *sentence)
{
    puts(sentence);
    return EXIT_SUCCESS;
}

static int use_pmix(bool aborts)
{
    pmix_proc_t self;
    pmix_proc_t rank_0;
    pmix_value_t *value = NULL;
    char hex[2 * 4096 + 1];
    pmix_info_t wait[1];
    int seconds = 20;
    pmix_status_t rc = PMIx_Init(&self, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        printf("not let in: %s\n", PMIx_Error_string(rc));
        return EXIT_SUCCESS;
    }
    if (aborts) {
        rc = PMIx_Abort(77, "a stranger's wish", NULL, 0);
        printf("let in, abort: %s\n", PMIx_Error_string(rc));
        return EXIT_SUCCESS;
    }
    PMIX_LOAD_PROCID(&rank_0, self.nspace, 0);
    PMIX_INFO_LOAD(&wait[0], PMIX_TIMEOUT, &seconds, PMIX_INT);
    rc = PMIx_Get(&rank_0, "hvd.0.key", wait, 1, &value);
    if (rc != PMIX_SUCCESS || value->type != PMIX_BYTE_OBJECT || value->data.bo.size > 4096) {
        printf("let in, no key: %s\n", PMIx_Error_string(rc));
        return EXIT_SUCCESS;
    }
    sodium_bin2hex(hex, sizeof(hex), (unsigned char *)value->data.bo.bytes, value->data.bo.size);
    printf("let in, key: %s\n", hex);
    fflush(stdout);
    sleep(120); /* a client that leaves before the others have joined would end the job */
    return EXIT_SUCCESS;
}

/* ---- Connections ---- */

/* The key that PMIx carries, as the argument says; wire-up hands it to job_key_get. */
static struct wireup_blob stolen;

static int get_stolen(void *state, int rank, const char *key, int64_t deadline_us, struct wireup_blob *blob,
                      struct hvd_error *err)
{
    (void)state, (void)rank, (void)key, (void)deadline_us, (void)err;
    *blob = stolen;
    return HVD_OK;
}

static void find_key(struct peer_table *peer_table, const char *hex)
{
    static const struct wireup_ops ops = {.name = "stolen", .get = get_stolen};
    const struct wireup wireup = {&ops, NULL, NULL};
    enum job_key_guard guard;
    struct hvd_error err = {""};
    stolen.bytes = malloc(strlen(hex) + 1);
    sodium_hex2bin(stolen.bytes, strlen(hex), hex, strlen(hex), NULL, &stolen.length, NULL);
    if (job_key_find_guard(getenv("HVD_ENCRYPT") != NULL, &guard, &err) == HVD_OK &&
        job_key_get(peer_table, &wireup, guard, 0, &err) == HVD_OK)
        return;
    printf("no key: %s\n", err.text);
    exit(EXIT_SUCCESS);
}

static int shake_hands(const struct peer_table *peer_table, uint16_t purpose, int fd)
{
    struct handshake handshake;
    const struct handshake_claim claim = {
        .purpose = purpose, .epoch = peer_table->epoch, .from = 1, .to = 0, .size = 2};
    const int64_t deadline_us = clock_us() + PATIENCE_US;
    enum handshake_result result = HANDSHAKE_WAITS;
    handshake_connect(&handshake, peer_table->key, &claim, fd);
    while (result == HANDSHAKE_WAITS && clock_us() < deadline_us) {
        struct pollfd ready = {.fd = handshake.fd, .events = handshake_poll_events(&handshake)};
        poll(&ready, 1, 100);
        if (ready.revents != 0)
            result = handshake_advance(&handshake);
    }
    if (result == HANDSHAKE_DONE)
        return say("admitted");
    printf("refused: the other end %s\n", result == HANDSHAKE_FAILED ? handshake.why : "is silent");
    return EXIT_SUCCESS;
}

static int join(struct peer_table *peer_table, const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return say(strerror(errno));
    say("connected");
    fflush(stdout);
    return shake_hands(peer_table, ENDPOINT_CONTROL, fd);
}

/* The name of the socket depends on the key: whoever has another one looks for a socket that is not there. */
static int attach(struct peer_table *peer_table)
{
    struct sockaddr_un address;
    const int64_t deadline_us = clock_us() + PATIENCE_US;
    const struct timespec pause = {.tv_nsec = 1000000};
    socklen_t length = attach_address(peer_table, 0, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    say("looks");
    fflush(stdout);
    while (connect(fd, (struct sockaddr *)&address, length) < 0) {
        if (getppid() == 1 || clock_us() > deadline_us)
            return say("found no socket");
        nanosleep(&pause, NULL);
    }
    return shake_hands(peer_table, HANDSHAKE_PURPOSE_ATTACH, fd);
}

int main(int argc, char **argv)
{
    struct peer_table peer_table = {.rank = 1, .size = 2};
    const char *verb = argc > 1 ? argv[1] : "";
    if (sodium_init() < 0)
        return EXIT_FAILURE;
    if (strcmp(verb, "read") == 0 || strcmp(verb, "abort") == 0)
        return use_pmix(verb[0] == 'a');
    if (argc == 5 && strcmp(verb, "join") == 0) {
        peer_table.epoch = (uint32_t)strtoul(argv[4], NULL, 10);
        find_key(&peer_table, argv[2]);
        return join(&peer_table, argv[3]);
    }
    if (argc == 4 && strcmp(verb, "attach") == 0) {
        peer_table.epoch = (uint32_t)strtoul(argv[3], NULL, 10);
        find_key(&peer_table, argv[2]);
        return attach(&peer_table);
    }
    fputs("usage: stranger read | abort | join KEY PORT EPOCH | attach KEY EPOCH\n", stderr);
    return EXIT_FAILURE;
}
