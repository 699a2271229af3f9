/* A process of a job that shrinks and grows in place.
 *
 *   ./resize SWITCH JOB RANK WORLD     (the last rank dies after a few sums)
 *   ./resize SWITCH JOB join           (joins when the others grow)
 *
 * Survivors sum until an operation fails, shrink, sum, grow by one, and sum with the process that has joined. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netfold/netfold.h>

#define COUNT 20000
#define TIMEOUT_MS 100000

static void ok(netfold_result result, int line)
{
    if (result != NETFOLD_RESULT_OK) {
        fprintf(stderr, "line %d: %s: %s\n", line, netfold_result_name(result), netfold_last_error());
        exit(1);
    }
}

#define OK(call) ok((call), __LINE__)

static void check(int condition, int line)
{
    if (!condition) {
        fprintf(stderr, "line %d: failed\n", line);
        exit(1);
    }
}

#define CHECK(condition) check((condition), __LINE__)

/* Sums 1 + rank + index over all ranks of this generation. */
static netfold_result sum(netfold_comm *comm)
{
    static int32_t tensor[COUNT];
    uint16_t rank, world;
    OK(netfold_comm_rank(comm, &rank));
    OK(netfold_comm_world_size(comm, &world));
    for (int i = 0; i < COUNT; i++)
        tensor[i] = 1 + rank + i;
    netfold_result result = netfold_comm_all_reduce(comm, tensor, COUNT, NETFOLD_DTYPE_I32, NETFOLD_OP_SUM);
    for (int i = 0; result == NETFOLD_RESULT_OK && i < COUNT; i++)
        CHECK(tensor[i] == world * (world + 1) / 2 + i * world);
    return result;
}

/* Checks the membership, and prints it. */
static void is(netfold_comm *comm, uint32_t generation, uint16_t world, uint16_t survivors)
{
    uint32_t found;
    uint16_t ranks, remaining, rank;
    OK(netfold_comm_generation(comm, &found));
    OK(netfold_comm_world_size(comm, &ranks));
    OK(netfold_comm_survivors(comm, &remaining));
    OK(netfold_comm_rank(comm, &rank));
    printf("generation %" PRIu32 ": rank %d of %d, %d survivors\n", found, rank, ranks, remaining);
    CHECK(found == generation && ranks == world && remaining == survivors);
}

static void live(netfold_comm *comm, uint16_t world)
{
    uint16_t lost[2] = {99, 99};
    size_t count = 99;
    while (sum(comm) == NETFOLD_RESULT_OK) {
    }
    CHECK(netfold_last_error_advice() == NETFOLD_ADVICE_SHRINK || netfold_last_error_advice() == NETFOLD_ADVICE_RETRY);
    OK(netfold_comm_shrink(comm, TIMEOUT_MS));
    is(comm, 2, world - 1, world - 1);
    OK(netfold_comm_lost(comm, NULL, 0, &count));
    CHECK(count == 1);
    OK(netfold_comm_lost(comm, lost, 2, &count));
    CHECK(count == 1 && lost[0] == world - 1 && lost[1] == 99);
    for (int i = 0; i < 5; i++)
        OK(sum(comm));
    OK(netfold_comm_grow(comm, 1, TIMEOUT_MS));
    is(comm, 3, world, world - 1);
    OK(netfold_comm_lost(comm, lost, 2, &count));
    CHECK(count == 0);
}

int main(int argc, char **argv)
{
    netfold_builder *builder;
    netfold_comm *comm;
    if (argc != 4 && argc != 5)
        return 2;
    OK(netfold_builder_new(&builder));
    OK(netfold_builder_set_switch(builder, argv[1]));
    OK(netfold_builder_set_job(builder, argv[2]));
    OK(netfold_builder_set_slots(builder, 64));
    OK(netfold_builder_set_join_timeout(builder, TIMEOUT_MS));
    if (argc == 4) {
        OK(netfold_builder_join_running(builder));
        OK(netfold_builder_connect(builder, &comm));
        is(comm, 3, 3, 0);
    } else {
        uint16_t rank = (uint16_t)atoi(argv[3]), world = (uint16_t)atoi(argv[4]);
        OK(netfold_builder_set_resizable(builder, true));
        OK(netfold_builder_set_rank(builder, rank));
        OK(netfold_builder_set_world_size(builder, world));
        OK(netfold_builder_connect(builder, &comm));
        is(comm, 1, world, 0);
        if (rank == world - 1) {
            for (int i = 0; i < 5; i++)
                OK(sum(comm));
            fflush(stdout);
            _exit(0);
        }
        live(comm, world);
    }
    for (int i = 0; i < 5; i++)
        OK(sum(comm));
    OK(netfold_comm_leave(comm));
    puts("resize: passed");
    return 0;
}
