/* test_hvdbench_model.c: models have the tensors of their papers and files. */
#include "config.h"

#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/hvdbench/model.h"

static struct model model;
static struct hvd_error err;

static int parse(const char *text)
{
    memset(&err, 0, sizeof(err));
    model = (struct model){0};
    return model_parse(&model, "file", text, strlen(text), &err);
}

static const struct model_tensor *find(const char *name)
{
    for (int i = 0; i < model.count; i++)
        if (strcmp(model.tensors[i].name, name) == 0)
            return &model.tensors[i];
    ck_abort_msg("there is no tensor %s", name);
}

/* The numbers of tensors and parameters that the authors of the models publish. */
START_TEST(architectures_have_their_published_size)
{
    static const struct {
        const char *title;
        int count;
        int64_t parameters;
        const char *first, *last;
    } cases[] = {
        {"resnet50", 161, 25557032, "conv1.weight", "fc.bias"},
        {"bert-large", 398, 336226108, "bert.embeddings.word_embeddings.weight", "cls.seq_relationship.bias"},
        {"gpt2", 148, 124439808, "wte.weight", "ln_f.bias"},
    };
    ck_assert_int_eq(model_load(&model, cases[_i].title, &err), HVD_OK);
    ck_assert_int_eq(model.bytes, cases[_i].parameters * 4);
    ck_assert_int_eq(model.count, cases[_i].count);
    ck_assert_str_eq(model.tensors[0].name, cases[_i].first);
    ck_assert_str_eq(model.tensors[model.count - 1].name, cases[_i].last);
    ck_assert_str_eq(model.title, cases[_i].title);
    for (int i = 0; i < model.count; i++)
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(model.tensors[i].name, model.tensors[j].name);
    model_fini(&model);
}
END_TEST

START_TEST(tensors_have_their_shapes)
{
    ck_assert_int_eq(model_load(&model, "resnet50", &err), HVD_OK);
    const struct model_tensor *tensor = find("layer4.0.downsample.0.weight");
    ck_assert_int_eq(tensor->ndim, 4);
    ck_assert_int_eq(tensor->shape[0], 2048);
    ck_assert_int_eq(tensor->shape[1], 1024);
    ck_assert_int_eq(tensor->shape[3], 1);
    ck_assert_int_eq(tensor->count, 2048 * 1024);
    ck_assert_int_eq(tensor->dtype, HVD_FLOAT32);
    model_fini(&model);
}
END_TEST

START_TEST(files_list_tensors)
{
    ck_assert_int_eq(parse("# a model\n"
                           "conv.weight  float32 64,3,7,7\r\n"
                           "\n"
                           "\tfc.bias int64 10 # the last\n"
                           "scale float64 1"),
                     HVD_OK);
    ck_assert_int_eq(model.count, 3);
    ck_assert_int_eq(model.bytes, 64 * 3 * 7 * 7 * 4 + 10 * 8 + 8);
    ck_assert_str_eq(model.tensors[1].name, "fc.bias");
    ck_assert_int_eq(model.tensors[1].dtype, HVD_INT64);
    ck_assert_int_eq(model.tensors[0].ndim, 4);
    ck_assert_int_eq(model.tensors[0].shape[3], 7);
    ck_assert_int_eq(model.tensors[2].count, 1);
    model_fini(&model);
}
END_TEST

/* The error of a bad file names the line, and no model is returned. */
START_TEST(wrong_files_are_refused)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"", "file: no tensors"},
        {"# nothing\n\n", "file: no tensors"},
        {"a float32 1\nb float32\n", "file, line 2: expected a name, a type and a shape"},
        {"a float32 1 2\n", "file, line 1: expected a name, a type and a shape"},
        {"a float31 1\n", "file, line 1: float31 is no type of elements"},
        {"a bool 1\n", "file, line 1: bool is no type of elements"},
        {"a float32 3,0\n", "file, line 1: the dimension 0 is too small"},
        {"a float32 3,x\n", "file, line 1: the dimension x "},
        {"a float32 3,\n", "file, line 1: the dimension  is empty"},
        {"a float32 3,,7\n", "file, line 1: the dimension  is empty"},
        {"a float32 -3\n", "file, line 1: the dimension -3 "},
        {"a float32 1,1,1,1,1,1,1,1,1\n", "file, line 1: more than 8 dimensions"},
        {"a float32 9999999999,9999999999\n", "file, line 1: a tensor of more than 1T"},
        {"a float32 1\nb float32 1\na float64 2\n", "file: two tensors have the name a"},
    };
    ck_assert_int_eq(parse(cases[_i].text), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, cases[_i].sentence));
    ck_assert_int_eq(model.count, 0);
    ck_assert_ptr_null(model.tensors);
}
END_TEST

START_TEST(names_and_lines_have_an_end)
{
    char text[1024];
    memset(text, 'a', sizeof(text));
    memcpy(text + HVD_MAX_NAME, " float32 1", 11);
    ck_assert_int_eq(parse(text), HVD_OK);
    ck_assert_uint_eq(strlen(model.tensors[0].name), HVD_MAX_NAME);
    model_fini(&model);
    memset(text, 'a', sizeof(text));
    memcpy(text + HVD_MAX_NAME + 1, " float32 1", 11);
    ck_assert_int_eq(parse(text), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "a name of 256 bytes"));
    text[HVD_MAX_NAME + 11] = 'a';
    text[sizeof(text) - 1] = 0;
    ck_assert_int_eq(parse(text), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "line 1: longer than"));
    ck_assert_int_eq(model_parse(&model, "file", "a\0b", 3, &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "a zero byte"));
}
END_TEST

START_TEST(a_model_is_read_from_its_file)
{
    char path[] = "/tmp/test_hvdbench_model.XXXXXX";
    static const char text[] = "a float32 2\n";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), strlen(text));
    int status = model_load(&model, path, &err);
    close(fd);
    unlink(path);
    ck_assert_int_eq(status, HVD_OK);
    ck_assert_int_eq(model.bytes, 8);
    model_fini(&model);
    ck_assert_int_eq(model_load(&model, path, &err), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "expected resnet50, bert-large, gpt2 or a file"));
    ck_assert_int_ne(model_load(&model, "/", &err), HVD_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "Is a directory"));
}
END_TEST

START_TEST(uniform_tensors_are_counted)
{
    ck_assert_int_eq(model_uniform(&model, 1000, 1024, &err), HVD_OK);
    ck_assert_int_eq(model.count, 1000);
    ck_assert_int_eq(model.tensors[999].count, 256);
    ck_assert_str_ne(model.tensors[0].name, model.tensors[999].name);
    ck_assert_int_eq(model.bytes, 1000 * 1024);
    model_fini(&model);
    ck_assert_int_eq(model_uniform(&model, 1, 6, &err), HVD_ERR_INVALID);
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("model");
    tcase_add_loop_test(tcase, architectures_have_their_published_size, 0, 3);
    tcase_add_test(tcase, tensors_have_their_shapes);
    tcase_add_test(tcase, files_list_tensors);
    tcase_add_loop_test(tcase, wrong_files_are_refused, 0, 14);
    tcase_add_test(tcase, names_and_lines_have_an_end);
    tcase_add_test(tcase, a_model_is_read_from_its_file);
    tcase_add_test(tcase, uniform_tensors_are_counted);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdbench_model", fill);
}
