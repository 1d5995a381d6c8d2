/* fuzz_epochs.c: what the processes of an elastic job send to their launcher, and when they come, leave and
 * end. All hold the key, but their hvd may be another. The first byte of an input says what job it is; each
 * of the following ones is a step, some of which take more bytes. */
#include <assert.h>
#include <sodium.h>

#include "auth/secret_key.h"
#include "fuzz.h"
#include "fuzz_dial.h"
#include "pmix_shim/env_fence.h"
#include "pmix_shim/epoch_server.h"

#define SLOTS  3
#define SECRET "0123456789abcdef0123456789abcdef"
#define ROUNDS 8 /* in which a handshake is done */

/* bits of the first byte */
enum { SEES_NO_ENDS = 1, ALL_ASK = 2, SPARE = 4, TWO_NEEDED = 8, SLOT_EMPTY = 16, LIMITS_WAITS = 32 };

/* A step's low bits say what is done, the next two in which slot; the fourth one does not exist. */
enum { CONNECT, ASK, WATCH, SEND, LEAVE, END, START, FINISH };
/* A bit of a step: WATCH says that the answer is overdue, END dismisses the process, FINISH only ends the
 * hope for others. */
#define GENTLY 32

struct input {
    const unsigned char *bytes;
    size_t length;
};

static unsigned char next_byte(struct input *input)
{
    if (input->length == 0)
        return 0;
    input->length--;
    return *input->bytes++;
}

static unsigned char key[SECRET_KEY_BYTES];
static struct epoch_server *server;
static struct secure_channel channels[SLOTS + 1]; /* of the processes; fd -1: it is not connected */
static bool placed[SLOTS + 1];                    /* its place is the last that has gone over it */

static void connect_slot(int slot)
{
    const struct handshake_claim claim = {
        .purpose = HANDSHAKE_PURPOSE_FENCE, .from = (uint32_t)slot + 1, .size = SLOTS + 1};
    struct handshake handshake;
    int fd = channels[slot].fd < 0 ? dial(epoch_server_port(server)) : -1;
    if (fd < 0)
        return;
    placed[slot] = false;
    handshake_connect(&handshake, key, &claim, fd);
    enum handshake_result result = HANDSHAKE_WAITS;
    for (int i = 0; i < ROUNDS && result == HANDSHAKE_WAITS; i++) {
        epoch_server_work(server);
        result = handshake_advance(&handshake);
    }
    if (result == HANDSHAKE_DONE)
        secure_channel_open(&channels[slot], &handshake, NULL);
    handshake_close(&handshake);
}

static void say(int slot, uint32_t kind, uint32_t number)
{
    const struct fence_message message = {.kind = kind, .number = number, .rank = 1000};
    placed[slot] = false;
    if (channels[slot].fd >= 0)
        fence_message_send(&channels[slot], &message, NULL);
}

/* Whatever bytes: their number is the next byte. */
static void say_anything(int slot, struct input *input)
{
    size_t length = next_byte(input);
    length = length < input->length ? length : input->length;
    placed[slot] = false;
    if (channels[slot].fd >= 0)
        secure_channel_send(&channels[slot], input->bytes, length, NULL);
    input->bytes += length;
    input->length -= length;
}

static void check_answer(int slot, const struct fence_message *answer)
{
    struct fence_place place;
    if (answer->kind == FENCE_EPOCH) {
        assert(fence_place_decode(&place, answer, SLOTS, NULL) == HVD_OK);
        assert(answer->number == epoch_server_epoch(server) && place.size <= SLOTS);
        assert(epoch_server_is_member(server, slot));
        placed[slot] = true;
    } else {
        assert((answer->kind == FENCE_NEWS && answer->number <= FENCE_SPARE) || answer->kind == FENCE_FAIL);
    }
}

/* The server works, and its answers are read. */
static void work(void)
{
    struct fence_message answer;
    int silent = epoch_server_take_silent(server);
    assert(silent < SLOTS);
    if (silent >= 0)
        epoch_server_lose(server, silent);
    epoch_server_work(server);
    assert(epoch_server_left(server) <= SLOTS && epoch_server_members(server) <= SLOTS);
    for (int slot = 0; slot <= SLOTS; slot++) {
        int rc = channels[slot].fd >= 0 ? HVD_OK : HVD_IN_PROGRESS;
        while (rc == HVD_OK) {
            rc = fence_message_receive(&channels[slot], &answer, NULL);
            if (rc == HVD_OK)
                check_answer(slot, &answer);
        }
        if (rc < 0)
            secure_channel_close(&channels[slot]);
    }
}

/* Its place may have been on the way to it: it keeps its connection. */
static void say_overdue(int slot)
{
    bool keeps = placed[slot] && channels[slot].fd >= 0;
    say(slot, FENCE_OVERDUE, 0);
    work();
    assert(!keeps || channels[slot].fd >= 0);
}

static void step(unsigned char what, struct input *input)
{
    int slot = what / 8 % (SLOTS + 1);
    bool exists = slot < SLOTS;
    switch (what % 8) {
    case CONNECT:
        connect_slot(slot);
        break;
    case ASK:
        say(slot, FENCE_NEXT_EPOCH, 1);
        break;
    case WATCH:
        if ((what & GENTLY) != 0)
            say_overdue(slot);
        else
            say(slot, FENCE_WATCH, 0);
        break;
    case SEND:
        say_anything(slot, input);
        break;
    case LEAVE:
        secure_channel_close(&channels[slot]);
        break;
    case END:
        if (exists && (what & GENTLY) != 0)
            epoch_server_dismiss(server, slot, true);
        else if (exists)
            epoch_server_lose(server, slot);
        break;
    case START:
        if (exists && !epoch_server_has(server, slot))
            epoch_server_expect(server, slot);
        break;
    case FINISH:
        if ((what & GENTLY) != 0)
            epoch_server_hope(server, false);
        else
            epoch_server_finish(server);
        break;
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct input input = {bytes, length};
    unsigned how = next_byte(&input);
    const struct elastic_job job = {.slots = SLOTS,
                                    .members = (how & SLOT_EMPTY) != 0 ? SLOTS - 1 : SLOTS,
                                    .fewest = (how & TWO_NEEDED) != 0 ? 2 : 1,
                                    .spares = (how & SPARE) != 0,
                                    .secret = SECRET,
                                    .sees_no_ends = (how & SEES_NO_ENDS) != 0,
                                    .all_ask = (how & ALL_ASK) != 0,
                                    .limits_waits = (how & LIMITS_WAITS) != 0};
    if (sodium_init() < 0 || epoch_server_open(&server, &job, NULL) != HVD_OK)
        return 0;
    epoch_server_hope(server, (how & LIMITS_WAITS) != 0);
    secret_key_derive(SECRET, key);
    for (int slot = 0; slot <= SLOTS; slot++) {
        channels[slot] = (struct secure_channel){.fd = -1};
        placed[slot] = false;
    }
    while (input.length > 0) {
        step(next_byte(&input), &input);
        work();
    }
    for (int slot = 0; slot <= SLOTS; slot++)
        secure_channel_close(&channels[slot]);
    epoch_server_close(server);
    return 0;
}
