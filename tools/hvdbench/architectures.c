/* architectures.c: the parameter tensors of well-known networks, computed from their definitions. */
#include "tools/hvdbench/model.h"

#include <stdio.h>
#include <string.h>

/* One tensor of a layer; the first 0 ends its dimensions. */
struct model_layer {
    const char *name;
    int64_t shape[4];
};

static void add_layer(struct model *model, const char *prefix, const struct model_layer *part)
{
    char name[HVD_MAX_NAME + 1];
    int ndim = 0;
    while (ndim < 4 && part->shape[ndim] != 0)
        ndim++;
    snprintf(name, sizeof(name), "%s%s", prefix, part->name);
    model_add(model, name, HVD_FLOAT32, ndim, part->shape);
}

static void add_all(struct model *model, const char *prefix, const struct model_layer *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_layer(model, prefix, &parts[i]);
}

/* ---- ResNet-50 ---------------------------------------------------------------------------------- */

/* A convolution without bias, and the batch normalisation after it. */
static void add_convolution(struct model *model, const char *prefix, const char *convolution,
                            const char *norm, const int64_t shape[4])
{
    char name[64];
    struct model_layer part = {convolution, {shape[0], shape[1], shape[2], shape[3]}};
    add_layer(model, prefix, &part);
    snprintf(name, sizeof(name), "%s%s", prefix, norm);
    const struct model_layer scales[] = {{".weight", {shape[0]}}, {".bias", {shape[0]}}};
    add_all(model, name, scales, 2);
}

/* A bottleneck block: 1x1 convolution to [width] channels, 3x3 convolution, and 1x1 convolution to four times
 * [width]. */
static void add_bottleneck(struct model *model, const char *prefix, int64_t inputs, int64_t width,
                           bool downsample)
{
    int64_t outputs = 4 * width;
    add_convolution(model, prefix, "conv1.weight", "bn1", (const int64_t[4]){width, inputs, 1, 1});
    add_convolution(model, prefix, "conv2.weight", "bn2", (const int64_t[4]){width, width, 3, 3});
    add_convolution(model, prefix, "conv3.weight", "bn3", (const int64_t[4]){outputs, width, 1, 1});
    if (downsample)
        add_convolution(model, prefix, "downsample.0.weight", "downsample.1",
                        (const int64_t[4]){outputs, inputs, 1, 1});
}

static void add_resnet50(struct model *model)
{
    static const int depths[] = {3, 4, 6, 3};
    static const struct model_layer last[] = {{"fc.weight", {1000, 2048}}, {"fc.bias", {1000}}};
    int64_t inputs = 64;
    int64_t width = 64;
    add_convolution(model, "", "conv1.weight", "bn1", (const int64_t[4]){64, 3, 7, 7});
    for (int stage = 0; stage < 4; stage++) {
        for (int block = 0; block < depths[stage]; block++) {
            char prefix[32];
            snprintf(prefix, sizeof(prefix), "layer%d.%d.", stage + 1, block);
            add_bottleneck(model, prefix, inputs, width, block == 0);
            inputs = 4 * width;
        }
        width *= 2;
    }
    add_all(model, "", last, 2);
}

/* ---- BERT-large, with the two heads that it is pre-trained with ----------------------------------- */

enum { BERT_WIDTH = 1024, BERT_WORDS = 30522, BERT_LAYERS = 24 };

static void add_bert_large(struct model *model)
{
    enum { W = BERT_WIDTH };
    static const struct model_layer first[] = {
        {"word_embeddings.weight", {BERT_WORDS, W}},
        {"position_embeddings.weight", {512, W}},
        {"token_type_embeddings.weight", {2, W}},
        {"LayerNorm.weight", {W}},
        {"LayerNorm.bias", {W}},
    };
    static const struct model_layer layer[] = {
        {"attention.self.query.weight", {W, W}},    {"attention.self.query.bias", {W}},
        {"attention.self.key.weight", {W, W}},      {"attention.self.key.bias", {W}},
        {"attention.self.value.weight", {W, W}},    {"attention.self.value.bias", {W}},
        {"attention.output.dense.weight", {W, W}},  {"attention.output.dense.bias", {W}},
        {"attention.output.LayerNorm.weight", {W}}, {"attention.output.LayerNorm.bias", {W}},
        {"intermediate.dense.weight", {4 * W, W}},  {"intermediate.dense.bias", {4 * W}},
        {"output.dense.weight", {W, 4 * W}},        {"output.dense.bias", {W}},
        {"output.LayerNorm.weight", {W}},           {"output.LayerNorm.bias", {W}},
    };
    static const struct model_layer last[] = {
        {"bert.pooler.dense.weight", {W, W}},
        {"bert.pooler.dense.bias", {W}},
        {"cls.predictions.bias", {BERT_WORDS}},
        {"cls.predictions.transform.dense.weight", {W, W}},
        {"cls.predictions.transform.dense.bias", {W}},
        {"cls.predictions.transform.LayerNorm.weight", {W}},
        {"cls.predictions.transform.LayerNorm.bias", {W}},
        {"cls.seq_relationship.weight", {2, W}},
        {"cls.seq_relationship.bias", {2}},
    };
    add_all(model, "bert.embeddings.", first, sizeof(first) / sizeof(first[0]));
    for (int i = 0; i < BERT_LAYERS; i++) {
        char prefix[32];
        snprintf(prefix, sizeof(prefix), "bert.encoder.layer.%d.", i);
        add_all(model, prefix, layer, sizeof(layer) / sizeof(layer[0]));
    }
    add_all(model, "", last, sizeof(last) / sizeof(last[0]));
}

/* ---- GPT-2, the smallest ------------------------------------------------------------------------ */

enum { GPT2_WIDTH = 768, GPT2_LAYERS = 12 };

static void add_gpt2(struct model *model)
{
    enum { W = GPT2_WIDTH };
    static const struct model_layer first[] = {{"wte.weight", {50257, W}}, {"wpe.weight", {1024, W}}};
    static const struct model_layer layer[] = {
        {"ln_1.weight", {W}},
        {"ln_1.bias", {W}},
        {"attn.c_attn.weight", {W, 3 * W}},
        {"attn.c_attn.bias", {3 * W}},
        {"attn.c_proj.weight", {W, W}},
        {"attn.c_proj.bias", {W}},
        {"ln_2.weight", {W}},
        {"ln_2.bias", {W}},
        {"mlp.c_fc.weight", {W, 4 * W}},
        {"mlp.c_fc.bias", {4 * W}},
        {"mlp.c_proj.weight", {4 * W, W}},
        {"mlp.c_proj.bias", {W}},
    };
    static const struct model_layer last[] = {{"ln_f.weight", {W}}, {"ln_f.bias", {W}}};
    add_all(model, "", first, 2);
    for (int i = 0; i < GPT2_LAYERS; i++) {
        char prefix[32];
        snprintf(prefix, sizeof(prefix), "h.%d.", i);
        add_all(model, prefix, layer, sizeof(layer) / sizeof(layer[0]));
    }
    add_all(model, "", last, 2);
}

bool model_architecture(struct model *model, const char *title)
{
    static const struct {
        const char *title;
        void (*add)(struct model *model);
    } architectures[] = {{"resnet50", add_resnet50}, {"bert-large", add_bert_large}, {"gpt2", add_gpt2}};
    for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++) {
        if (strcmp(architectures[i].title, title) != 0)
            continue;
        architectures[i].add(model);
        return true;
    }
    return false;
}
