/* MPI_Iallreduce, by generalized requests: MPI's own functions wait for and test them, alone and among others.
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

/* Starts a reduction and makes the request for it. */
static int fly(struct shim_group *group, const struct shim_call *call, const void *send, void *recv, MPI_Comm comm,
               MPI_Request *request)
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
    if (netfold_comm_start(group->netfold, call->collective, send, recv, call->count, call->dtype, call->op, 0,
                           &flight->work) != NETFOLD_RESULT_OK) {
        MPI_Request unused = flight->request;
        PMPI_Grequest_complete(unused);
        PMPI_Request_free(&unused);
        return shim_fail(comm);
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

int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    struct shim_call call = {.collective = NETFOLD_COLLECTIVE_ALL_REDUCE};
    struct shim_group *group = NULL;
    if (request != NULL && progress_register != NULL && shim_translate(count, 1, type, op, &call))
        group = shim_group(comm);
    /* This call must not block, and connecting does. */
    if (group != NULL && group->standing == SHIM_NEW)
        shim_want(group);
    if (group != NULL && group->standing != SHIM_ON)
        group = NULL;
    shim_count(group != NULL, call.count * call.element);
    if (group == NULL)
        return PMPI_Iallreduce(send, recv, count, type, op, comm, request);
    return fly(group, &call, send == MPI_IN_PLACE ? recv : send, recv, comm, request);
}
