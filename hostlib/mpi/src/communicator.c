/* The Netfold communicator of an MPI communicator. */
#include "shim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most communicators that are connected at a time: each has threads, sockets and slots of the switch. */
#define GROUPS_MAX 32

/* Slots to request from the switch: for communicators of all ranks, and for others, of which there may be many at a time. */
#define SLOTS_WORLD 256
#define SLOTS_PART 64

/* Most ranks of a job. */
#define RANKS_MAX 32768

static int key = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_group *groups; /* under the lock, as the next two */
static unsigned groups_count, names_count;
static bool job_named; /* under the lock: a communicator of all ranks has the name of the job */
static atomic_uint wanted_count;
static atomic_bool explained;

/* Removes a group from the list and ends its job, once nothing is in flight. */
static void leave(struct shim_group *group)
{
    pthread_mutex_lock(&lock);
    for (struct shim_group **link = &groups; *link != NULL; link = &(*link)->next) {
        if (*link == group) {
            *link = group->next;
            groups_count--;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (group->netfold != NULL)
        netfold_comm_leave(group->netfold);
    group->netfold = NULL;
    group->standing = SHIM_OFF;
}

static int forget(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    struct shim_group *group = value;
    shim_unwant(group);
    shim_group_close(group);
    return MPI_SUCCESS;
}

void shim_group_free(struct shim_group *group)
{
    leave(group);
    free(group);
}

bool shim_communicators_start(void)
{
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, NULL) == MPI_SUCCESS;
}

void shim_communicators_end(void)
{
    pthread_mutex_lock(&lock);
    struct shim_group *group = groups;
    pthread_mutex_unlock(&lock);
    while (group != NULL) {
        leave(group); /* its record goes with its communicator */
        pthread_mutex_lock(&lock);
        group = groups;
        pthread_mutex_unlock(&lock);
    }
}

/* Whether all ranks of the communicator have started together, and so have the same settings. All of them return the same. */
static bool within_world(MPI_Comm comm, int size)
{
    MPI_Group ours, world;
    int *ranks = malloc(2 * (size_t)size * sizeof *ranks);
    bool within = ranks != NULL;
    PMPI_Comm_group(comm, &ours);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; within && i < size; i++)
        ranks[i] = i;
    within = within && PMPI_Group_translate_ranks(ours, size, ranks, world, ranks + size) == MPI_SUCCESS;
    for (int i = 0; within && i < size; i++)
        within = ranks[size + i] != MPI_UNDEFINED;
    PMPI_Group_free(&ours);
    PMPI_Group_free(&world);
    free(ranks);
    return within;
}

struct shim_group *shim_group(MPI_Comm comm)
{
    struct shim_group *group;
    int found, inter, size, rank;
    if (comm == MPI_COMM_NULL || PMPI_Comm_get_attr(comm, key, &group, &found) != MPI_SUCCESS)
        return NULL;
    if (found)
        return group;
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter ||
        PMPI_Comm_size(comm, &size) != MPI_SUCCESS || PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return NULL;
    group = calloc(1, sizeof *group);
    if (group == NULL)
        return NULL;
    group->rank = rank;
    group->size = size;
    if (size == 1 || size > RANKS_MAX || !within_world(comm, size))
        group->standing = SHIM_OFF;
    if (PMPI_Comm_set_attr(comm, key, group) != MPI_SUCCESS) {
        free(group);
        return NULL;
    }
    return group;
}

/* Ranks that connect, over a communicator of their own. Each exchange begins with a roll call, in which ranks that have finished
 * connecting take part as well, so that a rank that failed alone does not count as missing. */
struct meeting {
    MPI_Comm comm;
    int rank, size;
    bool broken;          /* MPI itself fails */
    int connecting, over; /* ranks, at the last roll call */
    int failed;           /* the first rank that failed by its own fault, or the size */
};

static void call_roll(struct meeting *meeting, bool connecting, bool failed)
{
    int mine[3] = {connecting, !connecting, failed ? meeting->size - meeting->rank : 0};
    int all[3];
    if (!meeting->broken && PMPI_Allreduce(mine, all, 3, MPI_INT, MPI_MAX, meeting->comm) == MPI_SUCCESS) {
        meeting->connecting = all[0];
        meeting->over = all[1];
        meeting->failed = meeting->size - all[2];
    } else {
        meeting->broken = true;
        meeting->connecting = 0;
        meeting->over = 1;
        meeting->failed = meeting->rank;
    }
}

