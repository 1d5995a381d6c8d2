/* eager.c: small allreduces, whose inputs travel with the agreement once their name is known. `eager CASE`,
 * run by every rank. The first one of a name goes by a backend: the bits of all must be the same. */
#include <stdint.h>

#include "ranks.h"

#define REPEATS 4

static const struct {
    const char *name;
    enum hvd_dtype dtype;
    size_t bytes;
} types[] = {{"float32", HVD_FLOAT32, 4},   {"float64", HVD_FLOAT64, 8}, {"float16", HVD_FLOAT16, 2},
             {"bfloat16", HVD_BFLOAT16, 2}, {"int32", HVD_INT32, 4},     {"uint8", HVD_UINT8, 1}};

static const enum hvd_op ops[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT};

static uint64_t state;

static uint64_t next_random(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

/* Numbers between 1 and 2, whose sums are rounded, in each of the types. */
static void fill(void *data, int type, int count)
{
    for (int i = 0; i < count; i++) {
        double value = 1 + (double)(next_random() % 4096) / 4096;
        float narrow = (float)value;
        uint32_t bits = 0;
        uint16_t half = (uint16_t)(0x3c00 | next_random() % 1024);
        memcpy(&bits, &narrow, sizeof(bits));
        if (types[type].dtype == HVD_FLOAT32)
            ((float *)data)[i] = narrow;
        else if (types[type].dtype == HVD_FLOAT64)
            ((double *)data)[i] = value;
        else if (types[type].dtype == HVD_FLOAT16)
            ((uint16_t *)data)[i] = half;
        else if (types[type].dtype == HVD_BFLOAT16)
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        else if (types[type].dtype == HVD_INT32)
            ((int32_t *)data)[i] = (int32_t)next_random();
        else
            ((uint8_t *)data)[i] = (uint8_t)next_random();
    }
}

static void repeat(int type, enum hvd_op op, int count, const struct hvd_options *options)
{
    static uint64_t input[256], output[256], first[256];
    char name[80];
    size_t bytes = (size_t)count * types[type].bytes;
    snprintf(name, sizeof(name), "%s %d %d", types[type].name, (int)op, count);
    fill(input, type, count);
    for (int i = 0; i < REPEATS; i++) {
        bool in_place = i % 2 == 1;
        memcpy(output, input, sizeof(input));
        struct hvd_tensor tensor = hvd_vector(name, output, count, types[type].dtype);
        if (!in_place)
            tensor.input = input;
        must(hvd_allreduce(&tensor, op, options), name);
        if (i == 0)
            memcpy(first, output, bytes);
        else if (memcmp(first, output, bytes) != 0)
            ranks_fail("%s: the bits of repeat %d are not those of the first", name, i);
    }
}

static void bits(void)
{
    static const int counts[] = {1, 2, 7, 30, 31, 62, 63, 125, 200};
    struct hvd_options scaled = HVD_OPTIONS_INIT;
    scaled.prescale = 0.7;
    scaled.postscale = 3;
    for (size_t type = 0; type < sizeof(types) / sizeof(types[0]); type++) {
        for (size_t op = 0; op < sizeof(ops) / sizeof(ops[0]); op++) {
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
                repeat((int)type, ops[op], counts[i], op == 0 && type < 4 ? &scaled : NULL);
        }
    }
}

/* In sets of two that overlap: each of three ranks or more is in two of them. */
static void sets(void)
{
    hvd_set pairs[8];
    for (int first = 0; first < size; first++) {
        int second = (first + 1) % size;
        int members[] = {first < second ? first : second, first < second ? second : first};
        must(hvd_set_add(members, 2, &pairs[first]), "hvd_set_add");
    }
    for (int i = 0; i < 50 * size; i++) {
        int first = i % size;
        double expected = first + 1 + (first + 1) % size + 1;
        double sum = rank + 1;
        struct hvd_options options = HVD_OPTIONS_INIT;
        struct hvd_tensor tensor = hvd_vector("x", &sum, 1, HVD_FLOAT64);
        options.set = pairs[first];
        if (hvd_set_rank(pairs[first]) < 0)
            continue;
        must(hvd_allreduce(&tensor, HVD_SUM, &options), "x of a set");
        if (sum != expected)
            ranks_fail("x of a set is %g, not %g", sum, expected);
    }
    must(hvd_barrier(HVD_ALL_RANKS), "hvd_barrier");
}

static double sum_of(const char *name, double value)
{
    struct hvd_tensor tensor = hvd_vector(name, &value, 1, HVD_FLOAT64);
    must(hvd_allreduce(&tensor, HVD_SUM, NULL), name);
    return value;
}

/* One rank submits "a" with another operation at once, so that its input does not travel; and it comes to its
 * end too. Then a rank joins, and the others go on without its input. */
static void mixed(void)
{
    double all = size * (size + 1) / 2.0;
    int last = -1;
    for (int round = 0; round < 100; round++) {
        double a = rank + 1;
        double b = 2 * a;
        struct hvd_tensor tensors[] = {hvd_vector("a", &a, 1, HVD_FLOAT64),
                                       hvd_vector("b", &b, 1, HVD_FLOAT64)};
        hvd_handle handles[2];
        for (int i = 0; i < 2; i++) {
            must(hvd_allreduce_async(&tensors[i], HVD_SUM, NULL, NULL, NULL, &handles[i]), "a or b");
            if (!odd || round % 3 == 0)
                must(hvd_wait(handles[i]), "hvd_wait");
        }
        for (int i = 0; i < 2 && odd && round % 3 != 0; i++)
            must(hvd_wait(handles[i]), "hvd_wait");
        if (a != all || b != 2 * all)
            ranks_fail("round %d: %g and %g, not %g", round, a, b, all);
    }
    for (int round = 0; round < 10 && !odd; round++) {
        if (sum_of("a", rank + 1) != all - size)
            ranks_fail("a joined rank is not left out");
    }
    must(hvd_join(HVD_ALL_RANKS, &last), "hvd_join");
    if (sum_of("a", rank + 1) != all)
        ranks_fail("after the join the sum is wrong");
}

/* Another length under a known name: an error on all ranks, and the name goes on. */
static void mismatch(void)
{
    double wide[2] = {1, 1};
    for (int round = 0; round < 3; round++) {
        if (sum_of("m", 1) != size)
            ranks_fail("round %d of m is wrong", round);
        struct hvd_tensor tensor = hvd_vector("m", wide, odd ? 2 : 1, HVD_FLOAT64);
        must_be(hvd_allreduce(&tensor, HVD_SUM, NULL), HVD_ERR_MISMATCH, "m of two lengths");
    }
}

/* What a timeline shows: "once" goes by a backend the first time only. */
static void shown(void)
{
    for (int round = 0; round < 5; round++) {
        if (sum_of("once", 1) != size)
            ranks_fail("round %d is wrong", round);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"bits", bits}, {"sets", sets}, {"mixed", mixed}, {"mismatch", mismatch}, {"shown", shown}};
    must(hvd_init(), "hvd_init");
    rank = hvd_rank();
    size = hvd_size();
    odd = rank == size - 1;
    state = (uint64_t)rank + 1;
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    }
    must(hvd_shutdown(), "hvd_shutdown");
    return 0;
}
