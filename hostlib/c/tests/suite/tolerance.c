/* One rank of a job at a switch that receives trimmed packets: exact sums, and sums that may lack contributions.
 * Arguments: the switch, the job, the rank, the number of ranks. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <netfold/netfold.h>

#define COUNT 100000

static void ok(netfold_result result, int line)
{
    if (result != NETFOLD_RESULT_OK) {
        fprintf(stderr, "line %d: %s: %s\n", line, netfold_result_name(result), netfold_last_error());
        exit(1);
    }
}

#define OK(call) ok((call), __LINE__)

/* Sums powers of two, so that a sum shows its contributors; prints how many elements lack any, and a checksum. */
static void sum(netfold_comm *comm, int rank, int ranks, const char *name, double tolerance, bool own)
{
    static float tensor[COUNT];
    netfold_work *work;
    uint32_t partial, left_out, lacking = 0, odd = 0;
    uint64_t bits = 0;
    for (int i = 0; i < COUNT; i++)
        tensor[i] = (float)(1 << rank);
    if (own)
        OK(netfold_comm_start(comm, NETFOLD_COLLECTIVE_ALL_REDUCE, tensor, tensor, COUNT, NETFOLD_DTYPE_F32,
                              NETFOLD_OP_SUM, 0, &work));
    else
        OK(netfold_comm_start_tolerating(comm, tolerance, false, false, 0, NETFOLD_COLLECTIVE_ALL_REDUCE, tensor, tensor, COUNT,
                                         NETFOLD_DTYPE_F32, NETFOLD_OP_SUM, 0, &work));
    OK(netfold_work_wait(work, 60000));
    OK(netfold_work_left_out(work, &partial, &left_out));
    netfold_work_free(work);
    for (int i = 0; i < COUNT; i++) {
        int whole = (int)tensor[i];
        lacking += whole != (1 << ranks) - 1;
        odd += (float)whole != tensor[i] || whole < 0 || whole >= 1 << ranks;
        bits = bits * 31 + (uint64_t)whole;
    }
    printf("%s: partial %u, lacking %d, odd %u, bits %016llx\n", name, partial, lacking > 0, odd, (unsigned long long)bits);
    fprintf(stderr, "rank %d lacks %u\n", rank, left_out);
    if ((partial > 0) != (lacking > 0) || (tolerance == 0 && left_out > 0) || (tolerance > 0 && left_out == 0))
        exit(1);
}

int main(int argc, char **argv)
{
    netfold_builder *builder;
    netfold_comm *comm;
    if (argc != 5)
        return 2;
    int rank = atoi(argv[3]), ranks = atoi(argv[4]);
    OK(netfold_builder_new(&builder));
    OK(netfold_builder_set_switch(builder, argv[1]));
    OK(netfold_builder_set_job(builder, argv[2]));
    OK(netfold_builder_set_rank(builder, (uint16_t)rank));
    OK(netfold_builder_set_world_size(builder, (uint16_t)ranks));
    OK(netfold_builder_set_slots(builder, 64));
    OK(netfold_builder_set_tolerance(builder, 0.2, false, false));
    OK(netfold_builder_connect(builder, &comm));
    sum(comm, rank, ranks, "as the builder says", 0.2, true);
    sum(comm, rank, ranks, "more", 0.5, false);
    sum(comm, rank, ranks, "exact", 0, false);
    OK(netfold_comm_leave(comm));
    return 0;
}
