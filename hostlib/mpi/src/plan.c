/* Calls of MPI in Netfold's terms, and the memory on which they work. Collectives that reduce need one of Netfold's element types, which all
 * ranks give alike. In those that only move data, ranks may give different datatypes of one signature, so the number of bytes alone decides,
 * and elements that are not one behind the other are packed. */
#include "shim.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool is_in_place(const void *send)
{
    return send == MPI_IN_PLACE;
}

struct shim_group *shim_plan_allreduce(struct shim_call *call, const void *send, void *recv, int count,
                                       MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    memset(call, 0, sizeof *call);
    if (!shim_translate(count, 1, type, op, call))
        return NULL;
    call->collective = NETFOLD_COLLECTIVE_ALL_REDUCE;
    call->send = is_in_place(send) ? recv : send;
    call->recv = recv;
    return shim_group(comm);
}

struct shim_group *shim_plan_reduce(struct shim_call *call, const void *send, void *recv, int count, MPI_Datatype type,
                                    MPI_Op op, int root, MPI_Comm comm)
{
    memset(call, 0, sizeof *call);
    struct shim_group *group = shim_translate(count, 1, type, op, call) ? shim_group(comm) : NULL;
    if (group == NULL || root < 0 || root >= group->size)
        return NULL;
    call->collective = NETFOLD_COLLECTIVE_REDUCE;
    call->root = (uint16_t)root;
    call->send = is_in_place(send) ? recv : send;
    call->recv = group->rank == root ? recv : NULL;
    return group;
}

struct shim_group *shim_plan_reduce_scatter_block(struct shim_call *call, const void *send, void *recv, int count,
                                                  MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    memset(call, 0, sizeof *call);
    struct shim_group *group = shim_settings.on && count > 0 ? shim_group(comm) : NULL;
    if (group == NULL || !shim_translate(count, group->size, type, op, call))
        return NULL;
    call->collective = NETFOLD_COLLECTIVE_REDUCE_SCATTER;
    call->send = send;
    call->recv = recv;
    if (is_in_place(send)) {
        /* The input is all of recv, whose first part alone may change. */
        call->send = recv;
        call->out = (struct shim_staging){NULL, call->count * call->element, recv, count, type};
    }
    return group;
}

struct shim_group *shim_plan_reduce_scatter(struct shim_call *call, const void *send, void *recv, const int counts[],
                                            MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    memset(call, 0, sizeof *call);
    struct shim_group *group = shim_settings.on && counts != NULL ? shim_group(comm) : NULL;
    if (group == NULL)
        return NULL;
    for (int i = 1; i < group->size; i++)
        if (counts[i] != counts[0])
            return NULL;
    return shim_plan_reduce_scatter_block(call, send, recv, counts[0], type, op, comm);
}

/* Bytes of `count` elements, which are the same on all ranks; 0 when MPI does the call. */
static size_t signature_bytes(int count, MPI_Datatype type)
{
    int size = 0;
    if (!shim_settings.on || count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS ||
        size <= 0)
        return 0;
    size_t bytes = (size_t)count * (size_t)size;
    return bytes <= INT_MAX ? bytes : 0;
}

/* Whether elements lie one behind the other, without gaps and in order. */
static bool is_plain(MPI_Datatype type)
{
    int integers, addresses, types, combiner, size;
    MPI_Aint low, extent;
    return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED && PMPI_Type_size(type, &size) == MPI_SUCCESS &&
           PMPI_Type_get_extent(type, &low, &extent) == MPI_SUCCESS && low == 0 && extent == size;
}

/* A call that moves `bytes` bytes of each rank that sends. */
static void move(struct shim_call *call, int32_t collective, size_t bytes)
{
    call->collective = collective;
    call->dtype = NETFOLD_DTYPE_U8;
    call->op = NETFOLD_OP_SUM;
    call->count = bytes;
    call->element = 1;
}

