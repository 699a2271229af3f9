/* libnetfold-mpi.so: declarations that its files share. docs/mpi.md describes it.
 *
 * Rules: whether Netfold or MPI does a call follows from (count, datatype, operation, communicator) and from the calls made on
 * that communicator before, never from knowledge of one rank alone, because ranks that decide differently hang. No lock
 * is held during anything collective. */
#ifndef NETFOLD_MPI_SHIM_H
#define NETFOLD_MPI_SHIM_H

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <netfold/netfold.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHIM_LINE 512

/* Settings from the environment of rank 0 of MPI_COMM_WORLD, the same on all ranks. */
struct shim_settings {
    bool on;
    int32_t verbose;
    int32_t mode;
    bool shared_memory;
    bool authenticated;
    uint64_t min_bytes;
    uint64_t slots; /* of the switch, for each communicator; 0 for the default */
    uint64_t join_ms;
    uint64_t stall_ms;
    uint64_t poll_us;
    char controller[256];
    char job[64]; /* the job whose groups communicators are: after the process of rank 0 */
};

enum shim_standing {
    SHIM_NEW, /* not tried yet */
    SHIM_OFF, /* left to MPI for good */
    SHIM_ON,
};

/* The record of a communicator, kept as an attribute. */
struct shim_group {
    struct shim_group *next; /* of all that are on */
    netfold_comm *netfold;
    enum shim_standing standing;
    bool wanted; /* a call that must not block was left to MPI, because connecting blocks */
    int rank, size;
    unsigned in_flight; /* under the lock of requests.c */
    bool closing;       /* the same; freed when nothing is in flight */
};

/* Memory of the shim in place of the program's, whose elements are not one behind the other or must stay as they are. */
struct shim_staging {
    void *memory; /* NULL until staged */
    size_t bytes; /* 0: not needed */
    void *of;     /* the program's: `count` of `type` */
    int count;
    MPI_Datatype type;
};

/* A collective in Netfold's terms. */
struct shim_call {
    int32_t collective;
    int32_t dtype;
    int32_t op;
    uint16_t root;
    size_t count;
    size_t element; /* bytes of one */
    size_t bytes;   /* of the tensor: all parts of it */
    const void *send;
    void *recv;
    struct shim_staging in, out;
};

/* init.c */
extern struct shim_settings shim_settings;
void shim_progress(void);
void shim_count(bool taken, size_t bytes);
/* Passes this thread's last Netfold error to the communicator's error handler; returns the MPI error code. */
int shim_fail(MPI_Comm comm);
/* Registers it for MPI_Error_string only. */
int shim_error_code(void);

/* communicator.c */
bool shim_communicators_start(void);
void shim_communicators_end(void);
/* The record of a communicator, or NULL where it has none. */
struct shim_group *shim_group(MPI_Comm comm);
/* Collective: connects a communicator that is new. */
void shim_connect(struct shim_group *group, MPI_Comm comm);
/* Collective: connects it if a call that must not block requested that. */
void shim_connect_wanted(MPI_Comm comm);
void shim_want(struct shim_group *group);
void shim_unwant(struct shim_group *group);
/* Leaves the job and frees the record; nothing is in flight. */
void shim_group_free(struct shim_group *group);

/* collectives.c */
/* Fills in element type, operation and count of a reduction of `parts` times `count` elements; false when MPI does it. */
bool shim_translate(int count, int parts, MPI_Datatype type, MPI_Op op, struct shim_call *call);

/* plan.c: each fills in a call, and returns the communicator's record, or NULL when MPI does the call whatever is connected. */
struct shim_group *shim_plan_allreduce(struct shim_call *call, const void *send, void *recv, int count,
                                       MPI_Datatype type, MPI_Op op, MPI_Comm comm);
struct shim_group *shim_plan_reduce(struct shim_call *call, const void *send, void *recv, int count, MPI_Datatype type,
                                    MPI_Op op, int root, MPI_Comm comm);
struct shim_group *shim_plan_reduce_scatter_block(struct shim_call *call, const void *send, void *recv, int count,
                                                  MPI_Datatype type, MPI_Op op, MPI_Comm comm);
struct shim_group *shim_plan_reduce_scatter(struct shim_call *call, const void *send, void *recv, const int counts[],
                                            MPI_Datatype type, MPI_Op op, MPI_Comm comm);
struct shim_group *shim_plan_bcast(struct shim_call *call, void *buffer, int count, MPI_Datatype type, int root,
                                   MPI_Comm comm);
struct shim_group *shim_plan_allgather(struct shim_call *call, const void *send, int send_count, MPI_Datatype send_type,
                                       void *recv, int recv_count, MPI_Datatype recv_type, MPI_Comm comm);
/* Starts a planned call; after an error of MPI's the job is aborted, or the other ranks would wait. Returns an MPI error code that has
 * been through the error handler. */
int shim_start(struct shim_group *group, struct shim_call *call, MPI_Comm comm, netfold_work **work);
/* Stores a result that came into memory of the shim, if the call was `good`, and frees that memory. */
void shim_settle(struct shim_call *call, bool good);

/* requests.c */
bool shim_requests_start(void);
void shim_requests_end(void);
/* Frees a group as soon as nothing is in flight. */
void shim_group_close(struct shim_group *group);

#endif
