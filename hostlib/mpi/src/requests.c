/* The collectives that do not block, by generalized requests: MPI's own functions wait for and test them, alone and among others.
 *
 * They are completed from Open MPI's progress loop, on whatever thread of the program makes MPI progress, so that no thread of ours
 * ever calls MPI. Where that loop has no hook, MPI does all of it. */
#include "shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct flight {
    struct flight *next;
    struct shim_group *group;
    struct shim_call call;
    netfold_work *work;
    MPI_Request request;
    int error;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct flight *first, **last = &first; /* under the lock */
static atomic_uint flights_count;

typedef int progress_fn(void);
static int (*progress_register)(progress_fn *);
static int (*progress_unregister)(progress_fn *);

/* Decrements the operations in flight of a group; frees a closing group after the last. */
static void land(struct shim_group *group)
{
    pthread_mutex_lock(&lock);
    bool close = --group->in_flight == 0 && group->closing;
    pthread_mutex_unlock(&lock);
    if (close)
        shim_group_free(group);
}

void shim_group_close(struct shim_group *group)
{
    pthread_mutex_lock(&lock);
    bool close = group->in_flight == 0;
    group->closing = true;
    pthread_mutex_unlock(&lock);
    if (close)
        shim_group_free(group);
}

/* Completes requests whose operations are over; called by MPI's progress loop. */
static int poll_flights(void)
{
    struct flight *done = NULL, **end = &done;
    int count = 0;
    if (atomic_load_explicit(&flights_count, memory_order_relaxed) == 0 || pthread_mutex_trylock(&lock) != 0)
        return 0;
    for (struct flight **link = &first; *link != NULL;) {
        struct flight *flight = *link;
        bool over = false;
        netfold_result result = netfold_work_test(flight->work, &over);
        if (!over) {
            link = &flight->next;
            continue;
        }
        flight->error = result == NETFOLD_RESULT_OK ? MPI_SUCCESS : shim_error_code();
        *link = flight->next;
        if (last == &flight->next)
            last = link;
        flight->next = NULL;
        *end = flight;
        end = &flight->next;
        count++;
    }
    atomic_fetch_sub(&flights_count, (unsigned)count);
    pthread_mutex_unlock(&lock);
    while (done != NULL) {
        struct flight *flight = done;
        struct shim_group *group = flight->group;
        done = flight->next;
        netfold_work_free(flight->work);
        shim_settle(&flight->call, flight->error == MPI_SUCCESS);
        PMPI_Grequest_complete(flight->request); /* which may free the flight */
        land(group);
    }
    if (count == 0)
        sched_yield(); /* to Netfold's threads, where processors are few */
    return count;
}

bool shim_requests_start(void)
{
    *(void **)&progress_register = dlsym(RTLD_DEFAULT, "opal_progress_register");
    *(void **)&progress_unregister = dlsym(RTLD_DEFAULT, "opal_progress_unregister");
    if (progress_register == NULL || progress_unregister == NULL || progress_register(poll_flights) != 0)
        progress_register = NULL;
    return progress_register != NULL;
}

void shim_requests_end(void)
{
    if (progress_register == NULL)
        return;
    /* Operations of freed requests may still be in flight. */
    while (atomic_load(&flights_count) != 0)
        shim_progress();
    progress_unregister(poll_flights);
    progress_register = NULL;
}

static int query(void *state, MPI_Status *status)
{
    struct flight *flight = state;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return flight->error;
}

static int release(void *state)
{
    free(state);
    return MPI_SUCCESS;
}

/* Collective operations cannot be cancelled. */
static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

/* Starts a planned call and makes the request for it. */
static int fly(struct shim_group *group, const struct shim_call *call, MPI_Comm comm, MPI_Request *request)
{
    struct flight *flight = calloc(1, sizeof *flight);
    int error = flight == NULL ? MPI_ERR_NO_MEM
                               : PMPI_Grequest_start(query, release, cancel, flight, &flight->request);
    if (error != MPI_SUCCESS) {
        free(flight);
        netfold_comm_abort(group->netfold); /* or the others would wait */
        PMPI_Comm_call_errhandler(comm, error);
        return error;
    }
    flight->call = *call;
    error = shim_start(group, &flight->call, comm, &flight->work);
    if (error != MPI_SUCCESS) {
        MPI_Request unused = flight->request;
        PMPI_Grequest_complete(unused);
        PMPI_Request_free(&unused);
        return error;
    }
    flight->group = group;
    *request = flight->request;
    pthread_mutex_lock(&lock);
    *last = flight;
    last = &flight->next;
    group->in_flight++;
    atomic_fetch_add(&flights_count, 1);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

/* Whether Netfold does a planned call now: it must not block, and connecting does. */
static bool ready(struct shim_group *group, const struct shim_call *call, const MPI_Request *request)
{
    bool able = group != NULL && request != NULL && progress_register != NULL;
    if (able && group->standing == SHIM_NEW)
        shim_want(group);
    able = able && group->standing == SHIM_ON;
    shim_count(able, call->bytes);
    return able;
}

int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_allreduce(&call, send, recv, count, type, op, comm);
    if (!ready(group, &call, request))
        return PMPI_Iallreduce(send, recv, count, type, op, comm, request);
    return fly(group, &call, comm, request);
}

int MPI_Ireduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request *request)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_reduce(&call, send, recv, count, type, op, root, comm);
    if (!ready(group, &call, request))
        return PMPI_Ireduce(send, recv, count, type, op, root, comm, request);
    return fly(group, &call, comm, request);
}

int MPI_Ireduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request *request)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_reduce_scatter_block(&call, send, recv, count, type, op, comm);
    if (!ready(group, &call, request))
        return PMPI_Ireduce_scatter_block(send, recv, count, type, op, comm, request);
    return fly(group, &call, comm, request);
}

int MPI_Ireduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                        MPI_Request *request)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_reduce_scatter(&call, send, recv, counts, type, op, comm);
    if (!ready(group, &call, request))
        return PMPI_Ireduce_scatter(send, recv, counts, type, op, comm, request);
    return fly(group, &call, comm, request);
}

int MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
    struct shim_call call;
    struct shim_group *group = shim_plan_bcast(&call, buffer, count, type, root, comm);
    if (!ready(group, &call, request))
        return PMPI_Ibcast(buffer, count, type, root, comm, request);
    return fly(group, &call, comm, request);
}

int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                   MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    struct shim_call call;
    struct shim_group *group =
        shim_plan_allgather(&call, send, send_count, send_type, recv, recv_count, recv_type, comm);
    if (!ready(group, &call, request))
        return PMPI_Iallgather(send, send_count, send_type, recv, recv_count, recv_type, comm, request);
    return fly(group, &call, comm, request);
}
