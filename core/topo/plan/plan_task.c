/* plan_task.c: print the plan of one task, and check whether it is valid. Needs no other stage. */
#include "topo/plan/plan_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_append(char *text, size_t text_bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, text_bytes - used, format, args);
    va_end(args);
}

const char *plan_task_text(const struct plan_task *task, int index, char *text, size_t text_bytes)
{
    char list[128];
    snprintf(text, text_bytes, "task %d: cpus %s", index, bitmap_text(&task->cpus, list, sizeof(list)));
    text_append(text, text_bytes, ", memory %s", bitmap_text(&task->mems, list, sizeof(list)));
    for (int i = 0; i < task->gpu_count; i++)
        text_append(text, text_bytes, "%s%s", i == 0 ? ", GPU " : ",", task->gpu_ids[i]);
    for (int i = 0; i < task->nic_count; i++)
        text_append(text, text_bytes, "%s%s", i == 0 ? ", NIC " : ",", task->nic_names[i]);
    text_append(text, text_bytes, ", %d thread%s: %s", task->threads, task->threads == 1 ? "" : "s",
                task->why);
    return text;
}

bool plan_text_valid(const char *text, size_t text_bytes)
{
    size_t used = strnlen(text, text_bytes);
    for (size_t i = 0; i < used; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return used < text_bytes;
}

/* Is the byte 0 or 1? Reading any other value, from bytes of another process, as a bool is undefined. */
static bool is_bool(const bool *value)
{
    unsigned char byte;
    memcpy(&byte, value, 1);
    return byte <= 1;
}

bool plan_task_valid(const struct plan_task *task)
{
    bool valid = task->gpu_count >= 0 && task->gpu_count <= PLAN_TASK_GPUS && task->nic_count >= 0 &&
                 task->nic_count <= PLAN_TASK_NICS && is_bool(&task->bound) && is_bool(&task->shared) &&
                 is_bool(&task->gpu_amd) && task->threads >= 1 && task->threads <= BITMAP_BITS &&
                 task->core_count >= 1 && task->core_count <= BITMAP_BITS && !bitmap_is_empty(&task->cpus) &&
                 plan_text_valid(task->why, sizeof(task->why)) &&
                 plan_text_valid(task->places, sizeof(task->places));
    for (int i = 0; valid && i < task->gpu_count; i++)
        valid = plan_text_valid(task->gpu_ids[i], sizeof(task->gpu_ids[i])) && task->devices[i] >= 0 &&
                task->devices[i] < MACHINE_MAX_GPUS;
    for (int i = 0; valid && i < task->nic_count; i++)
        valid = plan_text_valid(task->nic_names[i], sizeof(task->nic_names[i]));
    return valid;
}
