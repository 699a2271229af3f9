/* Calls of all kinds, done by Netfold or by MPI, each checked. An unmodified MPI program. Needs an even number of ranks. Prints
 * "all kinds: passed" from rank 0. With the argument early_free it also frees a communicator with an operation under way; with
 * mismatch it only makes a mistake, and looks at the error. */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 5003

static int rank, size, early_free;

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "rank %d, line %d: not so: %s\n", rank, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                \
        }                                                                                \
    } while (0)

/* A small number for an element of a rank. */
static int value(int of, int index)
{
    return 1 + (index + of) % 2;
}

/* The result of an operation over all ranks' values. */
static int folded(MPI_Op op, int index, int ranks)
{
    int result = value(0, index);
    for (int of = 1; of < ranks; of++) {
        int other = value(of, index);
        if (op == MPI_SUM)
            result += other;
        else if (op == MPI_PROD)
            result *= other;
        else if (op == MPI_MIN)
            result = other < result ? other : result;
        else if (op == MPI_MAX)
            result = other > result ? other : result;
        else if (op == MPI_BAND)
            result &= other;
        else if (op == MPI_BOR)
            result |= other;
        else if (op == MPI_BXOR)
            result ^= other;
        else if (op == MPI_LAND)
            result = result && other;
    }
    return result;
}

#define FOR_TYPE(name, type, mpi, ops)                                                        \
    static void name(MPI_Comm comm)                                                           \
    {                                                                                         \
        static type send[COUNT], recv[COUNT];                                                 \
        int ranks, me;                                                                        \
        MPI_Comm_size(comm, &ranks);                                                          \
        MPI_Comm_rank(comm, &me);                                                             \
        const MPI_Op all[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND}; \
        for (int o = 0; o < (ops); o++) {                                                     \
            for (int i = 0; i < COUNT; i++)                                                   \
                send[i] = (type)value(me, i), recv[i] = 0;                                    \
            CHECK(MPI_Allreduce(send, recv, COUNT, mpi, all[o], comm) == MPI_SUCCESS);        \
            for (int i = 0; i < COUNT; i++)                                                   \
                CHECK(recv[i] == (type)folded(all[o], i, ranks) && send[i] == (type)value(me, i)); \
            CHECK(MPI_Allreduce(MPI_IN_PLACE, send, COUNT, mpi, all[o], comm) == MPI_SUCCESS); \
            CHECK(memcmp(send, recv, sizeof send) == 0);                                      \
        }                                                                                     \
    }
FOR_TYPE(floats, float, MPI_FLOAT, 4)
FOR_TYPE(doubles, double, MPI_DOUBLE, 4)
FOR_TYPE(ints, int, MPI_INT, 8)
FOR_TYPE(longs, long, MPI_LONG, 8)
FOR_TYPE(long_longs, long long, MPI_LONG_LONG, 8)
FOR_TYPE(shorts, short, MPI_SHORT, 8)
FOR_TYPE(chars, signed char, MPI_SIGNED_CHAR, 8)
FOR_TYPE(bytes, unsigned char, MPI_UNSIGNED_CHAR, 8)
FOR_TYPE(words, uint16_t, MPI_UINT16_T, 8)
FOR_TYPE(unsigneds, unsigned, MPI_UNSIGNED, 8)
FOR_TYPE(wide, uint64_t, MPI_UINT64_T, 8)

static void types(MPI_Comm comm)
{
    floats(comm), doubles(comm), ints(comm), longs(comm), long_longs(comm), shorts(comm), chars(comm), bytes(comm);
    words(comm), unsigneds(comm), wide(comm);
}

static void larger(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        if (((float *)in)[i] > ((float *)inout)[i])
            ((float *)inout)[i] = ((float *)in)[i];
}

