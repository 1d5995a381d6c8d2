/* pmixhello.c: a plain PMIx client. Prints what the next rank has put. With an argument it does more:
 *   abort N    rank N calls PMIx_Abort with status 9 while the others wait in a fence
 *   vanish N   rank N exits with 0 after the first fence, without PMIx_Finalize, while the others fence again
 *   joined     says so before the first fence
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

static void must(const char *what, pmix_status_t rc)
{
    if (rc == PMIX_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(rc));
    exit(1);
}

static uint32_t job_size(void)
{
    pmix_proc_t all;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    must("PMIx_Get(JOB_SIZE)", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
    uint32_t size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return size;
}

static void fence(void)
{
    pmix_info_t collect;
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    must("PMIx_Fence", PMIx_Fence(NULL, 0, &collect, 1));
}

static void say_neighbour(uint32_t size)
{
    pmix_proc_t peer;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&peer, me.nspace, (me.rank + 1) % size);
    must("PMIx_Get(greeting)", PMIx_Get(&peer, "greeting", NULL, 0, &value));
    printf("rank %u of %u heard %s\n", me.rank, size, value->data.string);
    PMIX_VALUE_RELEASE(value);
}

int main(int argc, char **argv)
{
    char greeting[64];
    pmix_value_t value;
    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    uint32_t size = job_size();
    if (argc == 2 && strcmp(argv[1], "joined") == 0) {
        puts("joined");
        fflush(stdout);
    }
    bool mine = argc == 3 && strtoul(argv[2], NULL, 10) == me.rank;
    snprintf(greeting, sizeof(greeting), "hello from %u", me.rank);
    PMIX_VALUE_LOAD(&value, greeting, PMIX_STRING);
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "greeting", &value));
    must("PMIx_Commit", PMIx_Commit());
    if (mine && strcmp(argv[1], "abort") == 0)
        PMIx_Abort(9, "had enough", NULL, 0);
    fence();
    say_neighbour(size);
    fflush(stdout);
    if (mine && strcmp(argv[1], "vanish") == 0)
        _Exit(0);
    fence();
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