static int32_t gather(void *context, const uint8_t *mine, uint8_t *all, size_t len)
{
    struct meeting *meeting = context;
    call_roll(meeting, true, false);
    if (meeting->over)
        return 1;
    return PMPI_Allgather(mine, (int)len, MPI_BYTE, all, (int)len, MPI_BYTE, meeting->comm);
}

/* Builds the Netfold communicator; NULL and the reason when there is none. */
static netfold_comm *build(struct meeting *meeting, const char *name, char why[SHIM_LINE])
{
    netfold_builder *builder = NULL;
    netfold_comm *comm = NULL;
    netfold_result result = netfold_builder_new(&builder);
    const struct shim_settings *settings = &shim_settings;
    int world = 0;
    PMPI_Comm_size(MPI_COMM_WORLD, &world);
    uint32_t slots = meeting->size == world ? SLOTS_WORLD : SLOTS_PART;
    if (settings->slots != 0)
        slots = settings->slots > UINT32_MAX ? UINT32_MAX : (uint32_t)settings->slots;
#define SET(call)                     \
    if (result == NETFOLD_RESULT_OK)  \
    result = netfold_builder_set_##call
    SET(job)(builder, settings->job);
    /* The first communicator of all ranks is the job. */
    if (name[0] != '\0')
        SET(group)(builder, name);
    SET(rank)(builder, (uint16_t)meeting->rank);
    SET(world_size)(builder, (uint16_t)meeting->size);
    SET(mode)(builder, settings->mode);
    SET(slots)(builder, slots);
    SET(shared_memory)(builder, settings->shared_memory);
    SET(authenticated)(builder, settings->authenticated);
    SET(join_timeout)(builder, settings->join_ms);
    SET(stall_timeout)(builder, settings->stall_ms);
    SET(busy_poll)(builder, settings->poll_us);
    SET(exchange)(builder, gather, meeting);
    if (settings->controller[0] != '\0')
        SET(controller)(builder, settings->controller);
    if (getenv("NETFOLD_CA") != NULL)
        SET(controller_ca)(builder, getenv("NETFOLD_CA"));
    if (getenv("NETFOLD_TENANT") != NULL)
        SET(tenant)(builder, getenv("NETFOLD_TENANT"), getenv("NETFOLD_TOKEN") != NULL ? getenv("NETFOLD_TOKEN") : "");
#undef SET
    if (result == NETFOLD_RESULT_OK)
        result = netfold_builder_connect(builder, &comm);
    else
        netfold_builder_free(builder);
    if (result != NETFOLD_RESULT_OK) {
        snprintf(why, SHIM_LINE, "%s", netfold_last_error());
        return NULL;
    }
    char path[SHIM_LINE];
    int32_t network = NETFOLD_NETWORK_RING;
    netfold_comm_network(comm, &network);
    netfold_comm_path(comm, path, sizeof path, NULL);
    if (network == NETFOLD_NETWORK_RING) {
        snprintf(why, SHIM_LINE, "Netfold would use %.480s", path);
        netfold_comm_leave(comm);
        return NULL;
    }
    snprintf(why, SHIM_LINE, "%s", path);
    return comm;
}

/* Whether this process may connect one more communicator, and its name, after the first rank's process; empty for the first one of all ranks. */
static bool enter(struct meeting *meeting, char name[64])
{
    int world = 0;
    PMPI_Comm_size(MPI_COMM_WORLD, &world);
    char host[32] = "";
    gethostname(host, sizeof host - 1);
    pthread_mutex_lock(&lock);
    bool room = groups_count < GROUPS_MAX;
    groups_count += room;
    if (meeting->size == world && !job_named)
        name[0] = '\0';
    else
        snprintf(name, 64, "%s %ld %u", host, (long)getpid(), names_count++);
    job_named = job_named || meeting->size == world;
    pthread_mutex_unlock(&lock);
    if (PMPI_Bcast(name, 64, MPI_CHAR, 0, meeting->comm) != MPI_SUCCESS)
        meeting->broken = true;
    return room;
}

