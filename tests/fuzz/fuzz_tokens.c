/* fuzz_tokens.c: values of --hvd-bind, --hvd-rs and --hvd-nics, and lists of CPUs, as users type them; and
 * the variable in which a launcher lists what tells other libraries their networks. */
#include <assert.h>
#include <string.h>

#include "options/bind.h"
#include "topo/bitmap.h"
#include "options/nic_filter.h"
#include "options/resource_set.h"
#include "topo/nic_env.h"
#include "fuzz.h"

static void try_bind(const char *text)
{
    struct bind_options options;
    const char *why = NULL;
    if (bind_parse(text, &options, &why) < 0) {
        assert(why != NULL);
        return;
    }
    assert(options.policy < BIND_COUNT);
    assert(options.smt >= 0 && options.smt <= BIND_MAX_SMT);
    assert(options.reserve >= 0 && options.reserve <= BIND_MAX_RESERVE);
}

static void try_rs(const char *text)
{
    struct rs_options options, again;
    char written[RS_TEXT_BYTES], twice[RS_TEXT_BYTES];
    const char *why = NULL;
    int rs, place;
    if (rs_parse(text, &options, &why) < 0) {
        assert(why != NULL);
        return;
    }
    rs_text(&options, written);
    assert(written[0] == 0 || rs_parse(written, &again, &why) == 0);
    assert(written[0] == 0 || strcmp(written, rs_text(&again, twice)) == 0);
    for (int rank = 0; rank < 20; rank++)
        assert(!rs_locate_rank(&options, 3, rank, &rs, &place) || (rs >= 0 && rs < 3 && place >= 0));
}

static void try_bitset(const char *text)
{
    static struct bitmap set, again;
    static char written[BITMAP_TEXT_BYTES];
    const char *why = NULL;
    if (bitmap_parse(text, &set, &why) < 0) {
        assert(why != NULL);
        return;
    }
    assert(bitmap_parse(bitmap_text(&set, written, sizeof(written)), &again, &why) == 0);
    assert(bitmap_is_equal(&set, &again));
}

static void try_networks(const char *text)
{
    static struct nic_env env;
    if (nic_env_parse(text, &env) < 0)
        return;
    for (size_t i = 0; i < sizeof(env.values) / sizeof(env.values[0]); i++)
        assert(strnlen(env.values[i], sizeof(env.values[i])) < sizeof(env.values[i]));
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static char text[65537];
    struct nic_filter entries[NIC_FILTER_MAX];
    const char *why = NULL;
    int count = 0;
    if (length >= sizeof(text))
        return 0;
    memcpy(text, bytes, length);
    text[length] = 0;
    try_bind(text);
    try_rs(text);
    try_bitset(text);
    try_networks(text);
    assert(nic_filter_parse(text, entries, &count, &why) == 0 || why != NULL);
    assert(count >= 0 && count <= NIC_FILTER_MAX);
    return 0;
}
