/* libnetfold-mpi.so: what its files share. docs/mpi.md says what it does.
 *
 * Rules: whether Netfold or MPI does a call follows from (count, datatype, operation, communicator) and from the calls made on
 * that communicator before, never from anything that one rank alone knows, because ranks that decide differently hang. No lock
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

/* What the environment says: that of rank 0 of MPI_COMM_WORLD, the same on all ranks. */
struct shim_settings {
    bool on;
    int32_t verbose;
    int32_t mode;
    uint64_t min_bytes;
    uint64_t slots; /* of the switch, for each communicator; 0 when nothing is said */
    uint64_t join_ms;
    uint64_t stall_ms;
    char controller[256];
};

enum shim_standing {
    SHIM_NEW, /* nothing was tried yet */
    SHIM_OFF, /* left to MPI for ever */
    SHIM_ON,
};

/* What is kept with a communicator, as an attribute. */
struct shim_group {
    struct shim_group *next; /* of all that are on */
    netfold_comm *netfold;
    enum shim_standing standing;
    bool wanted; /* MPI_Iallreduce had to leave a call to MPI, because connecting blocks */
    int size;
    unsigned in_flight; /* under the lock of requests.c */
    bool closing;       /* the same; freed when nothing is in flight */
};

/* A reduction in Netfold's terms. */
struct shim_call {
    int32_t collective;
    int32_t dtype;
    int32_t op;
    size_t count;
    size_t element; /* bytes of one */
};

/* init.c */
extern struct shim_settings shim_settings;
void shim_progress(void);
void shim_count(bool taken, size_t bytes);
/* Passes this thread's last Netfold error to the communicator's error handler; returns the MPI error code. */
int shim_fail(MPI_Comm comm);
/* Keeps it for MPI_Error_string alone. */
int shim_error_code(void);

/* communicator.c */
bool shim_communicators_start(void);
void shim_communicators_end(void);
/* The record of a communicator, or NULL where there is nothing to keep. */
struct shim_group *shim_group(MPI_Comm comm);
/* Collective: connects a communicator that is new. */
void shim_connect(struct shim_group *group, MPI_Comm comm);
/* Collective: connects it if MPI_Iallreduce wanted that. */
void shim_connect_wanted(MPI_Comm comm);
void shim_want(struct shim_group *group);
void shim_unwant(struct shim_group *group);
/* Leaves the job and frees the record; nothing is in flight. */
void shim_group_free(struct shim_group *group);

/* collectives.c */
/* What Netfold would do for such a call on `parts` times `count` elements; false when it would not. */
bool shim_translate(int count, int parts, MPI_Datatype type, MPI_Op op, struct shim_call *call);

/* requests.c */
bool shim_requests_start(void);
void shim_requests_end(void);
/* Has a group freed as soon as nothing is in flight. */
void shim_group_close(struct shim_group *group);

#endif