/* Whether there is a switch, or all ranks share a host; the same on all ranks. */
static bool reachable(struct meeting *meeting)
{
    MPI_Comm near;
    int size = 0, smallest = 0;
    if (shim_settings.controller[0] != '\0')
        return true;
    if (PMPI_Comm_split_type(meeting->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near) != MPI_SUCCESS)
        return false;
    PMPI_Comm_size(near, &size);
    PMPI_Comm_free(&near);
    return PMPI_Allreduce(&size, &smallest, 1, MPI_INT, MPI_MIN, meeting->comm) == MPI_SUCCESS &&
           smallest == meeting->size;
}

static void explain(const struct meeting *meeting, bool on, const char *why)
{
    if (meeting->rank != 0)
        return;
    if (!on && (!atomic_exchange(&explained, true) || shim_settings.verbose))
        fprintf(stderr, "netfold: the collectives of a communicator of %d ranks are left to MPI: %s\n", meeting->size,
                why);
    if (on && shim_settings.verbose)
        fprintf(stderr, "netfold: the collectives of a communicator of %d ranks use %s\n", meeting->size, why);
}

/* Ends when no rank connects any more; the same outcome on all of them. */
static bool agree(struct meeting *meeting, bool good, char why[SHIM_LINE])
{
    /* The reason comes from a rank that failed by itself, not because others had. */
    bool first = !good && !meeting->over;
    do
        call_roll(meeting, false, first);
    while (meeting->connecting);
    good = good && meeting->failed == meeting->size;
    int all_good = 0, mine = good;
    if (meeting->broken || PMPI_Allreduce(&mine, &all_good, 1, MPI_INT, MPI_MIN, meeting->comm) != MPI_SUCCESS)
        return false;
    if (!all_good && meeting->failed < meeting->size)
        PMPI_Bcast(why, SHIM_LINE, MPI_CHAR, meeting->failed, meeting->comm);
    return all_good;
}

static void hold(struct shim_group *group, netfold_comm *netfold)
{
    pthread_mutex_lock(&lock);
    group->netfold = netfold;
    group->next = groups;
    groups = group;
    pthread_mutex_unlock(&lock);
    group->standing = SHIM_ON;
}

void shim_connect(struct shim_group *group, MPI_Comm comm)
{
    struct meeting meeting = {.comm = MPI_COMM_NULL, .size = group->size};
    char name[64], why[SHIM_LINE] = "MPI failed while Netfold connected";
    netfold_comm *netfold = NULL;
    shim_unwant(group);
    group->standing = SHIM_OFF;
    PMPI_Comm_rank(comm, &meeting.rank);
    /* A split, because a duplicate would call back the program for its attributes. */
    if (PMPI_Comm_split(comm, 0, meeting.rank, &meeting.comm) != MPI_SUCCESS)
        return;
    PMPI_Comm_set_errhandler(meeting.comm, MPI_ERRORS_RETURN);
    bool room = enter(&meeting, name);
    bool on = false;
    if (!reachable(&meeting)) {
        snprintf(why, sizeof why, "NETFOLD_CONTROLLER is not set, and the ranks are on several hosts");
    } else {
        if (room)
            netfold = build(&meeting, name, why);
        else
            snprintf(why, sizeof why, "%d communicators are connected already", GROUPS_MAX);
        on = agree(&meeting, netfold != NULL, why);
    }
    if (on) {
        hold(group, netfold);
    } else {
        netfold_comm_free(netfold);
        pthread_mutex_lock(&lock);
        groups_count -= room;
        pthread_mutex_unlock(&lock);
    }
    explain(&meeting, on, why);
    PMPI_Comm_free(&meeting.comm);
}

void shim_want(struct shim_group *group)
{
    if (!group->wanted)
        atomic_fetch_add(&wanted_count, 1);
    group->wanted = true;
}

void shim_unwant(struct shim_group *group)
{
    if (group->wanted)
        atomic_fetch_sub(&wanted_count, 1);
    group->wanted = false;
}

void shim_connect_wanted(MPI_Comm comm)
{
    if (!shim_settings.on || atomic_load(&wanted_count) == 0)
        return;
    struct shim_group *group = shim_group(comm);
    if (group != NULL && group->wanted)
        shim_connect(group, comm);
}
