/* The reductions, and the choice between Netfold and MPI. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* Netfold's element type of a datatype; 0 when it has none. */
static int32_t dtype_of(MPI_Datatype type, size_t *bytes)
{
#define TYPE(mpi, dtype, size)            \
    if (type == (mpi)) {                  \
        *bytes = (size);                  \
        return NETFOLD_DTYPE_##dtype;     \
    }
    TYPE(MPI_FLOAT, F32, 4)
    TYPE(MPI_DOUBLE, F64, 8)
    TYPE(MPI_INT, I32, 4)
    TYPE(MPI_INT32_T, I32, 4)
    TYPE(MPI_INT64_T, I64, 8)
    TYPE(MPI_LONG_LONG, I64, 8)
    TYPE(MPI_UNSIGNED, U32, 4)
    TYPE(MPI_UINT32_T, U32, 4)
    TYPE(MPI_UINT64_T, U64, 8)
    TYPE(MPI_UNSIGNED_LONG_LONG, U64, 8)
    TYPE(MPI_SHORT, I16, 2)
    TYPE(MPI_INT16_T, I16, 2)
    TYPE(MPI_UNSIGNED_SHORT, U16, 2)
    TYPE(MPI_UINT16_T, U16, 2)
    TYPE(MPI_SIGNED_CHAR, I8, 1)
    TYPE(MPI_INT8_T, I8, 1)
    TYPE(MPI_UNSIGNED_CHAR, U8, 1)
    TYPE(MPI_UINT8_T, U8, 1)
#if __SIZEOF_LONG__ == 8
    TYPE(MPI_LONG, I64, 8)
    TYPE(MPI_UNSIGNED_LONG, U64, 8)
#else
    TYPE(MPI_LONG, I32, 4)
    TYPE(MPI_UNSIGNED_LONG, U32, 4)
#endif
#undef TYPE
    return 0;
}

/* Netfold's operation; -1 when it has none. */
static int32_t op_of(MPI_Op op, bool floating)
{
    if (op == MPI_SUM)
        return NETFOLD_OP_SUM;
    if (op == MPI_MIN)
        return NETFOLD_OP_MIN;
    if (op == MPI_MAX)
        return NETFOLD_OP_MAX;
    if (op == MPI_PROD)
        return NETFOLD_OP_PRODUCT;
    if (op == MPI_BAND && !floating)
        return NETFOLD_OP_BIT_AND;
    if (op == MPI_BOR && !floating)
        return NETFOLD_OP_BIT_OR;
    if (op == MPI_BXOR && !floating)
        return NETFOLD_OP_BIT_XOR;
    return -1;
}

bool shim_translate(int count, int parts, MPI_Datatype type, MPI_Op op, struct shim_call *call)
{
    if (!shim_settings.on || count <= 0)
        return false;
    call->dtype = dtype_of(type, &call->element);
    call->op = op_of(op, call->dtype == NETFOLD_DTYPE_F32 || call->dtype == NETFOLD_DTYPE_F64);
    call->count = (size_t)count;
    return call->dtype != 0 && call->op >= 0 &&
           call->count * (size_t)parts * call->element >= shim_settings.min_bytes;
}

/* The communicator's record if Netfold does its reductions; connects it if it was not tried before. */
static struct shim_group *ready(MPI_Comm comm)
{
    struct shim_group *group = shim_group(comm);
    if (group != NULL && group->standing == SHIM_NEW)
        shim_connect(group, comm);
    return group != NULL && group->standing == SHIM_ON ? group : NULL;
}

/* Waits for a reduction, while MPI makes progress. */
static netfold_result run(struct shim_group *group, const struct shim_call *call, const void *send, void *recv)
{
    netfold_work *work;
    netfold_result result = netfold_comm_start(group->netfold, call->collective, send, recv, call->count, call->dtype,
                                               call->op, 0, &work);
    if (result != NETFOLD_RESULT_OK)
        return result;
    while ((result = netfold_work_wait(work, 1)) == NETFOLD_RESULT_AGAIN)
        shim_progress();
    netfold_work_free(work);
    return result;
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct shim_call call = {.collective = NETFOLD_COLLECTIVE_ALL_REDUCE};
    struct shim_group *group = NULL;
    if (shim_translate(count, 1, type, op, &call))
        group = ready(comm);
    else
        shim_connect_wanted(comm);
    shim_count(group != NULL, call.count * call.element);
    if (group == NULL)
        return PMPI_Allreduce(send, recv, count, type, op, comm);
    if (run(group, &call, send == MPI_IN_PLACE ? recv : send, recv) != NETFOLD_RESULT_OK)
        return shim_fail(comm);
    return MPI_SUCCESS;
}

/* Part r of the reduction goes to rank r. */
static int reduce_scatter(struct shim_group *group, struct shim_call *call, const void *send, void *recv, MPI_Comm comm)
{
    size_t bytes = call->count * call->element;
    void *part = recv;
    call->collective = NETFOLD_COLLECTIVE_REDUCE_SCATTER;
    if (send == MPI_IN_PLACE) {
        /* The input is all of recv, whose first part alone may change. */
        part = malloc(bytes);
        if (part == NULL) {
            netfold_comm_abort(group->netfold); /* or the others would wait */
            PMPI_Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
            return MPI_ERR_NO_MEM;
        }
        send = recv;
    }
    netfold_result result = run(group, call, send, part);
    if (part != recv) {
        if (result == NETFOLD_RESULT_OK)
            memcpy(recv, part, bytes);
        free(part);
    }
    return result == NETFOLD_RESULT_OK ? MPI_SUCCESS : shim_fail(comm);
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct shim_call call = {0};
    struct shim_group *group = NULL;
    int size = 0;
    if (shim_settings.on && comm != MPI_COMM_NULL && PMPI_Comm_size(comm, &size) == MPI_SUCCESS &&
        shim_translate(count, size, type, op, &call))
        group = ready(comm);
    shim_count(group != NULL, call.count * call.element * (size_t)size);
    if (group == NULL)
        return PMPI_Reduce_scatter_block(send, recv, count, type, op, comm);
    return reduce_scatter(group, &call, send, recv, comm);
}

int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct shim_call call = {0};
    struct shim_group *group = NULL;
    int size = 0;
    if (shim_settings.on && counts != NULL && comm != MPI_COMM_NULL && PMPI_Comm_size(comm, &size) == MPI_SUCCESS &&
        shim_translate(counts[0], size, type, op, &call)) {
        bool equal = true;
        for (int i = 1; i < size; i++)
            equal = equal && counts[i] == counts[0];
        group = equal ? ready(comm) : NULL;
    }
    shim_count(group != NULL, call.count * call.element * (size_t)size);
    if (group == NULL)
        return PMPI_Reduce_scatter(send, recv, counts, type, op, comm);
    return reduce_scatter(group, &call, send, recv, comm);
}

/* Not a reduction, but a call in which connecting may block. */
int MPI_Barrier(MPI_Comm comm)
{
    shim_connect_wanted(comm);
    return PMPI_Barrier(comm);
}
