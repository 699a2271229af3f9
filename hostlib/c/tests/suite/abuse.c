/* Mistakes of C callers: each must give a result code, never a crash.
 *
 *   ./abuse ADDRESS...     (five addresses, 127.0.0.1:PORT, without a listener)
 *
 * Prints "abuse: passed". */
#include <netfold/netfold.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                        \
    do {                                                                                                        \
        if (!(condition)) {                                                                                     \
            fprintf(stderr, "line %d: failed: %s (last error: %s)\n", __LINE__, #condition, netfold_last_error()); \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)
#define OK(call) CHECK((call) == NETFOLD_RESULT_OK)
#define IS(call, what) CHECK((call) == NETFOLD_RESULT_##what)

enum { COUNT = 20000 };

static void null_pointers(void)
{
    netfold_builder *builder = NULL;
    netfold_comm *comm = NULL;
    netfold_work *work = NULL;
    char text[8];
    uint16_t number;
    uint32_t generation;
    int32_t network;
    bool done;
    size_t needed;
    IS(netfold_builder_new(NULL), NULL_POINTER);
    CHECK(strstr(netfold_last_error(), "out is NULL") != NULL);
    CHECK(netfold_last_error_peer() == -1);
    CHECK(netfold_last_error_advice() == NETFOLD_ADVICE_STOP);
    netfold_builder_free(NULL);
    netfold_comm_free(NULL);
    netfold_work_free(NULL);
    IS(netfold_builder_set_job(NULL, "a"), NULL_POINTER);
    IS(netfold_builder_set_group(NULL, "a"), NULL_POINTER);
    IS(netfold_builder_set_rank(NULL, 0), NULL_POINTER);
    IS(netfold_builder_set_world_size(NULL, 1), NULL_POINTER);
    IS(netfold_builder_set_mode(NULL, NETFOLD_MODE_BFP32), NULL_POINTER);
    IS(netfold_builder_set_rounding(NULL, NETFOLD_ROUNDING_STOCHASTIC, 1), NULL_POINTER);
    IS(netfold_builder_set_slots(NULL, 64), NULL_POINTER);
    IS(netfold_builder_set_classes(NULL, 2), NULL_POINTER);
    IS(netfold_builder_set_tolerance(NULL, 0.01, true, false), NULL_POINTER);
    IS(netfold_builder_set_confidential(NULL, "job.key"), NULL_POINTER);
    IS(netfold_builder_set_authenticated(NULL, true), NULL_POINTER);
    IS(netfold_builder_set_switch(NULL, "127.0.0.1:1"), NULL_POINTER);
    IS(netfold_builder_set_rendezvous(NULL, "127.0.0.1:1"), NULL_POINTER);
    IS(netfold_builder_set_exchange(NULL, NULL, NULL), NULL_POINTER);
    IS(netfold_builder_set_local_ip(NULL, "127.0.0.1"), NULL_POINTER);
    IS(netfold_builder_set_host(NULL, "a"), NULL_POINTER);
    IS(netfold_builder_set_shared_memory(NULL, true), NULL_POINTER);
    IS(netfold_builder_set_fall_back(NULL, true), NULL_POINTER);
    IS(netfold_builder_set_join_timeout(NULL, 1), NULL_POINTER);
    IS(netfold_builder_set_stall_timeout(NULL, 1), NULL_POINTER);
    IS(netfold_builder_set_busy_poll(NULL, 1), NULL_POINTER);
    IS(netfold_builder_set_idle_timeout(NULL, 1), NULL_POINTER);
    IS(netfold_builder_set_resizable(NULL, true), NULL_POINTER);
    IS(netfold_builder_join_running(NULL), NULL_POINTER);
    IS(netfold_builder_connect(NULL, &comm), NULL_POINTER);
    OK(netfold_builder_new(&builder));
    IS(netfold_builder_connect(builder, NULL), NULL_POINTER); /* and frees it */
    for (int setter = 0; setter < 6; setter++) {
        OK(netfold_builder_new(&builder));
        netfold_result result = setter == 0   ? netfold_builder_set_job(builder, NULL)
                                : setter == 1 ? netfold_builder_set_switch(builder, NULL)
                                : setter == 2 ? netfold_builder_set_rendezvous(builder, NULL)
                                : setter == 3 ? netfold_builder_set_exchange(builder, NULL, &comm)
                                : setter == 4 ? netfold_builder_set_local_ip(builder, NULL)
                                              : netfold_builder_set_host(builder, NULL);
        CHECK(result == NETFOLD_RESULT_NULL_POINTER);
        /* A call after a failure fails again. */
        IS(netfold_builder_set_rank(builder, 0), ARGUMENT);
        if (setter % 2)
            IS(netfold_builder_connect(builder, &comm), ARGUMENT);
        else
            netfold_builder_free(builder);
    }
    CHECK(comm == NULL);
    IS(netfold_comm_rank(NULL, &number), NULL_POINTER);
    IS(netfold_comm_world_size(NULL, &number), NULL_POINTER);
    IS(netfold_comm_path(NULL, text, sizeof text, &needed), NULL_POINTER);
    IS(netfold_comm_tree_shares(NULL, NULL, 0, &needed), NULL_POINTER);
    IS(netfold_comm_network(NULL, &network), NULL_POINTER);
    IS(netfold_comm_split(NULL, 0, 0, &comm), NULL_POINTER);
    IS(netfold_comm_shrink(NULL, 1), NULL_POINTER);
    IS(netfold_comm_grow(NULL, 1, 1), NULL_POINTER);
    IS(netfold_comm_generation(NULL, &generation), NULL_POINTER);
    IS(netfold_comm_survivors(NULL, &number), NULL_POINTER);
    IS(netfold_comm_lost(NULL, &number, 1, &needed), NULL_POINTER);
    IS(netfold_comm_membership_address(NULL, text, sizeof text, &needed), NULL_POINTER);
    IS(netfold_comm_abort(NULL), NULL_POINTER);
    IS(netfold_comm_failure(NULL), NULL_POINTER);
    IS(netfold_comm_leave(NULL), NULL_POINTER);
    IS(netfold_comm_barrier(NULL), NULL_POINTER);
    IS(netfold_comm_all_reduce(NULL, text, 1, NETFOLD_DTYPE_U8, NETFOLD_OP_SUM), NULL_POINTER);
    IS(netfold_comm_all_reduce_with_feedback(NULL, NULL, NULL, 0, NETFOLD_OP_SUM), NULL_POINTER);
    IS(netfold_comm_start_with_feedback(NULL, NULL, NULL, NULL, 0, NETFOLD_OP_SUM, &work), NULL_POINTER);
    IS(netfold_comm_start(NULL, NETFOLD_COLLECTIVE_BARRIER, NULL, NULL, 0, 0, 0, 0, &work), NULL_POINTER);
    IS(netfold_comm_run(NULL, NETFOLD_COLLECTIVE_BARRIER, NULL, NULL, 0, 0, 0, 0), NULL_POINTER);
    IS(netfold_work_wait(NULL, 0), NULL_POINTER);
    IS(netfold_work_test(NULL, &done), NULL_POINTER);
    IS(netfold_work_left_out(NULL, NULL, NULL), NULL_POINTER);
    IS(netfold_comm_start_tolerating(NULL, 0, true, true, 0, NETFOLD_COLLECTIVE_BARRIER, NULL, NULL, 0, 0, 0, 0, &work), NULL_POINTER);
    CHECK(work == NULL);
    OK(netfold_set_log(NULL, NULL, NETFOLD_LOG_LEVEL_DEBUG));
    IS(netfold_set_log(NULL, NULL, 17), ARGUMENT);
    CHECK(strcmp(netfold_result_name(NETFOLD_RESULT_PEER_LOST), "peer_lost") == 0);
    CHECK(strcmp(netfold_result_name(-3), "unknown") == 0 && strcmp(netfold_result_name(4711), "unknown") == 0);
    CHECK(netfold_abi_version() == NETFOLD_ABI_VERSION && netfold_version()[0] != '\0');
}

static int32_t broken(void *context, const uint8_t *mine, uint8_t *all, size_t len)
{
    (void)context, (void)mine, (void)all, (void)len;
    return 7;
}

/* Every byte of every reply is 0xff: lengths that no rank has sent. */
static int32_t babble(void *context, const uint8_t *mine, uint8_t *all, size_t len)
{
    (void)context, (void)mine;
    memset(all, 0xff, 2 * len);
    return 0;
}

static void bad_values(void)
{
    char name[80];
    netfold_builder *builder;
    netfold_comm *comm = NULL;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int which = 0; which < 16; which++) {
        netfold_result result = NETFOLD_RESULT_OK, connected = NETFOLD_RESULT_ARGUMENT;
        OK(netfold_builder_new(&builder));
        OK(netfold_builder_set_rank(builder, which == 8 ? 2 : 0));
        OK(netfold_builder_set_world_size(builder, which == 9 ? 0 : 2));
        OK(netfold_builder_set_job(builder, which == 11 ? name : "bad"));
        OK(netfold_builder_set_join_timeout(builder, 2000));
        switch (which) {
        case 0: result = netfold_builder_set_mode(builder, 99); break;
        case 1: result = netfold_builder_set_job(builder, "\xff\xfe"); break;
        case 2: result = netfold_builder_set_switch(builder, "\xc3("); break;
        case 3: result = netfold_builder_set_host(builder, "\xa0"); break;
        case 4: result = netfold_builder_set_local_ip(builder, "here"); break;
        case 5: result = netfold_builder_set_switch(builder, "no port"); break;
        case 6: OK(netfold_builder_set_exchange(builder, broken, NULL)); connected = NETFOLD_RESULT_CONNECT; break;
        case 7: OK(netfold_builder_set_exchange(builder, babble, NULL)); connected = NETFOLD_RESULT_CONNECT; break;
        case 8: OK(netfold_builder_set_exchange(builder, babble, NULL)); break;
        case 9: OK(netfold_builder_set_exchange(builder, babble, NULL)); break;
        case 10: OK(netfold_builder_set_slots(builder, 3)); break;
        case 12: result = netfold_builder_set_rounding(builder, 2, 0); break;
        case 13:
            OK(netfold_builder_set_rounding(builder, NETFOLD_ROUNDING_STOCHASTIC, 7));
            OK(netfold_builder_set_mode(builder, NETFOLD_MODE_HALF));
            break;
        case 14: result = netfold_builder_set_tolerance(builder, 1.01, true, false); break;
        case 15: result = netfold_builder_set_confidential(builder, "/proc/no.key"); break;
        default: OK(netfold_builder_set_switch(builder, "127.0.0.1:9")); break;
        }
        CHECK(which == 12 || which >= 14 ? result == NETFOLD_RESULT_ARGUMENT : true);
        CHECK(which >= 6 || result == (which == 5 ? NETFOLD_RESULT_ADDRESS : NETFOLD_RESULT_ARGUMENT));
        result = netfold_builder_connect(builder, &comm);
        if (result != connected)
            fprintf(stderr, "value %d: %s\n", which, netfold_result_name(result));
        CHECK(result == connected && comm == NULL);
    }
    OK(netfold_builder_new(&builder));
    OK(netfold_builder_set_exchange(builder, babble, NULL));
    IS(netfold_builder_connect(builder, &comm), ARGUMENT); /* neither rank nor world */
}

/* An all-gather among threads. */
struct table {
    pthread_barrier_t barrier;
    uint8_t *cells;
};

struct member {
    struct table *table;
    uint16_t rank, world;
    const char *address;
    netfold_comm *comm;
};

static int32_t gather(void *context, const uint8_t *mine, uint8_t *all, size_t len)
{
    struct member *member = context;
    if (pthread_barrier_wait(&member->table->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        member->table->cells = malloc(len * member->world);
    pthread_barrier_wait(&member->table->barrier);
    memcpy(member->table->cells + len * member->rank, mine, len);
    pthread_barrier_wait(&member->table->barrier);
    memcpy(all, member->table->cells, len * member->world);
    if (pthread_barrier_wait(&member->table->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        free(member->table->cells);
    return 0;
}

static netfold_comm *join(struct member *member)
{
    netfold_builder *builder;
    netfold_comm *comm = NULL;
    OK(netfold_builder_new(&builder));
    OK(netfold_builder_set_job(builder, "abuse"));
    OK(netfold_builder_set_classes(builder, 2));
    OK(netfold_builder_set_rank(builder, member->rank));
    OK(netfold_builder_set_world_size(builder, member->world));
    OK(netfold_builder_set_join_timeout(builder, 60000));
    OK(netfold_builder_set_stall_timeout(builder, 60000));
    OK(netfold_builder_set_busy_poll(builder, 20));
    OK(netfold_builder_set_idle_timeout(builder, 0));
    OK(netfold_builder_set_idle_timeout(builder, UINT64_MAX));
    OK(netfold_builder_set_host(builder, "one host"));
    OK(netfold_builder_set_fall_back(builder, true));
    if (member->table != NULL)
        OK(netfold_builder_set_exchange(builder, gather, member));
    else
        OK(netfold_builder_set_rendezvous(builder, member->address));
    /* Both paths to other ranks: a ring over TCP, and shared memory. */
    OK(netfold_builder_set_local_ip(builder, "127.0.0.1"));
    OK(netfold_builder_set_shared_memory(builder, member->table == NULL));
    OK(netfold_builder_connect(builder, &comm));
    return comm;
}

/* All ranks but the first form a group, numbered from the last. */
static void split(netfold_comm *comm, const struct member *member)
{
    netfold_comm *group = NULL;
    uint16_t rank, world;
    float one = 1;
    IS(netfold_comm_split(comm, 0, 0, NULL), NULL_POINTER);
    OK(netfold_comm_split(comm, member->rank == 0 ? -1 : 7, -member->rank, &group));
    CHECK((group == NULL) == (member->rank == 0));
    if (group == NULL)
        return;
    OK(netfold_comm_rank(group, &rank));
    OK(netfold_comm_world_size(group, &world));
    CHECK(world == member->world - 1 && rank == world - member->rank);
    OK(netfold_comm_all_reduce(group, &one, 1, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM));
    CHECK(one == (float)world);
    OK(netfold_comm_leave(group));
}

static void look(netfold_comm *comm, const struct member *member)
{
    char text[200], little[5];
    uint16_t rank, world;
    int32_t network;
    size_t needed = 0;
    OK(netfold_comm_rank(comm, &rank));
    OK(netfold_comm_world_size(comm, &world));
    CHECK(rank == member->rank && world == member->world);
    IS(netfold_comm_rank(comm, NULL), NULL_POINTER);
    IS(netfold_comm_world_size(comm, NULL), NULL_POINTER);
    OK(netfold_comm_network(comm, &network));
    CHECK(network == (member->table != NULL ? NETFOLD_NETWORK_RING : NETFOLD_NETWORK_SHARED_MEMORY));
    IS(netfold_comm_network(comm, NULL), NULL_POINTER);
    /* The ranks are not at a switch. */
    double share = 7;
    OK(netfold_comm_tree_shares(comm, &share, 1, &needed));
    CHECK(needed == 0 && share == 7);
    OK(netfold_comm_tree_shares(comm, NULL, 0, &needed));
    IS(netfold_comm_tree_shares(comm, NULL, 1, &needed), NULL_POINTER);
    IS(netfold_comm_tree_shares(comm, &share, 1, NULL), NULL_POINTER);
    OK(netfold_comm_path(comm, text, sizeof text, &needed));
    CHECK(strlen(text) == needed);
    OK(netfold_comm_path(comm, little, sizeof little, NULL));
    CHECK(strlen(little) == 4 && strncmp(little, text, 4) == 0);
    IS(netfold_comm_path(comm, NULL, 0, &needed), NULL_POINTER);
    IS(netfold_comm_path(comm, little, 0, &needed), NULL_POINTER);
    /* The job is not resizable. */
    uint32_t generation = 7;
    OK(netfold_comm_generation(comm, &generation));
    OK(netfold_comm_survivors(comm, &rank));
    OK(netfold_comm_lost(comm, &world, 1, &needed));
    CHECK(generation == 0 && rank == 0 && needed == 0 && world == member->world);
    IS(netfold_comm_generation(comm, NULL), NULL_POINTER);
    IS(netfold_comm_survivors(comm, NULL), NULL_POINTER);
    IS(netfold_comm_lost(comm, NULL, 1, &needed), NULL_POINTER);
    IS(netfold_comm_lost(comm, &rank, 1, NULL), NULL_POINTER);
    OK(netfold_comm_membership_address(comm, text, sizeof text, &needed));
    CHECK(text[0] == '\0' && needed == 0);
    IS(netfold_comm_membership_address(comm, NULL, 8, NULL), NULL_POINTER);
    IS(netfold_comm_shrink(comm, 1000), ARGUMENT);
    IS(netfold_comm_grow(comm, 1, 1000), ARGUMENT);
    IS(netfold_comm_grow(comm, 0, 1000), ARGUMENT);
    OK(netfold_comm_failure(comm));
}

/* Arguments that are refused on this rank alone. */
static void refused(netfold_comm *comm)
{
    float data[4] = {0};
    netfold_work *work = NULL;
    const int32_t sum = NETFOLD_OP_SUM, f32 = NETFOLD_DTYPE_F32, reduce = NETFOLD_COLLECTIVE_ALL_REDUCE;
    IS(netfold_comm_all_reduce(comm, NULL, 4, f32, sum), ARGUMENT);
    IS(netfold_comm_all_reduce(comm, data, 4, 0, sum), ARGUMENT);
    IS(netfold_comm_all_reduce(comm, data, 4, 13, sum), ARGUMENT);
    IS(netfold_comm_all_reduce(comm, data, 4, -1, sum), ARGUMENT);
    IS(netfold_comm_all_reduce(comm, data, 4, f32, 8), ARGUMENT);
    IS(netfold_comm_all_reduce(comm, data, 4, f32, -1), ARGUMENT);
    IS(netfold_comm_all_reduce(comm, data, 4, f32, 1 << 30), ARGUMENT);
    IS(netfold_comm_all_reduce(comm, data, 4, f32, NETFOLD_OP_BIT_AND), UNSUPPORTED);
    IS(netfold_comm_all_reduce(comm, data, SIZE_MAX, f32, sum), LENGTH);
    IS(netfold_comm_run(comm, NETFOLD_COLLECTIVE_ALL_GATHER, data, data, SIZE_MAX / 2, f32, sum, 0), LENGTH);
    IS(netfold_comm_run(comm, 0, data, data, 4, f32, sum, 0), ARGUMENT);
    IS(netfold_comm_run(comm, 99, data, data, 4, f32, sum, 0), ARGUMENT);
    IS(netfold_comm_run(comm, NETFOLD_COLLECTIVE_BROADCAST, data, data, 4, f32, sum, 77), ARGUMENT);
    IS(netfold_comm_all_reduce_with_feedback(comm, data, NULL, 4, sum), ARGUMENT);
    IS(netfold_comm_all_reduce_with_feedback(comm, NULL, data, 4, sum), ARGUMENT);
    IS(netfold_comm_all_reduce_with_feedback(comm, data, data + 2, 2, NETFOLD_OP_MAX), UNSUPPORTED);
    IS(netfold_comm_all_reduce_with_feedback(comm, data, data + 2, SIZE_MAX, sum), LENGTH);
    IS(netfold_comm_start_with_feedback(comm, data, data, data + 2, 2, sum, NULL), NULL_POINTER);
    IS(netfold_comm_start_with_feedback(comm, data, data, data + 2, 2, 99, &work), ARGUMENT);
    IS(netfold_comm_start(comm, reduce, data, data, 4, f32, sum, 0, NULL), NULL_POINTER);
    IS(netfold_comm_start(comm, reduce, NULL, data, 4, f32, sum, 0, &work), ARGUMENT);
    IS(netfold_comm_start(comm, reduce, data, NULL, 4, f32, sum, 0, &work), ARGUMENT);
    CHECK(work == NULL);
    IS(netfold_comm_start_tolerating(comm, -0.1, true, true, 0, reduce, data, data, 4, f32, sum, 0, &work), ARGUMENT);
    IS(netfold_comm_start_tolerating(comm, 0.1, true, true, 0, reduce, data, data, 4, f32, sum, 0, NULL), NULL_POINTER);
    IS(netfold_comm_start_in_class(comm, 2, reduce, data, data, 4, f32, sum, 0, &work), ARGUMENT);
    OK(netfold_comm_failure(comm)); /* none of it ended the job */
}

static void works(netfold_comm *comm, const struct member *member)
{
    int32_t ranks = member->world, sum = ranks * (ranks - 1) / 2;
    int32_t *send = malloc(2 * COUNT * sizeof *send), *recv = malloc(2 * COUNT * sizeof *recv);
    netfold_work *work;
    bool done = false;
    for (int i = 0; i < 2 * COUNT; i++)
        send[i] = member->rank;
    OK(netfold_comm_all_reduce(comm, NULL, 0, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM));
    OK(netfold_comm_start(comm, NETFOLD_COLLECTIVE_ALL_REDUCE, send, recv, COUNT, NETFOLD_DTYPE_I32, NETFOLD_OP_SUM, 0,
                          &work));
    while (!done)
        OK(netfold_work_test(work, &done));
    IS(netfold_work_test(work, NULL), NULL_POINTER);
    OK(netfold_work_wait(work, 0));
    OK(netfold_work_wait(work, -1)); /* any number of times */
    netfold_work_free(work);
    CHECK(recv[0] == sum && recv[COUNT - 1] == sum && send[0] == member->rank);
    OK(netfold_comm_run(comm, NETFOLD_COLLECTIVE_ALL_GATHER, send, recv, COUNT, NETFOLD_DTYPE_I32, 0, 0));
    CHECK(recv[0] == 0 && recv[COUNT] == 1);
    OK(netfold_comm_run(comm, NETFOLD_COLLECTIVE_REDUCE_SCATTER, send, recv, COUNT, NETFOLD_DTYPE_I32, NETFOLD_OP_MAX, 0));
    CHECK(recv[0] == ranks - 1);
    OK(netfold_comm_run(comm, NETFOLD_COLLECTIVE_ALL_TO_ALL, send, recv, COUNT, NETFOLD_DTYPE_I32, 0, 0));
    CHECK(recv[0] == 0 && recv[COUNT] == 1);
    recv[3] = member->rank;
    OK(netfold_comm_run(comm, NETFOLD_COLLECTIVE_BROADCAST, recv, recv, 4, NETFOLD_DTYPE_I32, 0, 1));
    CHECK(recv[3] == 1);
    OK(netfold_comm_run(comm, NETFOLD_COLLECTIVE_REDUCE, send, recv, 4, NETFOLD_DTYPE_I32, NETFOLD_OP_SUM, 0));
    CHECK(member->rank != 0 || recv[0] == sum);
    OK(netfold_comm_start_in_class(comm, 1, NETFOLD_COLLECTIVE_ALL_REDUCE, send, recv, COUNT, NETFOLD_DTYPE_I32,
                                   NETFOLD_OP_SUM, 0, &work));
    OK(netfold_work_wait(work, -1));
    netfold_work_free(work);
    CHECK(recv[COUNT - 1] == sum);
    /* Hosts leave nothing out: the earlier residual is added, and none remains. */
    float gradient[3] = {1, 2, 3}, given[3] = {1, 2, 3}, residual[3] = {0.5f, 0.25f, 0};
    OK(netfold_comm_all_reduce_with_feedback(comm, gradient, residual, 3, NETFOLD_OP_SUM));
    CHECK(gradient[0] == 1.5f * ranks && gradient[1] == 2.25f * ranks && residual[0] == 0 && residual[1] == 0);
    residual[2] = 1;
    OK(netfold_comm_start_with_feedback(comm, given, gradient, residual, 3, NETFOLD_OP_AVG, &work));
    OK(netfold_work_wait(work, -1));
    netfold_work_free(work);
    CHECK(gradient[0] == 1 && gradient[2] == 4 && given[2] == 3 && residual[2] == 0);
    OK(netfold_comm_all_reduce_with_feedback(comm, NULL, NULL, 0, NETFOLD_OP_SUM));
    /* With any tolerance, hosts leave nothing out. */
    uint32_t partial = 7, missing = 7;
    gradient[0] = 1;
    OK(netfold_comm_start_tolerating(comm, 0.5, false, true, 0, NETFOLD_COLLECTIVE_ALL_REDUCE, gradient, gradient, 3,
                                     NETFOLD_DTYPE_F32, NETFOLD_OP_SUM, 0, &work));
    OK(netfold_work_wait(work, -1));
    OK(netfold_work_left_out(work, &partial, &missing));
    OK(netfold_work_left_out(work, NULL, NULL));
    netfold_work_free(work);
    CHECK(gradient[0] == ranks && partial == 0 && missing == 0);
    /* Freeing a handle does not stop its operation. */
    OK(netfold_comm_start(comm, NETFOLD_COLLECTIVE_ALL_REDUCE, send, recv, COUNT, NETFOLD_DTYPE_I32, NETFOLD_OP_SUM, 0,
                          &work));
    netfold_work_free(work);
    OK(netfold_comm_barrier(comm));
    CHECK(recv[COUNT - 1] == sum);
    free(send);
    free(recv);
}

/* The error that ended the job, as soon as the communicator reports it. */
static netfold_result failure_of(netfold_comm *comm)
{
    netfold_result result = NETFOLD_RESULT_OK;
    for (int i = 0; i < 1000 && result == NETFOLD_RESULT_OK; i++) {
        result = netfold_comm_failure(comm);
        if (result == NETFOLD_RESULT_OK)
            usleep(10000);
    }
    return result;
}

/* A correct operation; then rank 1 aborts while rank 0 waits for it. */
static void *whole_then_aborted(void *context)
{
    struct member *member = context;
    netfold_comm *comm = join(member);
    float data[64] = {1};
    netfold_work *work = NULL;
    look(comm, member);
    split(comm, member);
    refused(comm);
    works(comm, member);
    netfold_result result;
    if (member->rank == 1) {
        OK(netfold_comm_abort(comm));
        OK(netfold_comm_abort(comm));
        result = netfold_comm_all_reduce(comm, data, 64, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM);
        CHECK(result == NETFOLD_RESULT_CLOSED);
    } else {
        result = netfold_comm_all_reduce(comm, data, 64, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM);
        CHECK(result == NETFOLD_RESULT_PEER_LOST && netfold_last_error_peer() == 1);
        CHECK(netfold_last_error_advice() == NETFOLD_ADVICE_SHRINK);
    }
    CHECK(failure_of(comm) == result);
    CHECK(netfold_comm_barrier(comm) == result);
    netfold_result later = netfold_comm_start(comm, NETFOLD_COLLECTIVE_ALL_REDUCE, data, data, 64, NETFOLD_DTYPE_F32,
                                              NETFOLD_OP_SUM, 0, &work);
    if (later == NETFOLD_RESULT_OK) {
        later = netfold_work_wait(work, 10000);
        netfold_work_free(work);
    }
    CHECK(later == result);
    if (member->rank == 0)
        netfold_comm_leave(comm); /* frees it, whatever it returns */
    else
        netfold_comm_free(comm);
    return NULL;
}

/* The ranks do not agree on a length. */
static void *disagree(void *context)
{
    struct member *member = context;
    netfold_comm *comm = join(member);
    double data[40] = {1};
    IS(netfold_comm_all_reduce(comm, data, 40 - member->rank, NETFOLD_DTYPE_F64, NETFOLD_OP_SUM), MISMATCH);
    IS(netfold_comm_barrier(comm), MISMATCH);
    IS(failure_of(comm), MISMATCH);
    netfold_comm_free(comm);
    return NULL;
}

static pthread_barrier_t freed;

/* Freed with an operation in flight that will never end. */
static void *freed_in_flight(void *context)
{
    struct member *member = context;
    netfold_comm *comm = join(member);
    float data[64] = {1};
    netfold_work *work;
    OK(netfold_comm_barrier(comm));
    if (member->rank == 0) {
        OK(netfold_comm_start(comm, NETFOLD_COLLECTIVE_ALL_REDUCE, data, data, 64, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM, 0,
                              &work));
        IS(netfold_work_wait(work, 20), AGAIN);
        CHECK(strstr(netfold_last_error(), "under way") != NULL);
        netfold_comm_free(comm);
        IS(netfold_work_wait(work, 10000), CLOSED);
        netfold_work_free(work);
        pthread_barrier_wait(&freed);
    } else {
        pthread_barrier_wait(&freed);
        /* The first error may be rank 0's call, or the loss of rank 0. */
        netfold_result result = netfold_comm_barrier(comm);
        CHECK(result == NETFOLD_RESULT_PEER_LOST || result == NETFOLD_RESULT_MISMATCH);
        netfold_comm_free(comm);
    }
    return NULL;
}

static void two_threads(void *(*rank)(void *), const char *address)
{
    struct table table = {.cells = NULL};
    struct member members[2];
    pthread_t threads[2];
    pthread_barrier_init(&table.barrier, NULL, 2);
    pthread_barrier_init(&freed, NULL, 2);
    for (int i = 0; i < 2; i++) {
        members[i] = (struct member){address ? NULL : &table, (uint16_t)i, 2, address, NULL};
        pthread_create(&threads[i], NULL, rank, &members[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&table.barrier);
    pthread_barrier_destroy(&freed);
}

/* Rank 1 is another process, which is killed while rank 0 waits for it. */
static void killed_rank(const char *address)
{
    struct member member = {.rank = 0, .world = 2, .address = address};
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        member.rank = 1;
        OK(netfold_comm_barrier(join(&member)));
        kill(getpid(), SIGKILL);
    }
    netfold_comm *comm = join(&member);
    float data[1000] = {1};
    OK(netfold_comm_barrier(comm));
    IS(netfold_comm_all_reduce(comm, data, 1000, NETFOLD_DTYPE_F32, NETFOLD_OP_SUM), PEER_LOST);
    CHECK(netfold_last_error_peer() == 1);
    netfold_comm_free(comm);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* A child of a fork must not use what its parent has. */
static void fork_of_a_member(const char *address)
{
    struct member member = {.rank = 0, .world = 1, .address = address};
    netfold_builder *builder;
    netfold_comm *comm;
    OK(netfold_builder_new(&builder));
    OK(netfold_builder_set_job(builder, "alone"));
    OK(netfold_builder_set_rank(builder, member.rank));
    OK(netfold_builder_set_world_size(builder, member.world));
    OK(netfold_builder_set_rendezvous(builder, member.address));
    OK(netfold_builder_connect(builder, &comm));
    OK(netfold_comm_barrier(comm));
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        netfold_result result = netfold_comm_barrier(comm);
        if (write(ends[1], &result, sizeof result) == sizeof result)
            pause();
        kill(getpid(), SIGKILL); /* the parent's memory is not a leak of the child */
    }
    netfold_result result = NETFOLD_RESULT_OK;
    CHECK(read(ends[0], &result, sizeof result) == sizeof result && result == NETFOLD_RESULT_FORKED);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    close(ends[0]);
    close(ends[1]);
    OK(netfold_comm_leave(comm));
}

static int lines;

static void count_line(void *context, int32_t level, const char *line)
{
    CHECK(context == &lines && level >= NETFOLD_LOG_LEVEL_ERROR && level <= NETFOLD_LOG_LEVEL_INFO && line[0] != '\0');
    __atomic_add_fetch(&lines, 1, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
    CHECK(argc == 6);
    CHECK(strcmp(netfold_last_error(), "") == 0 && netfold_last_error_peer() == -1);
    CHECK(netfold_last_error_advice() == NETFOLD_ADVICE_NONE);
    killed_rank(argv[1]); /* before this process has threads */
    fork_of_a_member(argv[2]);
    null_pointers();
    bad_values();
    OK(netfold_set_log(count_line, &lines, NETFOLD_LOG_LEVEL_INFO));
    two_threads(whole_then_aborted, NULL);
    two_threads(whole_then_aborted, argv[3]);
    OK(netfold_set_log(NULL, NULL, NETFOLD_LOG_LEVEL_INFO));
    CHECK(lines > 0);
    two_threads(disagree, NULL);
    two_threads(disagree, argv[4]);
    two_threads(freed_in_flight, NULL);
    two_threads(freed_in_flight, argv[5]);
    printf("abuse: passed\n");
    return 0;
}
