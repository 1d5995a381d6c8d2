/* fuzz_negotiate.c: a rank between a hostile parent and two hostile children, in several process sets:
 * errors, but no crash. The input is a list of messages: who says it (1 byte), its length (2 bytes), its
 * bytes. */
#include <stdio.h>
#include <string.h>

#include "negotiate/negotiate.h"
#include "fuzz.h"

enum { FROM_PARENT, FROM_FIRST_CHILD, FROM_SECOND_CHILD, OWN_SUBMISSION, TIME_PASSES, SPEAKERS };
enum { OWN_ALLREDUCE, OWN_BROADCAST, OWN_GROUP, OWN_JOIN, OWN_SET_ADD, OWN_SET_REMOVE, OWN_LEAVE, OWN_KINDS };

static struct desc *describe(int what, hvd_set set, char name)
{
    struct desc *desc = desc_create(what == OWN_GROUP ? 2 : 1);
    if (desc == NULL)
        return NULL;
    desc->kind = what == OWN_BROADCAST ? DESC_BROADCAST : DESC_ALLREDUCE;
    desc->set = what < OWN_SET_ADD ? set : HVD_ALL_RANKS;
    desc->grouped = what == OWN_GROUP;
    desc->tensors[desc->tensor_count - 1].name[0] = 'z';
    desc->tensors[0].name[0] = name != 0 ? name : 'w';
    if (what == OWN_JOIN) {
        desc->kind = DESC_JOIN;
        snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "%s", DESC_JOIN_NAME);
    } else if (what == OWN_SET_ADD) {
        desc->kind = DESC_SET_ADD;
        desc->tensors[0].ndim = 2;
        desc->tensors[0].shape[0] = set + 1;
        desc->by_members = name % 3 == 0;
        if (desc->by_members)
            snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "\001%d", set);
    } else if (what == OWN_SET_REMOVE) {
        desc->kind = DESC_SET_REMOVE;
        desc->root = set;
        snprintf(desc->tensors[0].name, sizeof(desc->tensors[0].name), "%s", DESC_SET_REMOVE_NAME);
    }
    return desc;
}

/* Three bytes: what, in which set (of how many more ranks, for a new one), and its name (whether it is a
 * member). */
static int submit_own(struct negotiate *negotiate, const unsigned char *bytes, size_t length)
{
    int what = length > 0 ? bytes[0] % OWN_KINDS : 0;
    hvd_set set = length > 1 ? bytes[1] % 4 : 0;
    char name = length > 2 ? (char)bytes[2] : 'w';
    if (what == OWN_LEAVE) {
        negotiate_leave(negotiate);
        return HVD_OK;
    }
    struct desc *desc = describe(what, set, name);
    struct submission submission = {.desc = desc, .backends = 1u << BACKEND_TCP, .member = name % 2 == 1};
    int rc = desc != NULL ? negotiate_submit(negotiate, &submission, NULL) : HVD_ERR_NO_MEMORY;
    desc_release(desc);
    return rc == HVD_ERR_SET ? HVD_OK : rc;
}

/* One byte: the exponent of how long. */
static int pass_time(struct negotiate *negotiate, int64_t *now_us, const unsigned char *bytes, size_t length)
{
    *now_us += INT64_C(1) << (length > 0 ? bytes[0] % 32 : 0);
    int rc = negotiate_check_stalls(negotiate, *now_us, NULL);
    negotiate_deadline(negotiate, *now_us);
    return rc;
}

static int hear(struct negotiate *negotiate, int speaker, const unsigned char *bytes, size_t length)
{
    struct hvd_error err;
    if (speaker == FROM_PARENT)
        return negotiate_from_parent(negotiate, bytes, length, &err);
    if (speaker == OWN_SUBMISSION)
        return submit_own(negotiate, bytes, length);
    return negotiate_from_child(negotiate, speaker - FROM_FIRST_CHILD, bytes, length, &err);
}

static int speak(struct negotiate *negotiate)
{
    const struct decision *decision = NULL;
    struct desc_difference difference;
    const void *said = NULL;
    size_t length = 0;
    int rc = negotiate_decide(negotiate, NULL);
    for (int link = 0; rc == HVD_OK && link <= 2; link++)
        rc = negotiate_get_message(negotiate, link, &said, &length, NULL);
    while (negotiate_next(negotiate, &decision, NULL) == HVD_OK) {
        if (decision->kind == DECISION_MISMATCH)
            decision_compare(decision, &difference);
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static const int children[] = {2, 3};
    struct negotiate_params place = {.rank = 1,
                                     .size = 4,
                                     .root = length % 2 == 0,
                                     .child_count = 2,
                                     .child_ranks = children,
                                     .backend_order = {BACKEND_TCP, -1},
                                     .stall_warn_us = 1000,
                                     .stall_abort_us = 100000,
                                     .cache_limit = 2};
    int64_t now_us = 1;
    struct negotiate *negotiate = NULL;
    int rc = negotiate_create(&negotiate, &place, NULL);
    while (rc == HVD_OK && length >= 3) {
        size_t claimed = (size_t)bytes[1] | (size_t)bytes[2] << 8;
        size_t part = claimed < length - 3 ? claimed : length - 3;
        int speaker = bytes[0] % SPEAKERS;
        rc = speaker == TIME_PASSES ? pass_time(negotiate, &now_us, bytes + 3, part)
                                    : hear(negotiate, speaker, bytes + 3, part);
        bytes += 3 + part;
        length -= 3 + part;
        if (rc == HVD_OK)
            rc = speak(negotiate);
    }
    negotiate_destroy(negotiate);
    return 0;
}
