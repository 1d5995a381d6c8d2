/* fuzz_planner.c: what the process that looks at a node answers slurmstepd, which is root's; the user owns
 * that process. An input is a list of bytes to write into a good answer: where (3 bytes, of which the first
 * bit says that the answer ends there), and what. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "fuzz.h"
#include "spank/planner_reply.h"
#include "topo/apply.h"
#include "topo/visible_gpus.h"

#define TASKS    2
#define CUT      0x800000U /* the first bit */
#define EDIT     4         /* bytes of the input for each byte of the answer */
#define MOST_GPU 2

struct reply {
    struct planner_reply head;
    struct plan_task tasks[TASKS];
};

/* Each task has a core and a GPU. */
static void write_good(struct reply *reply)
{
    struct planner_reply *head = &reply->head;
    memset(reply, 0, sizeof(*reply));
    head->task_count = TASKS;
    head->gpu_count = head->visible_count = MOST_GPU;
    for (int i = 0; i < TASKS; i++) {
        struct plan_task *task = &reply->tasks[i];
        bitmap_set(&head->cpus, i);
        bitmap_set(&task->cpus, i);
        snprintf(head->gpus[i].pci.id, PCI_ID_BYTES, "0000:%02x:00.0", i);
        snprintf(head->gpus[i].uuid, sizeof(head->gpus[i].uuid), "GPU-%d", i);
        snprintf(task->gpu_ids[0], PCI_ID_BYTES, "0000:%02x:00.0", i);
        snprintf(task->why, sizeof(task->why), "one core");
        task->bound = true;
        task->core_count = task->threads = task->gpu_count = 1;
        task->gpus[0] = task->devices[0] = i;
    }
}

/* Returns how much of the answer comes. */
static size_t damage(unsigned char *reply, const unsigned char *bytes, size_t length)
{
    size_t end = sizeof(struct reply);
    for (; length >= EDIT; bytes += EDIT, length -= EDIT) {
        unsigned where = (unsigned)bytes[0] << 16 | (unsigned)bytes[1] << 8 | bytes[2];
        size_t at = (where & ~CUT) % sizeof(struct reply);
        if ((where & CUT) != 0)
            end = at;
        else
            reply[at] = bytes[3];
    }
    return end;
}

/* As a task does with its part of the plan. */
static void use(const struct planner_result *answer)
{
    static struct machine machine;
    static struct env_variable variables[APPLY_MAX];
    static char *const environment[] = {(char *)"CUDA_VISIBLE_DEVICES=GPU-1,GPU-0", NULL};
    const struct visible_gpus_env names = {.devices = "GPU-1,GPU-0"};
    const struct planner_reply *head = &answer->head;
    struct visible_gpus visible;
    char line[1024];
    machine.gpu_count = head->gpu_count;
    memcpy(machine.gpus, head->gpus, sizeof(head->gpus));
    visible_gpus_map(&machine, NULL, -1, &names, &visible);
    for (int i = 0; i < TASKS; i++) {
        const struct plan_task *task = &answer->tasks[i];
        struct launched_task launched = {
            .task = task, .launcher = "srun", .gpu_visible = GPU_VISIBLE_ONE, .environment = environment};
        assert(bitmap_is_included(&task->cpus, &head->cpus) && !bitmap_is_empty(&task->cpus));
        apply_variables(&launched, variables, NULL);
        plan_task_text(task, i, line, sizeof(line));
        for (int k = 0; k < task->gpu_count; k++)
            assert(visible_gpus_device(&visible, task->gpus[k]) < MACHINE_MAX_GPUS);
        for (const char *at = line; *at != 0; at++)
            assert(*at >= ' ' && *at <= '~'); /* nothing that a terminal obeys */
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    static union {
        struct reply reply;
        unsigned char bytes[sizeof(struct reply)];
    } all;
    static struct planner_result answer; /* the head is large */
    struct hvd_error err = {""};
    write_good(&all.reply);
    size_t end = damage(all.bytes, bytes, length);
    int fd = kernel_memfd_create("reply");
    if (fd < 0)
        return 0;
    assert(write(fd, all.bytes, end) == (ssize_t)end);
    assert(lseek(fd, 0, SEEK_SET) == 0);
    memset(&answer, 0, sizeof(answer));
    int rc = planner_reply_read(fd, TASKS, 0, &answer, &err);
    if (rc == HVD_OK)
        use(&answer);
    else
        assert(rc < 0);
    assert(rc == HVD_OK || answer.head.status < 0 || err.text[0] != 0);
    assert(length > 0 || rc == HVD_OK);
    planner_result_clear(&answer);
    close(fd);
    return 0;
}
