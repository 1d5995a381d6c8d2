/* train.c: data-parallel training: every rank learns from its share of each batch.
 *
 *     srun -N2 -n4 --hvd-fusion=64M ./train --epochs=40
 *     hvdrun -n 4 --hvd-fusion=64M ./train --epochs=40
 *     hvdrun -n 4 --min-np=2 --max-restarts=3 ./train     goes on when ranks are killed
 *
 * A network of three layers learns to read handwritten digits of 8x8 points. It is the program one would
 * write for a single process, with four additions, which your program needs too:
 *
 *   1. hvd_init at the start and hvd_shutdown at the end;
 *   2. the state of training, which is the parameters and how far it is (add_state): that of rank 0 goes to
 *      all ranks before the first step, and when a rank is lost the others go back to the last commit, all in
 *      hvd_elastic_run. So calls that may lose a rank return their status;
 *   3. each rank takes its share of every batch (share_of), and the gradients are summed over the ranks
 *      before they are used. Each is submitted as soon as it is known, so that the gradient of the last layer
 *      travels while the program computes those of the layers below (learn_from);
 *   4. the numbers it prints are summed over the ranks too (run_epoch).
 *
 * Gradients lie in memory of hvd_alloc, so that ranks of one node sum them without copying; any other memory
 * works too.
 *
 * The batch size is that of the whole job, not of one rank, so that any number of ranks learns the same.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hvd.h>

#ifndef TRAIN_DATA
#define TRAIN_DATA "digits.csv" /* where the data is installed */
#endif

enum { PIXELS = 64, PIXEL_MAX = 16, DIGITS = 10, LAYERS = 3, BATCH = 64, HELD_OUT = 5, EPOCHS = 30 };

static const int layer_widths[LAYERS + 1] = {PIXELS, 64, 32, DIGITS};
static const double learning_rate = 0.05;
static const double momentum = 0.9;

struct options {
    int epochs;
    const char *data; /* NULL: look for the file */
};

struct digits {
    int count;
    double (*pixels)[PIXELS]; /* 0 to 1 */
    int *labels;              /* 0 to 9 */
};

/* One tensor that is trained, its gradient, and the hvd operation that sums the gradient. */
struct parameter {
    char name[32], gradient_name[48]; /* the names of the two tensors, the same on all ranks */
    int count;
    double *value, *gradient, *velocity;
    hvd_handle pending;
};

/* Output and delta have one row for each sample of a batch. */
struct layer {
    int inputs, outputs;
    struct parameter weight; /* [inputs][outputs] */
    struct parameter bias;   /* [outputs] */
    double *output;          /* [BATCH][outputs] */
    double *delta;           /* [BATCH][outputs]: how the loss changes with the output */
};

struct network {
    double input[BATCH][PIXELS];
    int labels[BATCH];
    struct layer layers[LAYERS];
};

/* Sums over samples. Both are doubles, so that they can be one tensor. */
struct score {
    double loss, correct;
};

/* How far training is. */
struct progress {
    int epochs;         /* that are done */
    uint64_t seed;      /* of the order of the pictures */
    struct score score; /* of the last epoch */
};

/* All that training works with. */
struct run {
    int epochs; /* to be done */
    struct digits training, held_out;
    struct network *network;
    int *order; /* of the pictures, the same on all ranks */
    struct progress progress;
};

/* ---- Failure -------------------------------------------------------------------------------- */

/* Exit at once. After an error there is no point in waiting for the others, not even in exit handlers. */
static void __attribute__((noreturn)) leave(const char *what, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "train: rank %d: %s: %s\n", hvd_rank(), what, why);
    _exit(EXIT_FAILURE);
}

static void must(const char *what, enum hvd_status status)
{
    if (status != HVD_OK)
        leave(what, hvd_error_text());
}

static void *must_allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (memory == NULL)
        leave("allocating memory", strerror(errno));
    return memory;
}

/* Zeroed memory that the other ranks of this node can reach, so that they sum the gradients in it without a
 * copy. */
static void *must_allocate_shared(size_t count, size_t bytes)
{
    void *memory = NULL;
    must("hvd_alloc", hvd_alloc((int64_t)(count * bytes), &memory));
    return memory;
}

/* ---- Data ----------------------------------------------------------------------------------- */

