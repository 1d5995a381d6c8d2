/* test_visible_gpus.c: which GPU a program means by "device 0". */
#include "topo/visible_gpus.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

static struct machine machine;

static void make_machine(bool alike)
{
    machine.gpu_count = 4;
    for (int i = 0; i < 4; i++) {
        struct machine_gpu *gpu = &machine.gpus[i];
        *gpu = (struct machine_gpu){.pci = {.vendor = 0x10de, .device = 0x2330}};
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%d%d%d%d-aaaa", i, i, i, i / 2);
    }
    if (!alike)
        machine.gpus[1].pci.device = 0x1db1;
}

static const struct {
    const char *granted;          /* "13": GPUs 1 and 3 may be opened; "": all */
    const char *devices, *order;  /* NULL: not set */
    const char *visible, *advice; /* in the program's order; "": nothing is wrong */
    bool unlike, mig, uncertain;
} cases[] = {
    {"", NULL, NULL, "0123", "", false, false, false},
    {"", "2,0", NULL, "20", "", false, false, false},
    {"", "0", "FASTEST_FIRST", "0", "", false, false, false},
    {"13", NULL, NULL, "13", "", false, false, false},
    {"13", "0,1", NULL, "13", "", false, false, false},
    {"13", "1", NULL, "3", "", false, false, false},
    {"", "3,9,1", NULL, "3", "", false, false, false},
    {"", "1,-1,2", NULL, "1", "", false, false, false},
    {"", "1,1,2", NULL, "1", "", false, false, false},
    {"", "2, 0", NULL, "20", "", false, false, false},
    {"", "", NULL, "", "unset it", false, false, false},
    {"3", "", NULL, "", "unset it", false, false, false},
    {"", "none", NULL, "", "unset it", false, false, false},
    {"", "NoDevFiles", NULL, "", "unset it", false, false, false},
    {"", "GPU-2221-aaaa", NULL, "2", "", false, false, false},
    {"", "GPU-222,GPU-0", NULL, "20", "", false, false, false},
    {"", "GPU-", NULL, "", "does not tell the name of", false, false, true},
    {"", "GPU-9999", NULL, "", "does not tell the name of", false, false, true},
    {"", "MIG-5f1c2b3a-0000", NULL, "", "(MIG)", false, true, false},
    {"", NULL, NULL, "0123", "CUDA_DEVICE_ORDER=PCI_BUS_ID", true, false, true},
    {"", "1", NULL, "1", "CUDA_DEVICE_ORDER=PCI_BUS_ID", true, false, true},
    {"", "1", "PCI_BUS_ID", "1", "", true, false, false},
    {"", "GPU-1110-aaaa", NULL, "1", "", true, false, false},
};

START_TEST(variables_are_read_as_the_driver_does)
{
    int granted[4], count = 0;
    struct visible_gpus visible;
    struct visible_gpus_env env = {.devices = cases[_i].devices, .order = cases[_i].order};
    make_machine(!cases[_i].unlike);
    for (; cases[_i].granted[count] != 0; count++)
        granted[count] = cases[_i].granted[count] - '0';
    visible_gpus_map(&machine, granted, count > 0 ? count : -1, &env, &visible);
    ck_assert_int_eq(visible.count, (int)strlen(cases[_i].visible));
    for (int i = 0; i < visible.count; i++) {
        ck_assert_int_eq(visible.gpus[i], cases[_i].visible[i] - '0');
        ck_assert_int_eq(visible_gpus_device(&visible, visible.gpus[i]), i);
    }
    ck_assert_int_eq(visible.mig, cases[_i].mig);
    ck_assert_int_eq(visible.certain, !cases[_i].uncertain);
    if (cases[_i].advice[0] == 0)
        ck_assert_str_eq(visible.advice, "");
    ck_assert_msg(strstr(visible.advice, cases[_i].advice) != NULL, "%s", visible.advice);
}
END_TEST

START_TEST(a_beginning_that_two_names_have_is_no_name)
{
    static const char *const beginnings[] = {"GPU-0000", "GPU-000"};
    struct visible_gpus visible;
    struct visible_gpus_env env = {.devices = beginnings[_i]};
    make_machine(true);
    snprintf(machine.gpus[3].uuid, sizeof(machine.gpus[3].uuid), "GPU-0003-aaaa");
    visible_gpus_map(&machine, NULL, -1, &env, &visible);
    ck_assert_int_eq(visible.count, _i == 0);
    ck_assert_int_eq(visible.certain, _i == 0);
}
END_TEST

START_TEST(amd_counts_twice)
{
    struct visible_gpus visible;
    struct visible_gpus_env env = {.devices = "3,2,1", .within = "2,0"};
    make_machine(true);
    visible_gpus_map(&machine, NULL, -1, &env, &visible);
    ck_assert_int_eq(visible.count, 2);
    ck_assert_int_eq(visible.gpus[0], 1);
    ck_assert_int_eq(visible.gpus[1], 3);
    ck_assert_int_eq(visible_gpus_device(&visible, 2), -1);
}
END_TEST

START_TEST(hidden_gpus_are_advised_on)
{
    ck_assert_ptr_null(visible_gpus_hidden_advice(4, 4, 4));
    ck_assert_ptr_null(visible_gpus_hidden_advice(1, 4, 1));
    ck_assert_ptr_nonnull(visible_gpus_hidden_advice(1, 2, 2));
    ck_assert_ptr_nonnull(strstr(visible_gpus_hidden_advice(1, 4, 4), "--gres-flags=allow-task-sharing"));
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("visible_gpus");
    unit_add_rounds(tcase, variables_are_read_as_the_driver_does, 0, sizeof(cases) / sizeof(cases[0]));
    unit_add_rounds(tcase, a_beginning_that_two_names_have_is_no_name, 0, 2);
    tcase_add_test(tcase, amd_counts_twice);
    tcase_add_test(tcase, hidden_gpus_are_advised_on);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("visible_gpus", fill);
}
