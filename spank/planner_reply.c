/* planner_reply.c: read and check what the process that looks at a node answers. */
#include "spank/planner_reply.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

static int read_exactly(int fd, void *bytes, size_t length, int64_t deadline_us, struct hvd_error *err)
{
    char *at = bytes;
    while (length > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int count = poll(&ready, 1, clock_ms_until(deadline_us));
        if (count < 0 && errno != EINTR)
            return error_set_errno(err, "cannot wait for the process that looks at this node");
        if (count <= 0 && clock_us() >= deadline_us)
            return error_set(
                err, HVD_ERR_TIMEOUT,
                "looking at the cores and devices of this node took too long, so tasks cannot be "
                "placed; topology=FILE in plugstack.conf saves looking, --hvd-bind=none placing");
        ssize_t got = count <= 0 ? 0 : read(fd, at, length);
        if (count > 0 && got == 0)
            return error_set(err, HVD_ERR_SYSTEM,
                             "the process that looks at this node ended before it had answered; "
                             "--hvd-bind=none places no tasks");
        if (got < 0 && errno != EINTR)
            return error_set_errno(err, "cannot read what the process that looks at this node found");
        at += got > 0 ? got : 0;
        length -= got > 0 ? (size_t)got : 0;
    }
    return HVD_OK;
}

static bool gpu_is_valid(const struct machine_gpu *gpu)
{
    return plan_text_valid(gpu->pci.id, sizeof(gpu->pci.id)) &&
           plan_text_valid(gpu->uuid, sizeof(gpu->uuid)) && plan_text_valid(gpu->file, sizeof(gpu->file));
}

static bool head_is_valid(const struct planner_reply *head, int task_count)
{
    if (head->status != HVD_OK)
        return head->status < 0 && plan_text_valid(head->sentence, sizeof(head->sentence));
    bool valid = head->task_count == task_count && plan_text_valid(head->note, sizeof(head->note)) &&
                 !bitmap_is_empty(&head->cpus) && head->visible_count >= 0 &&
                 head->visible_count <= MACHINE_MAX_GPUS && head->gpu_count >= 0 &&
                 head->gpu_count <= MACHINE_MAX_GPUS;
    for (int i = 0; valid && i < head->gpu_count; i++)
        valid = gpu_is_valid(&head->gpus[i]);
    return valid;
}

static int invalid_reply(struct hvd_error *err)
{
    return error_set(
        err, HVD_ERR_SYSTEM,
        "what the process that looks at this node answered is no plan; --hvd-bind=none places no "
        "tasks");
}

int planner_reply_read(int fd, int task_count, int64_t deadline_us, struct planner_result *answer,
                       struct hvd_error *err)
{
    int rc = read_exactly(fd, &answer->head, sizeof(answer->head), deadline_us, err);
    if (rc != HVD_OK)
        return rc;
    if (!head_is_valid(&answer->head, task_count))
        return invalid_reply(err);
    if (answer->head.status != HVD_OK)
        return error_set(err, answer->head.status, "%s", answer->head.sentence);
    size_t bytes = (size_t)task_count * sizeof(*answer->tasks);
    answer->tasks = malloc(bytes);
    if (answer->tasks == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to place %d tasks", task_count);
    rc = read_exactly(fd, answer->tasks, bytes, deadline_us, err);
    for (int i = 0; rc == HVD_OK && i < task_count; i++)
        if (!plan_task_valid(&answer->tasks[i]) ||
            !bitmap_is_included(&answer->tasks[i].cpus, &answer->head.cpus))
            rc = invalid_reply(err);
    return rc;
}

void planner_result_clear(struct planner_result *answer)
{
    free(answer->tasks);
    answer->tasks = NULL;
}