/* Read "0,0,5, ... ,16,7": 64 points, then the digit. Returns 0, or -1 if the line has another form. */
static int parse_digit(const char *line, double *pixels, int *labelp)
{
    for (int i = 0; i <= PIXELS; i++) {
        char *end = NULL;
        long number = strtol(line, &end, 10);
        if (end == line || number < 0 || number > (i < PIXELS ? PIXEL_MAX : DIGITS - 1))
            return -1;
        if (*end != (i < PIXELS ? ',' : '\n'))
            return -1;
        if (i < PIXELS)
            pixels[i] = (double)number / PIXEL_MAX;
        else
            *labelp = (int)number;
        line = end + 1;
    }
    return 0;
}

static void append_digit(struct digits *digits, const double *pixels, int label)
{
    if (digits->count % 1024 == 0) {
        size_t room = (size_t)digits->count + 1024;
        digits->pixels = realloc(digits->pixels, room * sizeof(*digits->pixels));
        digits->labels = realloc(digits->labels, room * sizeof(*digits->labels));
        if (digits->pixels == NULL || digits->labels == NULL)
            leave("reading the digits", strerror(errno));
    }
    memcpy(digits->pixels[digits->count], pixels, sizeof(*digits->pixels));
    digits->labels[digits->count++] = label;
}

/* Every fifth digit is held out of training, to test the network on pictures that it has not seen. */
static void load_digits(const char *path, struct digits *training, struct digits *held_out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        leave(path, strerror(errno));
    char line[512];
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        double pixels[PIXELS];
        int label = 0;
        if (parse_digit(line, pixels, &label) < 0) {
            char why[96];
            snprintf(why, sizeof(why),
                     "line %d is not %d numbers from 0 to %d and a digit, with commas between", number,
                     PIXELS, PIXEL_MAX);
            leave(path, why);
        }
        append_digit(number % HELD_OUT == 0 ? held_out : training, pixels, label);
    }
    if (ferror(file))
        leave(path, strerror(errno));
    fclose(file);
    if (held_out->count == 0)
        leave(path, "too few digits; expected at least 5");
}

static void free_digits(struct digits *digits)
{
    free(digits->pixels);
    free(digits->labels);
}

/* Find the data beside this program, as in the build tree, or else where it is installed. */
static const char *find_data(char *path, size_t path_bytes)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length > 0) {
        program[length] = 0;
        *strrchr(program, '/') = 0;
        int needed = snprintf(path, path_bytes, "%s/digits.csv", program);
        if (needed > 0 && (size_t)needed < path_bytes && access(path, R_OK) == 0)
            return path;
    }
    return TRAIN_DATA;
}

/* ---- Random numbers ------------------------------------------------------------------------- */

/* splitmix64, which gives the same numbers on every machine, unlike rand. */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double random_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)(random_next(state) >> 11) / 9007199254740992.0;
}

static void shuffle(int *order, int count, uint64_t *state)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(random_next(state) % (uint64_t)(i + 1));
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* ---- The network ---------------------------------------------------------------------------- */

static void parameter_init(struct parameter *parameter, int layer, const char *part, int count)
{
    snprintf(parameter->name, sizeof(parameter->name), "layer%d.%s", layer, part);
    snprintf(parameter->gradient_name, sizeof(parameter->gradient_name), "gradient.%s", parameter->name);
    parameter->count = count;
    parameter->value = must_allocate((size_t)count, sizeof(double));
    parameter->gradient = must_allocate_shared((size_t)count, sizeof(double));
    parameter->velocity = must_allocate((size_t)count, sizeof(double));
}

static void parameter_fini(struct parameter *parameter)
{
    free(parameter->value);
    must("hvd_free", hvd_free(parameter->gradient));
    free(parameter->velocity);
}

static struct network *network_create(uint64_t seed)
{
    struct network *network = must_allocate(1, sizeof(*network));
    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &network->layers[i];
        layer->inputs = layer_widths[i];
        layer->outputs = layer_widths[i + 1];
        parameter_init(&layer->weight, i, "weight", layer->inputs * layer->outputs);
        parameter_init(&layer->bias, i, "bias", layer->outputs);
        layer->output = must_allocate((size_t)(BATCH * layer->outputs), sizeof(double));
        layer->delta = must_allocate((size_t)(BATCH * layer->outputs), sizeof(double));
        double limit = sqrt(6.0 / layer->inputs);
        for (int w = 0; w < layer->weight.count; w++)
            layer->weight.value[w] = random_between(&seed, -limit, limit);
    }
    return network;
}

