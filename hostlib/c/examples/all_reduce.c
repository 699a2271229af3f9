/* All-reduce of a tensor from C.
 *
 *   cc all_reduce.c $(pkg-config --cflags --libs netfold) -o all_reduce
 *   ./all_reduce HOST:PORT JOB RANK WORLD      (once for each rank; HOST:PORT is a switch's control port)
 */
#include <netfold/netfold.h>
#include <stdio.h>
#include <stdlib.h>

static void check(netfold_result result, const char *what) {
    if (result != NETFOLD_RESULT_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, netfold_last_error(), netfold_result_name(result));
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s HOST:PORT JOB RANK WORLD\n", argv[0]);
        return 2;
    }
    uint16_t rank = (uint16_t)atoi(argv[3]), world = (uint16_t)atoi(argv[4]);

    netfold_builder *builder;
    netfold_comm *comm;
    check(netfold_builder_new(&builder), "builder");
    check(netfold_builder_set_switch(builder, argv[1]), "switch");
    check(netfold_builder_set_job(builder, argv[2]), "job");
    check(netfold_builder_set_rank(builder, rank), "rank");
    check(netfold_builder_set_world_size(builder, world), "world");
    check(netfold_builder_set_mode(builder, NETFOLD_MODE_BFP32), "mode");
    check(netfold_builder_connect(builder, &comm), "connect"); /* returns when all ranks have joined; frees the builder */

    char path[256];
    check(netfold_comm_path(comm, path, sizeof path, NULL), "path");
    printf("rank %u of %u, netfold %s, through %s\n", rank, world, netfold_version(), path);

    enum { COUNT = 100003 };
    float *tensor = malloc(COUNT * sizeof *tensor);
    for (int i = 0; i < COUNT; i++)
        tensor[i] = (float)(rank + 1) * (float)(i % 7);
    check(netfold_comm_all_reduce(comm, tensor, COUNT, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM), "all_reduce");

    /* Several in flight: start, compute meanwhile, wait. */
    int32_t small[4] = {rank, -rank, 7, 1 << rank};
    netfold_work *work;
    check(netfold_comm_start(comm, NETFOLD_COLLECTIVE_ALL_REDUCE, small, small, 4, NETFOLD_DTYPE_I32, NETFOLD_OP_MAX,
                             0, &work),
          "start");
    check(netfold_work_wait(work, 10000), "wait");
    netfold_work_free(work);

    int wrong = 0;
    float ranks = (float)world * (float)(world + 1) / 2;
    for (int i = 0; i < COUNT; i++) {
        float error = tensor[i] - ranks * (float)(i % 7);
        wrong += error > 1e-4f || error < -1e-4f;
    }
    wrong += small[0] != world - 1 || small[1] != 0 || small[2] != 7 || small[3] != 1 << (world - 1);
    free(tensor);
    check(netfold_comm_leave(comm), "leave");
    printf("rank %u: %d elements wrong\n", rank, wrong);
    return wrong != 0;
}
