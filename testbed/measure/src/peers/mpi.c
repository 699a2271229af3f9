/* All-reduces over MPI, timed as `netfold bench perf` does. Arguments: bytes iterations warmup. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
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
    long bytes = atol(argv[1]), count = bytes / 4, wrong = 0;
    int iterations = atoi(argv[2]), warmup = atoi(argv[3]);
    float *tensor = malloc(bytes);
    double *times = calloc(iterations, sizeof *times), *slowest = calloc(iterations, sizeof *slowest);
    for (int i = 0; i < iterations + warmup; i++) {
        for (long k = 0; k < count; k++)
            tensor[k] = (float)(rank + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        double started = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, tensor, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double took = MPI_Wtime() - started;
        if (i >= warmup)
            times[i - warmup] = took;
        MPI_Barrier(MPI_COMM_WORLD);
        for (long k = 0; k < count; k++)
            wrong += tensor[k] != (float)(world * (world + 1) / 2);
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