static void network_destroy(struct network *network)
{
    for (int i = 0; i < LAYERS; i++) {
        parameter_fini(&network->layers[i].weight);
        parameter_fini(&network->layers[i].bias);
        free(network->layers[i].output);
        free(network->layers[i].delta);
    }
    free(network);
}

/* The input of a layer: the pictures, or the output of the layer below. */
static const double *layer_input(const struct network *network, int i)
{
    return i == 0 ? &network->input[0][0] : network->layers[i - 1].output;
}

/* output = input x weight + bias, cut off at 0 between layers (ReLU). */
static void forward(struct network *network, int rows)
{
    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &network->layers[i];
        const double *input = layer_input(network, i);
        double *output = layer->output;
        for (int row = 0; row < rows; row++, input += layer->inputs, output += layer->outputs) {
            memcpy(output, layer->bias.value, (size_t)layer->outputs * sizeof(double));
            for (int from = 0; from < layer->inputs; from++) {
                const double *weight = layer->weight.value + from * layer->outputs;
                for (int to = 0; to < layer->outputs; to++)
                    output[to] += input[from] * weight[to];
            }
            for (int to = 0; to < layer->outputs && i < LAYERS - 1; to++)
                output[to] = fmax(output[to], 0.0);
        }
    }
}

/* Score the answers (softmax, cross-entropy), and compute the last layer's delta. */
static void judge(struct network *network, int rows, struct score *score)
{
    struct layer *last = &network->layers[LAYERS - 1];
    for (int row = 0; row < rows; row++) {
        const double *output = &last->output[row * DIGITS];
        double *delta = &last->delta[row * DIGITS];
        int label = network->labels[row];
        int answer = 0;
        double sum = 0.0;
        for (int digit = 1; digit < DIGITS; digit++)
            answer = output[digit] > output[answer] ? digit : answer;
        for (int digit = 0; digit < DIGITS; digit++)
            sum += exp(output[digit] - output[answer]);
        for (int digit = 0; digit < DIGITS; digit++)
            delta[digit] = exp(output[digit] - output[answer]) / sum - (digit == label ? 1.0 : 0.0);
        score->loss += log(sum) - (output[label] - output[answer]);
        score->correct += answer == label ? 1.0 : 0.0;
    }
}

/* Compute the gradients of layer [i], summed over the rows. */
static void layer_gradients(struct network *network, int i, int rows)
{
    struct layer *layer = &network->layers[i];
    const double *input = layer_input(network, i);
    const double *delta = layer->delta;
    memset(layer->weight.gradient, 0, (size_t)layer->weight.count * sizeof(double));
    memset(layer->bias.gradient, 0, (size_t)layer->bias.count * sizeof(double));
    for (int row = 0; row < rows; row++, input += layer->inputs, delta += layer->outputs) {
        for (int from = 0; from < layer->inputs; from++) {
            double *gradient = layer->weight.gradient + from * layer->outputs;
            for (int to = 0; to < layer->outputs; to++)
                gradient[to] += input[from] * delta[to];
        }
        for (int to = 0; to < layer->outputs; to++)
            layer->bias.gradient[to] += delta[to];
    }
}

/* Compute the delta of the layer below layer [i] (backpropagation). */
static void backward(struct network *network, int i, int rows)
{
    const struct layer *layer = &network->layers[i];
    struct layer *below = &network->layers[i - 1];
    for (int row = 0; row < rows; row++) {
        const double *delta = &layer->delta[row * layer->outputs];
        for (int from = 0; from < layer->inputs; from++) {
            const double *weight = layer->weight.value + from * layer->outputs;
            double sum = 0.0;
            for (int to = 0; to < layer->outputs; to++)
                sum += weight[to] * delta[to];
            below->delta[row * layer->inputs + from] =
                below->output[row * layer->inputs + from] > 0.0 ? sum : 0.0;
        }
    }
}

/* ---- Training on many ranks ----------------------------------------------------------------- */

