/* MPI_Allreduce like the OSU benchmarks; an unmodified MPI program.
 *
 *   mpicc -O2 osu_allreduce.c -o osu_allreduce && mpirun -np 4 ./osu_allreduce [-m MAX] [-i ITERATIONS] [-x WARM-UP] [-c]
 *
 * -c prints a checksum of each size's result, which is a sum of whole numbers, instead of its latency. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    size_t max = 1 << 20;
    int iterations = 100, warm_up = 10, check = 0, rank, size;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-c") == 0)
            check = 1;
        else if (i + 1 < argc && strcmp(argv[i], "-m") == 0)
            max = strtoul(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "-i") == 0)
            iterations = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "-x") == 0)
            warm_up = atoi(argv[++i]);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    float *send = malloc(max), *recv = malloc(max);
    for (size_t i = 0; i < max / sizeof *send; i++)
        send[i] = (float)((i * 7 + (size_t)rank * 13) % 1000);
    if (rank == 0)
        printf(check ? "# Size          Checksum\n" : "# Size          Avg Latency(us)    Min    Max\n");
    for (size_t bytes = sizeof *send; bytes <= max; bytes *= 2) {
        int count = (int)(bytes / sizeof *send);
        double spent = 0;
        memset(recv, 0, bytes);
        for (int i = -warm_up; i < iterations; i++) {
            double start = MPI_Wtime();
            MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            if (i >= 0)
                spent += MPI_Wtime() - start;
            MPI_Barrier(MPI_COMM_WORLD);
        }
        double latency = spent * 1e6 / iterations, sum, least, most;
        MPI_Reduce(&latency, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Reduce(&latency, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
        MPI_Reduce(&latency, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        uint64_t hash = 1469598103934665603u;
        for (int i = 0; i < count; i++)
            hash = (hash ^ (uint64_t)recv[i]) * 1099511628211u;
        uint64_t low, high;
        MPI_Reduce(&hash, &low, 1, MPI_UINT64_T, MPI_MIN, 0, MPI_COMM_WORLD);
        MPI_Reduce(&hash, &high, 1, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0 && check)
            printf("%-15zu %016llx%s\n", bytes, (unsigned long long)hash, low == high ? "" : " (ranks differ)");
        else if (rank == 0)
            printf("%-15zu %15.2f %10.2f %10.2f\n", bytes, sum / size, least, most);
    }
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
