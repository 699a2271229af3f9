/* Collectives over MPI, timed as `netfold bench perf` does. Arguments: bytes iterations warmup, and all-reduce (without it), reduce-scatter,
 * all-gather, broadcast, overlap (a reduce-scatter and an all-gather at the same time) or sequence (one after the other). */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The measuring process holds the other end of standard input, which is rank 0's: when it ends, mpirun ends all ranks. */
static void *exit_with_stdin(void *unused)
{
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    _exit(1);
    return unused;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, world;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    pthread_t watch;
    if (rank == 0)
        pthread_create(&watch, NULL, exit_with_stdin, NULL);
    long bytes = atol(argv[1]), wrong = 0;
    int iterations = atoi(argv[2]), warmup = atoi(argv[3]);
    const char *collective = argc > 4 ? argv[4] : "all-reduce";
    int overlap = !strcmp(collective, "overlap"), sequence = !strcmp(collective, "sequence");
    int scatters = overlap || sequence || !strcmp(collective, "reduce-scatter");
    int gathers = overlap || sequence || !strcmp(collective, "all-gather");
    int part = (int)(bytes / 4 / world);
    long count = (long)part * world;
    float *tensor = malloc(bytes), *scattered = malloc(bytes / world + 4), *own = malloc(bytes / world + 4), *gathered = malloc(bytes);
    float total = (float)(world * (world + 1) / 2);
    double *times = calloc(iterations, sizeof *times), *slowest = calloc(iterations, sizeof *slowest);
    for (int i = 0; i < iterations + warmup; i++) {
        for (long k = 0; k < count; k++)
            tensor[k] = (float)(rank + 1);
        for (int k = 0; k < part; k++)
            own[k] = (float)(rank + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        double started = MPI_Wtime();
        if (overlap) {
            MPI_Request both[2];
            MPI_Ireduce_scatter_block(tensor, scattered, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &both[0]);
            MPI_Iallgather(own, part, MPI_FLOAT, gathered, part, MPI_FLOAT, MPI_COMM_WORLD, &both[1]);
            MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        } else {
            if (scatters)
                MPI_Reduce_scatter_block(tensor, scattered, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            if (gathers)
                MPI_Allgather(own, part, MPI_FLOAT, gathered, part, MPI_FLOAT, MPI_COMM_WORLD);
            if (!strcmp(collective, "broadcast"))
                MPI_Bcast(tensor, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
            if (!strcmp(collective, "all-reduce"))
                MPI_Allreduce(MPI_IN_PLACE, tensor, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
        double took = MPI_Wtime() - started;
        if (i >= warmup)
            times[i - warmup] = took;
        MPI_Barrier(MPI_COMM_WORLD);
        for (long k = 0; k < count; k++) {
            if (!scatters && !gathers)
                wrong += tensor[k] != (strcmp(collective, "broadcast") ? total : 1.0f);
            if (scatters && k < part)
                wrong += scattered[k] != total;
            if (gathers)
                wrong += gathered[k] != (float)(k / part + 1);
        }
    }
    MPI_Reduce(times, slowest, iterations, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("{\"times\": [");
        for (int i = 0; i < iterations; i++)
            printf("%s%.9f", i ? ", " : "", slowest[i]);
        printf("], \"wrong\": %ld}\n", wrong);
    }
    MPI_Finalize();
    return 0;
}
