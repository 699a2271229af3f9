/* Collectives on device memory, on the driver that NETFOLD_CUDA_LIBRARY names, by CUDA's own functions: SWITCH JOB RANK WORLD. */
#include <dlfcn.h>
#include <netfold/netfold.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 300001

/* The first device of a rank: each rank has one of its own. */
#define FIRST_DEVICE 220

static void *driver;

static void check(int good, const char *what)
{
    if (!good) {
        printf("FAILED: %s: %s\n", what, netfold_last_error());
        exit(1);
    }
}

/* Calls a function of the driver: all return 0 on success. */
#define CUDA(name, types, ...) check(((int(*) types)dlsym(driver, #name))(__VA_ARGS__) == 0, #name)

static netfold_comm *join(const char *address, const char *job, uint16_t rank, uint16_t world)
{
    netfold_builder *builder;
    netfold_comm *comm;
    check(netfold_builder_new(&builder) == NETFOLD_RESULT_OK, "new");
    check(netfold_builder_set_job(builder, job) == NETFOLD_RESULT_OK, "job");
    check(netfold_builder_set_rank(builder, rank) == NETFOLD_RESULT_OK, "rank");
    check(netfold_builder_set_world_size(builder, world) == NETFOLD_RESULT_OK, "world size");
    check(netfold_builder_set_switch(builder, address) == NETFOLD_RESULT_OK, "switch");
    check(netfold_builder_connect(builder, &comm) == NETFOLD_RESULT_OK, "connect");
    return comm;
}

int main(int argc, char **argv)
{
    check(argc == 5, "usage: cuda SWITCH JOB RANK WORLD");
    uint16_t rank = (uint16_t)atoi(argv[3]), world = (uint16_t)atoi(argv[4]);
    driver = dlopen(getenv("NETFOLD_CUDA_LIBRARY"), RTLD_NOW);
    check(driver != NULL, "the driver");
    size_t context, stream, bytes = COUNT * sizeof(float);
    uint64_t memory;
    void *pinned;
    CUDA(cuInit, (unsigned), 0);
    CUDA(cuDevicePrimaryCtxRetain, (size_t *, int), &context, FIRST_DEVICE + rank);
    CUDA(cuCtxPushCurrent_v2, (size_t), context);
    CUDA(cuStreamCreate, (size_t *, unsigned), &stream, 0);
    CUDA(cuMemHostAlloc, (void **, size_t, unsigned), &pinned, bytes, 0);
    CUDA(cuMemAlloc_v2, (uint64_t *, size_t), &memory, bytes);
    float *elements = pinned;
    for (int at = 0; at < COUNT; at++)
        elements[at] = (float)(at % 100 + rank);
    CUDA(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, size_t), memory, pinned, bytes, stream);

    netfold_comm *comm = join(argv[1], argv[2], rank, world);
    netfold_work *work;
    void *tensor = (void *)(uintptr_t)memory, *on = (void *)(uintptr_t)stream;
    /* Host memory is refused, and so is no memory; the job goes on. */
    check(netfold_comm_start_cuda(comm, on, NETFOLD_COLLECTIVE_ALL_REDUCE, &work, &work, COUNT, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM, 0, &work)
              == NETFOLD_RESULT_CUDA, "host memory");
    check(strcmp(netfold_result_name(NETFOLD_RESULT_CUDA), "cuda") == 0, "the name");
    check(netfold_comm_start_cuda(comm, on, NETFOLD_COLLECTIVE_ALL_REDUCE, NULL, NULL, COUNT, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM, 0, &work)
              == NETFOLD_RESULT_ARGUMENT, "no memory");
    check(netfold_comm_start_cuda(comm, on, NETFOLD_COLLECTIVE_ALL_REDUCE, tensor, tensor, COUNT, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM, 0, NULL)
              == NETFOLD_RESULT_NULL_POINTER, "no place for the handle");

    check(netfold_comm_start_cuda(comm, on, NETFOLD_COLLECTIVE_ALL_REDUCE, tensor, tensor, COUNT, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM, 0, &work)
              == NETFOLD_RESULT_OK, "start");
    check(netfold_work_wait_on_stream(work, on) == NETFOLD_RESULT_OK, "wait on the stream");
    CUDA(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, size_t), pinned, memory, bytes, stream);
    CUDA(cuStreamSynchronize, (size_t), stream);
    int wrong = 0;
    for (int at = 0; at < COUNT; at++)
        wrong += elements[at] != (float)(world * (at % 100) + world * (world - 1) / 2);
    check(netfold_work_wait(work, -1) == NETFOLD_RESULT_OK, "wait");
    netfold_work_free(work);

    /* An operation on host memory has no stream. */
    int32_t one = 1;
    check(netfold_comm_start(comm, NETFOLD_COLLECTIVE_ALL_REDUCE, &one, &one, 1, NETFOLD_DTYPE_I32, NETFOLD_OP_SUM, 0, &work) == NETFOLD_RESULT_OK, "start on the host");
    check(netfold_work_wait_on_stream(work, on) == NETFOLD_RESULT_UNSUPPORTED, "no stream");
    check(netfold_work_wait_on_stream(NULL, on) == NETFOLD_RESULT_NULL_POINTER, "no work");
    check(netfold_work_wait(work, -1) == NETFOLD_RESULT_OK && one == world, "the sum on the host");
    netfold_work_free(work);
    check(netfold_comm_leave(comm) == NETFOLD_RESULT_OK, "leave");
    printf("cuda: %d wrong\n", wrong);
    return wrong != 0;
}