/* Reductions that Netfold does not support. */
static void unsupported(void)
{
    static float send[2 * COUNT], recv[2 * COUNT];
    static struct {
        float value;
        int index;
    } at[COUNT], least[COUNT];
    MPI_Op op;
    MPI_Datatype pair;
    for (int i = 0; i < 2 * COUNT; i++)
        send[i] = (float)(rank + i % 5);
    MPI_Op_create(larger, 1, &op);
    MPI_Allreduce(send, recv, 2 * COUNT, MPI_FLOAT, op, MPI_COMM_WORLD);
    for (int i = 0; i < 2 * COUNT; i++)
        CHECK(recv[i] == (float)(size - 1 + i % 5));
    MPI_Op_free(&op);
    MPI_Op halves;
    MPI_Type_contiguous(2, MPI_FLOAT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(larger, 1, &halves); /* of the first half: it counts pairs */
    memset(recv, 0, sizeof recv);
    MPI_Allreduce(send, recv, COUNT, pair, halves, MPI_COMM_WORLD);
    MPI_Op_free(&halves);
    MPI_Type_free(&pair);
    for (int i = 0; i < COUNT; i++)
        at[i].value = (float)((rank + i) % size), at[i].index = rank;
    MPI_Allreduce(at, least, COUNT, MPI_FLOAT_INT, MPI_MINLOC, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        CHECK(least[i].value == 0 && least[i].index == (size - i % size) % size);
    CHECK(MPI_Allreduce(send, recv, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(NULL, NULL, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    recv[0] = 0;
    CHECK(MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF) == MPI_SUCCESS && recv[1] == send[1]);
}

static void scatters(void)
{
    int *send = malloc((size_t)size * COUNT * sizeof *send), *recv = malloc((size_t)size * COUNT * sizeof *recv);
    int *counts = malloc((size_t)size * sizeof *counts);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < size * COUNT; i++)
            send[i] = recv[i] = value(rank, i);
        for (int i = 0; i < size; i++)
            counts[i] = round == 3 ? COUNT - i : COUNT; /* equal, or not */
        int in_place = round == 1, start = 0;
        for (int i = 0; i < rank; i++)
            start += counts[i];
        if (round < 2)
            MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : send, recv, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else
            MPI_Reduce_scatter(send, recv, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < counts[rank]; i++)
            CHECK(recv[i] == folded(MPI_SUM, start + i, size));
    }
    for (int i = 0; i < size * COUNT; i++)
        recv[i] = value(rank, i);
    for (int i = 0; i < size; i++)
        counts[i] = COUNT;
    MPI_Reduce_scatter(MPI_IN_PLACE, recv, counts, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        CHECK(recv[i] == folded(MPI_MAX, rank * COUNT + i, size));
    free(send), free(recv), free(counts);
}

/* The value of a part of a rank in what is gathered. */
static int part(int of, int index)
{
    return 1000 * of + index;
}

/* Pairs of ints with a gap behind each, and in memory in the other order. */
static MPI_Datatype pairs(void)
{
    int displacements[2] = {1, 0};
    MPI_Datatype swapped, spaced;
    MPI_Type_create_indexed_block(2, 1, displacements, MPI_INT, &swapped);
    MPI_Type_create_resized(swapped, 0, 3 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Type_free(&swapped);
    return spaced;
}

/* Where element `index` is in memory of that type. */
static int place(int index)
{
    return index / 2 * 3 + 1 - index % 2;
}

/* One call of each kind to every root: with types that differ between the ranks, in place and not. */
static void moves(MPI_Comm comm)
{
    enum { PAIRS = COUNT / 2, INTS = 2 * PAIRS };
    int ranks, me;
    MPI_Comm_size(comm, &ranks), MPI_Comm_rank(comm, &me);
    static int plain[COUNT], spaced[2 * COUNT], result[COUNT];
    int *all = malloc((size_t)ranks * 3 * PAIRS * sizeof *all);
    MPI_Datatype pair = pairs();
    for (int root = 0; root < ranks; root++) {
        for (int kind = 0; kind < 3; kind++) {
            int derived = kind == 2 || (kind == 1 && me % 2 == 0);
            memset(plain, -1, sizeof plain), memset(spaced, -1, sizeof spaced);
            for (int i = 0; me == root && i < INTS; i++)
                plain[i] = spaced[place(i)] = part(root, i);
            CHECK(MPI_Bcast(derived ? spaced : plain, derived ? PAIRS : INTS, derived ? pair : MPI_INT, root, comm) ==
                  MPI_SUCCESS);
            for (int i = 0; i < INTS; i++)
                CHECK((derived ? spaced[place(i)] : plain[i]) == part(root, i));
            CHECK(spaced[2] == -1);
        }
        for (int i = 0; i < COUNT; i++)
            plain[i] = value(me, i), result[i] = -7;
        CHECK(MPI_Reduce(plain, me == root ? result : NULL, COUNT, MPI_INT, MPI_SUM, root, comm) == MPI_SUCCESS);
        for (int i = 0; i < COUNT; i++)
            CHECK(plain[i] == value(me, i) && result[i] == (me == root ? folded(MPI_SUM, i, ranks) : -7));
        CHECK(MPI_Reduce(me == root ? MPI_IN_PLACE : plain, plain, COUNT, MPI_INT, MPI_MAX, root, comm) == MPI_SUCCESS);
        for (int i = 0; i < COUNT; i++)
            CHECK(plain[i] == (me == root ? folded(MPI_MAX, i, ranks) : value(me, i)));
    }
    for (int kind = 0; kind < 4; kind++) {
        int gaps = kind == 2 || (kind == 3 && me % 2), in_place = kind == 1;
        int width = gaps ? 3 * PAIRS : INTS;
        memset(all, -1, (size_t)ranks * 3 * PAIRS * sizeof *all);
        for (int i = 0; i < INTS; i++)
            plain[i] = all[in_place ? me * INTS + i : 0] = part(me, i);
        CHECK(MPI_Allgather(in_place ? MPI_IN_PLACE : plain, INTS, MPI_INT, all, gaps ? PAIRS : INTS,
                            gaps ? pair : MPI_INT, comm) == MPI_SUCCESS);
        for (int of = 0; of < ranks; of++)
            for (int i = 0; i < INTS; i++)
                CHECK(all[of * width + (gaps ? place(i) : i)] == part(of, i));
    }
    MPI_Type_free(&pair);
    free(all);
}

/* One request of each kind at the same time, of types that are freed at once. */
static void requests_of_each_kind(MPI_Comm comm)
{
    enum { KINDS = 8, PAIRS = COUNT / 2, INTS = 2 * PAIRS };
    int ranks, me;
    MPI_Comm_size(comm, &ranks), MPI_Comm_rank(comm, &me);
    size_t whole = (size_t)ranks * COUNT;
    int *in[KINDS], *out[KINDS], counts[64];
    CHECK(ranks <= 64);
    for (int kind = 0; kind < KINDS; kind++) {
        in[kind] = malloc(whole * 2 * sizeof(int)), out[kind] = malloc(whole * 2 * sizeof(int));
        for (size_t i = 0; i < 2 * whole; i++)
            in[kind][i] = value(me, (int)i), out[kind][i] = -1;
    }
    for (int i = 0; i < ranks; i++)
        counts[i] = COUNT;
    for (int round = 0; round < 3; round++) {
        int root = round % ranks;
        MPI_Request requests[KINDS];
        MPI_Datatype pair = pairs();
        for (int i = 0; i < INTS; i++)
            out[0][i] = me == root ? part(root, i) : -1, out[1][place(i)] = me == root ? part(root, i + round) : -1;
        memcpy(out[4], in[4], whole * sizeof(int));
        MPI_Ibcast(out[0], INTS, MPI_INT, root, comm, &requests[0]);
        MPI_Ibcast(out[1], PAIRS, pair, root, comm, &requests[1]);
        MPI_Ireduce(in[2], me == root ? out[2] : NULL, COUNT, MPI_INT, MPI_SUM, root, comm, &requests[2]);
        MPI_Ireduce_scatter_block(in[3], out[3], COUNT, MPI_INT, MPI_SUM, comm, &requests[3]);
        MPI_Ireduce_scatter_block(MPI_IN_PLACE, out[4], COUNT, MPI_INT, MPI_SUM, comm, &requests[4]);
        MPI_Ireduce_scatter(in[5], out[5], counts, MPI_INT, MPI_MAX, comm, &requests[5]);
        MPI_Iallgather(in[6], INTS, MPI_INT, out[6], PAIRS, pair, comm, &requests[6]);
        MPI_Iallreduce(in[7], out[7], COUNT, MPI_INT, MPI_SUM, comm, &requests[7]);
        MPI_Type_free(&pair);
        CHECK(MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        for (int i = 0; i < INTS; i++) {
            CHECK(out[0][i] == part(root, i) && out[1][place(i)] == part(root, i + round));
            CHECK(me != root || out[2][i] == folded(MPI_SUM, i, ranks));
            CHECK(out[3][i] == folded(MPI_SUM, me * COUNT + i, ranks) && out[4][i] == out[3][i]);
            CHECK(out[5][i] == folded(MPI_MAX, me * COUNT + i, ranks) && out[7][i] == folded(MPI_SUM, i, ranks));
        }
        for (int of = 0; of < ranks; of++)
            for (int i = 0; i < INTS; i++)
                CHECK(out[6][of * 3 * PAIRS + place(i)] == value(of, i));
        MPI_Barrier(comm);
    }
    for (int kind = 0; kind < KINDS; kind++)
        free(in[kind]), free(out[kind]);
}

static int copies;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}

/* Many communicators, one after the other and some at a time; attributes are the program's own. */
static void communicators(void)
{
    int key;
    MPI_Comm half, dup, inter;
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    for (int round = 0; round < 40; round++) {
        MPI_Comm_split(MPI_COMM_WORLD, (rank + round) % 2, -rank, &half);
        ints(half);
        MPI_Comm_free(&half);
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_set_attr(half, key, &key);
    types(half);
    CHECK(copies == 0);
    MPI_Comm_dup(half, &dup);
    CHECK(copies == 1);
    ints(dup), floats(half), moves(dup), requests_of_each_kind(dup);
    MPI_Comm_free(&dup);
    floats(half);
    int mine = rank % 2, theirs = 1 - mine, sum[COUNT], send[COUNT];
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, theirs, 7, &inter);
    for (int i = 0; i < COUNT; i++)
        send[i] = mine;
    MPI_Allreduce(send, sum, COUNT, MPI_INT, MPI_SUM, inter);
    CHECK(sum[0] == theirs * size / 2 && sum[COUNT - 1] == sum[0]);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Comm_free_keyval(&key);
}

#define FLIGHTS 6

/* Reductions in flight among other requests. */
static void nonblocking(MPI_Comm comm)
{
    static int send[FLIGHTS][COUNT], recv[FLIGHTS][COUNT], out[COUNT], in[COUNT];
    MPI_Request requests[FLIGHTS + 2];
    MPI_Status statuses[FLIGHTS + 2];
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int way = 0; way < 6; way++) {
        int done = 0, indices[FLIGHTS + 2], flag = 0;
        memset(recv, 0, sizeof recv);
        memset(in, 0, sizeof in);
        out[7] = 100 + rank + way;
        MPI_Irecv(in, COUNT, MPI_INT, before, way, comm, &requests[0]);
        for (int f = 0; f < FLIGHTS; f++) {
            for (int i = 0; i < COUNT; i++)
                send[f][i] = recv[f][i] = value(rank, i + f);
            MPI_Iallreduce(f % 2 ? MPI_IN_PLACE : send[f], recv[f], COUNT, MPI_INT, MPI_SUM, comm, &requests[f + 1]);
        }
        MPI_Isend(out, COUNT, MPI_INT, next, way, comm, &requests[FLIGHTS + 1]);
        switch (way) {
        case 0:
            MPI_Waitall(FLIGHTS + 2, requests, statuses);
            break;
        case 1:
            while (done < FLIGHTS + 2) {
                int count;
                MPI_Testsome(FLIGHTS + 2, requests, &count, indices, statuses);
                done += count == MPI_UNDEFINED ? 0 : count;
            }
            break;
        case 2:
            for (; done < FLIGHTS + 2; done++)
                MPI_Waitany(FLIGHTS + 2, requests, indices, statuses);
            break;
        case 3:
            while (!flag)
                MPI_Testall(FLIGHTS + 2, requests, &flag, MPI_STATUSES_IGNORE);
            break;
        case 4:
            for (int f = FLIGHTS + 1; f >= 0; f--)
                MPI_Wait(&requests[f], MPI_STATUS_IGNORE);
            break;
        default:
            for (int f = 0; f < FLIGHTS + 2; f++)
                for (flag = 0; !flag;)
                    MPI_Test(&requests[f], &flag, statuses);
        }
        for (int f = 0; f < FLIGHTS + 2; f++)
            CHECK(requests[f] == MPI_REQUEST_NULL);
        for (int f = 0; f < FLIGHTS; f++)
            for (int i = 0; i < COUNT; i++)
                CHECK(recv[f][i] == folded(MPI_SUM, i + f, size));
        CHECK(in[7] == 100 + before + way);
    }
}

#define LARGE (4 << 20)

/* Hangs if a reduction waits for others without letting MPI make progress. */
static void progress(void)
{
    static char large[LARGE];
    static int send[COUNT], recv[COUNT];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm fresh;
    int next = rank ^ 1;
    for (int round = 0; round < 3; round++) {
        if (rank % 2 == 0) {
            MPI_Irecv(large, LARGE, MPI_CHAR, next, 1, MPI_COMM_WORLD, &request);
        } else {
            memset(large, round + 1, LARGE);
            MPI_Ssend(large, LARGE, MPI_CHAR, next, 1, MPI_COMM_WORLD);
        }
        MPI_Allreduce(send, recv, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(large[LARGE - 1] == round + 1);
    }
    /* Starting one must not wait for the others, on a communicator that was not used before, either. */
    MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
    for (int round = 0; round < 2; round++) {
        if (rank % 2 == 1)
            MPI_Recv(large, 1, MPI_CHAR, next, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send[0] = rank;
        MPI_Iallreduce(send, recv, COUNT, MPI_INT, MPI_SUM, fresh, &request);
        if (rank % 2 == 0)
            MPI_Ssend(large, 1, MPI_CHAR, next, 2, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(recv[0] == size * (size - 1) / 2);
        MPI_Barrier(fresh);
    }
    nonblocking(fresh);
    /* The standard allows this; Open MPI 4.1's own operation crashes. */
    if (early_free)
        MPI_Iallreduce(send, recv, COUNT, MPI_INT, MPI_SUM, fresh, &request);
    MPI_Comm_free(&fresh);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(recv[0] == size * (size - 1) / 2);
}

static void *many(void *of)
{
    MPI_Comm comm = *(MPI_Comm *)of;
    int *data = malloc(COUNT * sizeof *data);
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < COUNT; i++)
            data[i] = rank + i + round;
        MPI_Allreduce(MPI_IN_PLACE, data, COUNT, MPI_INT, MPI_SUM, comm);
        for (int i = 0; i < COUNT; i++)
            CHECK(data[i] == size * (size - 1) / 2 + size * (i + round));
    }
    free(data);
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 3 };
    pthread_t all[THREADS];
    MPI_Comm comms[THREADS];
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    for (int t = 0; t < THREADS; t++)
        pthread_create(&all[t], NULL, many, &comms[t]);
    for (int t = 0; t < THREADS; t++)
        pthread_join(all[t], NULL);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_free(&comms[t]);
}

/* Erroneous: the ranks give different lengths. With Netfold that is an error on every rank. */
static void mismatch(void)
{
    static float send[COUNT], recv[COUNT];
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS);
    int error = MPI_Allreduce(send, recv, COUNT - (rank == 1), MPI_FLOAT, MPI_SUM, comm);
    CHECK(error != MPI_SUCCESS);
    MPI_Error_class(error, &class);
    MPI_Error_string(error, text, &length);
    CHECK(class == MPI_ERR_OTHER);
    printf("rank %d: %s\n", rank, text);
    error = MPI_Iallreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, comm, &request);
    if (error == MPI_SUCCESS)
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Error_class(error, &class);
    CHECK(class == MPI_ERR_OTHER);
    MPI_Comm_free(&comm);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK(MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    early_free = argc > 1 && strcmp(argv[1], "early_free") == 0;
    if (argc > 1 && strcmp(argv[1], "mismatch") == 0) {
        mismatch();
    } else {
        types(MPI_COMM_WORLD);
        unsupported();
        scatters();
        moves(MPI_COMM_WORLD);
        requests_of_each_kind(MPI_COMM_WORLD);
        nonblocking(MPI_COMM_WORLD);
        progress();
        communicators();
        if (provided == MPI_THREAD_MULTIPLE)
            threads();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all kinds: passed\n");
    MPI_Finalize();
    return 0;
}