struct shim_group *shim_plan_bcast(struct shim_call *call, void *buffer, int count, MPI_Datatype type, int root,
                                   MPI_Comm comm)
{
    memset(call, 0, sizeof *call);
    size_t bytes = signature_bytes(count, type);
    struct shim_group *group = bytes > 0 && bytes >= shim_settings.min_bytes ? shim_group(comm) : NULL;
    if (group == NULL || root < 0 || root >= group->size)
        return NULL;
    move(call, NETFOLD_COLLECTIVE_BROADCAST, bytes);
    call->root = (uint16_t)root;
    call->bytes = bytes;
    call->send = call->recv = buffer;
    if (!is_plain(type))
        *(group->rank == root ? &call->in : &call->out) = (struct shim_staging){NULL, bytes, buffer, count, type};
    return group;
}

struct shim_group *shim_plan_allgather(struct shim_call *call, const void *send, int send_count, MPI_Datatype send_type,
                                       void *recv, int recv_count, MPI_Datatype recv_type, MPI_Comm comm)
{
    memset(call, 0, sizeof *call);
    size_t bytes = signature_bytes(recv_count, recv_type);
    struct shim_group *group = bytes > 0 ? shim_group(comm) : NULL;
    if (group == NULL || bytes * (size_t)group->size < shim_settings.min_bytes ||
        bytes > INT_MAX / (size_t)group->size || recv_count > INT_MAX / group->size)
        return NULL;
    move(call, NETFOLD_COLLECTIVE_ALL_GATHER, bytes);
    call->bytes = bytes * (size_t)group->size;
    call->send = send;
    call->recv = recv;
    if (is_in_place(send)) {
        MPI_Aint low, extent;
        if (PMPI_Type_get_extent(recv_type, &low, &extent) != MPI_SUCCESS)
            return NULL;
        call->send = (char *)recv + (MPI_Aint)group->rank * recv_count * extent;
        send_count = recv_count;
        send_type = recv_type;
    }
    if (!is_plain(send_type))
        call->in = (struct shim_staging){NULL, bytes, (void *)call->send, send_count, send_type};
    if (!is_plain(recv_type))
        call->out = (struct shim_staging){NULL, call->bytes, recv, recv_count * group->size, recv_type};
    return group;
}

/* Memory for what is staged; the datatype is kept, as the program may free it before a request is complete. */
static int stage(struct shim_call *call)
{
    struct shim_staging *in = &call->in, *out = &call->out;
    int error = MPI_SUCCESS, packed = 0;
    if (in->bytes > 0) {
        call->send = in->memory = malloc(in->bytes);
        if (in->memory == NULL)
            return MPI_ERR_NO_MEM;
        error = PMPI_Pack(in->of, in->count, in->type, in->memory, (int)in->bytes, &packed, MPI_COMM_SELF);
        if (call->collective == NETFOLD_COLLECTIVE_BROADCAST)
            call->recv = in->memory; /* the root's result is what it sends */
    }
    if (error == MPI_SUCCESS && out->bytes > 0) {
        MPI_Datatype kept;
        error = PMPI_Type_dup(out->type, &kept);
        if (error != MPI_SUCCESS)
            return error;
        out->type = kept;
        call->recv = out->memory = malloc(out->bytes);
        if (out->memory == NULL) {
            PMPI_Type_free(&out->type);
            return MPI_ERR_NO_MEM;
        }
        if (call->collective == NETFOLD_COLLECTIVE_BROADCAST)
            call->send = out->memory;
    }
    return error;
}

void shim_settle(struct shim_call *call, bool good)
{
    struct shim_staging *in = &call->in, *out = &call->out;
    free(in->memory);
    in->memory = NULL;
    if (out->memory == NULL)
        return;
    int unpacked = 0;
    if (good)
        PMPI_Unpack(out->memory, (int)out->bytes, &unpacked, out->of, out->count, out->type, MPI_COMM_SELF);
    PMPI_Type_free(&out->type);
    free(out->memory);
    out->memory = NULL;
}

int shim_start(struct shim_group *group, struct shim_call *call, MPI_Comm comm, netfold_work **work)
{
    int error = stage(call);
    if (error != MPI_SUCCESS) {
        shim_settle(call, false);
        netfold_comm_abort(group->netfold); /* or the others would wait */
        PMPI_Comm_call_errhandler(comm, error);
        return error;
    }
    if (netfold_comm_start(group->netfold, call->collective, call->send, call->recv, call->count, call->dtype, call->op,
                           call->root, work) == NETFOLD_RESULT_OK)
        return MPI_SUCCESS;
    shim_settle(call, false);
    return shim_fail(comm);
}
