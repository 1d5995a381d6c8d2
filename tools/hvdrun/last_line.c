/* last_line.c: hvdrun's last line, which says which rank failed first, and all that is known of it. */
#include "tools/hvdrun/last_line.h"

#include <stdio.h>
#include <sys/wait.h>

#include "tools/hvdrun/traceback.h"

/* The rank may not have imported hvd, which leaves its exception in a file. */
static void quote_exception(const struct verdict *verdict, const struct output *output,
                            struct verdict_facts *facts)
{
    int status = verdict_wait_status(verdict);
    if (facts->error[0] == 0 && WIFEXITED(status) && WEXITSTATUS(status) == TRACEBACK_STATUS)
        snprintf(facts->error, sizeof(facts->error), "%s", output_exception(output, verdict_rank(verdict)));
}

void last_line_print(const struct supervisor *supervisor)
{
    char sentence[VERDICT_LINE_BYTES];
    char crash[CRASH_TEXT_BYTES] = "";
    struct verdict_facts facts = {.gpu = ""};
    const struct verdict *verdict = supervisor->verdict;
    const struct starter *starter = &supervisor->starter;
    if (!verdict_is_failure(verdict))
        return;
    starter->ops->explain(starter->state, verdict_rank(verdict), verdict_wait_status(verdict), &facts, crash);
    quote_exception(verdict, supervisor->output, &facts);
    verdict_sentence(verdict, &facts, sentence);
    if (output_mid_line(supervisor->output))
        fputc('\n', stderr);
    if (crash[0] != 0)
        fprintf(stderr, "hvd: rank %d: %s\n", verdict_rank(verdict), crash);
    fprintf(stderr, "%s\n", sentence);
    launch_events_job_failed(supervisor->events, verdict_rank(verdict), verdict_exit_status(verdict),
                             sentence);
}
