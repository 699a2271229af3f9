/* The collectives that block, and the reductions that Netfold has. */
#include "shim.h"

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
    call->bytes = call->count * (size_t)parts * call->element;
    return call->dtype != 0 && call->op >= 0 && call->bytes >= shim_settings.min_bytes;
}

/* Whether Netfold does a planned call; connects a communicator that was not tried before. */
static bool ready(struct shim_group *group, const struct shim_call *call, MPI_Comm comm)
{
    if (group != NULL && group->standing == SHIM_NEW)
        shim_connect(group, comm);
    else if (group == NULL)
        shim_connect_wanted(comm);
    bool on = group != NULL && group->standing == SHIM_ON;
    shim_count(on, call->bytes);
    return on;
}

/* Does a planned call, while MPI makes progress. */
static int run(struct shim_group *group, struct shim_call *call, MPI_Comm comm)
{
    netfold_work *work;
    netfold_result result;
    int error = shim_start(group, call, comm, &work);
    if (error != MPI_SUCCESS)
        return error;
    while ((result = netfold_work_wait(work, 1)) == NETFOLD_RESULT_AGAIN)
        shim_progress();
    netfold_work_free(work);
    shim_settle(call, result == NETFOLD_RESULT_OK);
    return result == NETFOLD_RESULT_OK ? MPI_SUCCESS : shim_fail(comm);
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_allreduce(&call, send, recv, count, type, op, comm);
    if (!ready(group, &call, comm))
        return PMPI_Allreduce(send, recv, count, type, op, comm);
    return run(group, &call, comm);
}

int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_reduce(&call, send, recv, count, type, op, root, comm);
    if (!ready(group, &call, comm))
        return PMPI_Reduce(send, recv, count, type, op, root, comm);
    return run(group, &call, comm);
}

int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_reduce_scatter_block(&call, send, recv, count, type, op, comm);
    if (!ready(group, &call, comm))
        return PMPI_Reduce_scatter_block(send, recv, count, type, op, comm);
    return run(group, &call, comm);
}

int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_reduce_scatter(&call, send, recv, counts, type, op, comm);
    if (!ready(group, &call, comm))
        return PMPI_Reduce_scatter(send, recv, counts, type, op, comm);
    return run(group, &call, comm);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_bcast(&call, buffer, count, type, root, comm);
    if (!ready(group, &call, comm))
        return PMPI_Bcast(buffer, count, type, root, comm);
    return run(group, &call, comm);
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                  MPI_Datatype recv_type, MPI_Comm comm)
{
    struct shim_call call;
    struct shim_group *group =
        shim_plan_allgather(&call, send, send_count, send_type, recv, recv_count, recv_type, comm);
    if (!ready(group, &call, comm))
        return PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
    return run(group, &call, comm);
}

/* Moves no data, but is a call in which connecting may block. */
int MPI_Barrier(MPI_Comm comm)
{
    shim_connect_wanted(comm);
    return PMPI_Barrier(comm);
}