/* This rank's share of [count] items: it begins at *firstp, and its length is returned. Shares differ by at
 * most one; with more ranks than items some are empty. */
static int share_of(int count, int *firstp)
{
    int64_t first = (int64_t)count * hvd_rank() / hvd_size();
    int64_t end = (int64_t)count * (hvd_rank() + 1) / hvd_size();
    *firstp = (int)first;
    return (int)(end - first);
}

static void add_parameter(hvd_state state, struct parameter *parameter)
{
    char velocity_name[48];
    int64_t bytes = (int64_t)sizeof(double) * parameter->count;
    snprintf(velocity_name, sizeof(velocity_name), "velocity.%s", parameter->name);
    must(parameter->name, hvd_state_add(state, parameter->name, parameter->value, bytes));
    must(velocity_name, hvd_state_add(state, velocity_name, parameter->velocity, bytes));
}

/* What all ranks have in common, and what a rank needs that takes the place of another one. */
static void add_state(hvd_state state, struct run *run)
{
    for (int i = 0; i < LAYERS; i++) {
        add_parameter(state, &run->network->layers[i].weight);
        add_parameter(state, &run->network->layers[i].bias);
    }
    int64_t bytes = (int64_t)sizeof(*run->order) * run->training.count;
    must("order", hvd_state_add(state, "order", run->order, bytes));
    must("progress", hvd_state_add(state, "progress", &run->progress, sizeof(run->progress)));
}

/* Start to sum a gradient over the ranks. Do not touch the gradient until hvd_wait has returned. */
static enum hvd_status submit(struct parameter *parameter)
{
    struct hvd_tensor tensor =
        hvd_vector(parameter->gradient_name, parameter->gradient, parameter->count, HVD_FLOAT64);
    return hvd_allreduce_async(&tensor, HVD_SUM, NULL, NULL, NULL, &parameter->pending);
}

/* Wait for the sum over the whole batch, and move the parameter against the mean gradient. */
static enum hvd_status descend(struct parameter *parameter, int batch)
{
    enum hvd_status status = hvd_wait(parameter->pending);
    for (int i = 0; i < parameter->count && status == HVD_OK; i++) {
        parameter->velocity[i] =
            momentum * parameter->velocity[i] - learning_rate * parameter->gradient[i] / batch;
        parameter->value[i] += parameter->velocity[i];
    }
    return status;
}

/* Load [rows] pictures in the order of [order], or, if it is NULL, in the order of the file. */
static void load_rows(struct network *network, const struct digits *digits, const int *order, int first,
                      int rows)
{
    for (int row = 0; row < rows; row++) {
        int which = order == NULL ? first + row : order[first + row];
        memcpy(network->input[row], digits->pixels[which], sizeof(network->input[row]));
        network->labels[row] = digits->labels[which];
    }
}

/* One step on [batch] pictures of [order]; this rank computes its share of them. A rank whose share is empty
 * submits zeros, because the others wait for it. */
static enum hvd_status learn_from(struct network *network, const struct digits *training, const int *order,
                                  int batch, struct score *score)
{
    enum hvd_status status = HVD_OK;
    int first = 0;
    int rows = share_of(batch, &first);
    load_rows(network, training, order, first, rows);
    forward(network, rows);
    judge(network, rows, score);
    for (int i = LAYERS - 1; i >= 0 && status == HVD_OK; i--) {
        layer_gradients(network, i, rows);
        status = submit(&network->layers[i].weight);
        if (status == HVD_OK)
            status = submit(&network->layers[i].bias);
        if (i > 0)
            backward(network, i, rows);
    }
    for (int i = LAYERS - 1; i >= 0 && status == HVD_OK; i--) {
        status = descend(&network->layers[i].weight, batch);
        if (status == HVD_OK)
            status = descend(&network->layers[i].bias, batch);
    }
    return status;
}

/* Score this rank's share of the pictures that were held out. */
static void evaluate(struct network *network, const struct digits *held_out, struct score *score)
{
    int first = 0;
    int left = share_of(held_out->count, &first);
    for (int rows = 0; left > 0; left -= rows, first += rows) {
        rows = left < BATCH ? left : BATCH;
        load_rows(network, held_out, NULL, first, rows);
        forward(network, rows);
        judge(network, rows, score);
    }
}

