/* mpi.c: the module bench_mpi.so, through which hvdbench calls MPI. */
#include "tools/hvdbench/mpi.h"

#include <limits.h>
#include <mpi.h>
#include <string.h>

static struct {
    char version[64];
} library;

static int mpi_error(int rc, const char *what, struct hvd_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(rc, text, &length);
    return error_set(err, HVD_ERR_SYSTEM, "%s: %s", what, text);
}

static int bench_mpi_open(struct hvd_error *err)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    int level = MPI_THREAD_SINGLE;
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (rc != MPI_SUCCESS)
        return mpi_error(rc, "MPI_Init_thread", err);
    if (level < MPI_THREAD_SERIALIZED) {
        MPI_Finalize();
        return error_set(err, HVD_ERR_UNSUPPORTED, "this MPI has no MPI_THREAD_SERIALIZED");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Get_library_version(text, &length);
    /* "Open MPI v4.1.4, package: ..." */
    size_t used = strcspn(text, ",\n");
    used = used < sizeof(library.version) ? used : sizeof(library.version) - 1;
    memcpy(library.version, text, used);
    library.version[used] = 0;
    return HVD_OK;
}

static int bench_mpi_size(void)
{
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static const char *bench_mpi_version(void)
{
    return library.version;
}

/* MPI_DATATYPE_NULL for the narrow types, which MPI does not have. */
static MPI_Datatype type_of(enum hvd_dtype dtype)
{
    switch (dtype) {
    case HVD_INT32:
        return MPI_INT32_T;
    case HVD_INT64:
        return MPI_INT64_T;
    case HVD_FLOAT32:
        return MPI_FLOAT;
    case HVD_FLOAT64:
        return MPI_DOUBLE;
    case HVD_UINT8:
        return MPI_UINT8_T;
    case HVD_INT8:
        return MPI_INT8_T;
    case HVD_UINT16:
        return MPI_UINT16_T;
    case HVD_INT16:
        return MPI_INT16_T;
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
    case HVD_BOOL:
    case HVD_FLOAT8_E4M3:
    case HVD_FLOAT8_E5M2:
        break;
    }
    return MPI_DATATYPE_NULL;
}

static bool bench_mpi_has(enum hvd_dtype dtype)
{
    return type_of(dtype) != MPI_DATATYPE_NULL;
}

static int bench_mpi_allreduce(void *data, int64_t count, enum hvd_dtype dtype, struct hvd_error *err)
{
    MPI_Datatype type = type_of(dtype);
    int bytes = 0;
    MPI_Type_size(type, &bytes);
    for (int64_t at = 0; at < count; at += INT_MAX) {
        int piece = (int)(count - at < INT_MAX ? count - at : INT_MAX);
        int rc = MPI_Allreduce(MPI_IN_PLACE, (char *)data + at * bytes, piece, type, MPI_SUM, MPI_COMM_WORLD);
        if (rc != MPI_SUCCESS)
            return mpi_error(rc, "MPI_Allreduce", err);
    }
    return HVD_OK;
}

static int bench_mpi_send(const void *data, int64_t bytes, int to, struct hvd_error *err)
{
    int rc = MPI_SUCCESS;
    for (int64_t at = 0; at < bytes && rc == MPI_SUCCESS; at += INT_MAX) {
        int piece = (int)(bytes - at < INT_MAX ? bytes - at : INT_MAX);
        rc = MPI_Send((const char *)data + at, piece, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    }
    return rc == MPI_SUCCESS ? HVD_OK : mpi_error(rc, "MPI_Send", err);
}

static int bench_mpi_receive(void *data, int64_t bytes, int from, struct hvd_error *err)
{
    int rc = MPI_SUCCESS;
    for (int64_t at = 0; at < bytes && rc == MPI_SUCCESS; at += INT_MAX) {
        int piece = (int)(bytes - at < INT_MAX ? bytes - at : INT_MAX);
        rc = MPI_Recv((char *)data + at, piece, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return rc == MPI_SUCCESS ? HVD_OK : mpi_error(rc, "MPI_Recv", err);
}

static void bench_mpi_close(void)
{
    MPI_Finalize();
}

extern const struct bench_mpi bench_mpi_module __attribute__((visibility("default")));

const struct bench_mpi bench_mpi_module = {
    .open = bench_mpi_open,
    .size = bench_mpi_size,
    .version = bench_mpi_version,
    .has = bench_mpi_has,
    .allreduce = bench_mpi_allreduce,
    .send = bench_mpi_send,
    .receive = bench_mpi_receive,
    .close = bench_mpi_close,
};
