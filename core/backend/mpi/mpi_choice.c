/* mpi_choice.c: may this process carry tensors by MPI? Pure. */
#include "backend/mpi/mpi_choice.h"

#include <stddef.h>
#include <string.h>

/* The handles of another implementation, or another major version, have different types, and the module would
 * crash. */
static bool is_ours(const char *library, const char *built_with)
{
    static const char name[] = "Open MPI v";
    if (strncmp(library, name, sizeof(name) - 1) != 0)
        return false;
    size_t digits = strspn(built_with, "0123456789");
    const char *version = library + sizeof(name) - 1;
    return digits > 0 && strncmp(version, built_with, digits) == 0 && version[digits] == '.';
}

static bool level_suffices(int level, const char **whyp)
{
    static const char *const levels[] = {
        "the program initialised MPI with MPI_THREAD_SINGLE; ask for MPI_THREAD_SERIALIZED in "
        "MPI_Init_thread",
        "the program initialised MPI with MPI_THREAD_FUNNELED; ask for MPI_THREAD_SERIALIZED in "
        "MPI_Init_thread",
    };
    if (level >= 2)
        return true;
    *whyp = levels[level == 1];
    return false;
}

bool mpi_choice(const struct mpi_facts *facts, const char **whyp)
{
    *whyp = NULL;
    if (facts->built_with == NULL)
        *whyp = "hvd was built without MPI";
    else if (facts->size == 1)
        *whyp = "the job has one rank";
    else if (facts->encrypt)
        *whyp = "encrypt=on, and hvd cannot encrypt what MPI sends";
    else if (facts->node_count == 1 && !facts->asked)
        *whyp = "the job is on one node; backends=mpi uses it there too";
    else if (facts->library != NULL && !is_ours(facts->library, facts->built_with))
        *whyp = "the program uses another MPI library than hvd was built with; build both with the same";
    else if (facts->finalized)
        *whyp = "the program has called MPI_Finalize, after which MPI cannot be used";
    else if (!facts->rdma && !facts->asked)
        *whyp =
            "this node has no RDMA device, and MPI is no faster over TCP than hvd is; backends=mpi uses it "
            "all the same";
    else if (facts->initialized)
        return level_suffices(facts->thread_level, whyp);
    else if (facts->sub_job)
        *whyp =
            "the job is a part of the launcher's, and MPI_Init is for all of that; call it before hvd_init";
    else if (!facts->pmix)
        *whyp = "the program has not initialised MPI, and there is no PMIx for MPI_Init; launch with PMIx";
    return *whyp == NULL;
}