/* Train on every picture once. The score is the mean loss over these, and the fraction of the held out
 * pictures that the network then reads correctly. */
static enum hvd_status run_epoch(struct run *run)
{
    struct score learned = {0};
    struct score judged = {0};
    const struct digits *training = &run->training;
    enum hvd_status status = HVD_OK;
    shuffle(run->order, training->count, &run->progress.seed);
    for (int done = 0; done < training->count && status == HVD_OK; done += BATCH) {
        int left = training->count - done;
        status = learn_from(run->network, training, run->order + done, left < BATCH ? left : BATCH, &learned);
    }
    if (status != HVD_OK)
        return status;
    evaluate(run->network, &run->held_out, &judged);

    struct score *total = &run->progress.score;
    *total = (struct score){.loss = learned.loss, .correct = judged.correct};
    struct hvd_tensor tensor = hvd_vector("score", total, 2, HVD_FLOAT64);
    status = hvd_allreduce(&tensor, HVD_SUM, NULL);
    total->loss /= training->count;
    total->correct /= run->held_out.count;
    return status;
}

/* hvd_elastic_run calls it, and calls it again when a rank was lost or joins: then it goes on where the last
 * commit was. */
static enum hvd_status train(hvd_state state, void *arg)
{
    struct run *run = arg;
    struct progress *progress = &run->progress;
    enum hvd_status status = HVD_OK;
    while (status == HVD_OK && progress->epochs < run->epochs) {
        status = run_epoch(run);
        if (status != HVD_OK)
            break;
        progress->epochs++;
        if (hvd_rank() == 0)
            printf("epoch %d loss=%.6f accuracy=%.4f\n", progress->epochs, progress->score.loss,
                   progress->score.correct);
        status = hvd_state_commit(state);
    }
    return status;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run_begin(struct run *run, const struct options *options)
{
    char path[PATH_MAX];
    *run = (struct run){.epochs = options->epochs, .progress = {.seed = 1}};
    load_digits(options->data != NULL ? options->data : find_data(path, sizeof(path)), &run->training,
                &run->held_out);
    /* Each rank begins with different numbers; then all ranks get those of rank 0. */
    run->network = network_create(1000 + (uint64_t)hvd_rank());
    run->order = must_allocate((size_t)run->training.count, sizeof(*run->order));
    for (int i = 0; i < run->training.count; i++)
        run->order[i] = i;
}

static void run_end(struct run *run)
{
    free(run->order);
    network_destroy(run->network);
    free_digits(&run->training);
    free_digits(&run->held_out);
}

static void run_all(const struct options *options)
{
    struct run run;
    hvd_state state = 0;
    run_begin(&run, options);
    must("hvd_state_create", hvd_state_create(&state));
    add_state(state, &run);
    double begin = seconds_now();
    must("training", hvd_elastic_run(train, state, &run));
    if (hvd_rank() == 0)
        printf("done loss=%.6f accuracy=%.4f ranks=%d seconds=%.2f\n", run.progress.score.loss,
               run.progress.score.correct, hvd_size(), seconds_now() - begin);
    must("hvd_state_free", hvd_state_free(state));
    run_end(&run);
}

/* ---- The program ---------------------------------------------------------------------------- */

/* Returns 0, or -1 after saying what is wrong. */
static int parse_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--epochs=", 9) == 0) {
            char *end = NULL;
            long epochs = strtol(argv[i] + 9, &end, 10);
            if (end == argv[i] + 9 || *end != 0 || epochs < 1 || epochs > 1000000000) {
                fprintf(stderr, "train: %s: expected a number from 1 to 1000000000\n", argv[i]);
                return -1;
            }
            options->epochs = (int)epochs;
        } else if (strncmp(argv[i], "--data=", 7) == 0) {
            options->data = argv[i] + 7;
        } else {
            fprintf(stderr, "train: %s: unknown; expected --epochs=N or --data=FILE\n", argv[i]);
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = {.epochs = EPOCHS, .data = NULL};
    if (parse_options(argc, argv, &options) < 0)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* show progress at once, also through a pipe */
    must("hvd_init", hvd_init());
    run_all(&options);
    must("hvd_shutdown", hvd_shutdown());
    return EXIT_SUCCESS;
}
