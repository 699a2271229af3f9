/* Initialisation and finalisation, settings, errors and counters. */
#include "shim.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shim_settings shim_settings;

/* A communicator without messages: probing it makes MPI progress. */
static MPI_Comm self = MPI_COMM_NULL;
static int error_code = MPI_ERR_OTHER;
static atomic_ullong calls_taken, bytes_taken, calls_left;

static bool number(const char *name, uint64_t fallback, uint64_t *value)
{
    const char *text = getenv(name);
    *value = fallback;
    if (text == NULL || *text == '\0')
        return true;
    char *end;
    *value = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && *value < UINT64_MAX / 1000)
        return true;
    fprintf(stderr, "netfold: %s=%s is not a number; all calls are left to MPI\n", name, text);
    return false;
}

static bool mode(int32_t *value)
{
    const char *text = getenv("NETFOLD_MODE");
    *value = NETFOLD_MODE_BFP32;
    if (text == NULL || *text == '\0')
        return true;
    if (netfold_mode_from_name(text, value) == NETFOLD_RESULT_OK)
        return true;
    fprintf(stderr, "netfold: NETFOLD_MODE=%s is not a mode; all calls are left to MPI\n", text);
    return false;
}

/* Whether no confidential job is asked for: there is none, since MPI sends in clear what is left to it. */
static bool in_clear(void)
{
    const char *text = getenv("NETFOLD_CONFIDENTIAL");
    if (text == NULL || *text == '\0')
        return true;
    fprintf(stderr, "netfold: NETFOLD_CONFIDENTIAL is set, and there are no confidential jobs here, since MPI sends in clear; "
                    "all calls are left to MPI\n");
    return false;
}

static void read_settings(struct shim_settings *settings)
{
    uint64_t on, verbose, shared_memory, authenticated, join_s, stall_s, poll_us;
    const char *controller = getenv("NETFOLD_CONTROLLER");
    settings->on = number("NETFOLD_MPI", 1, &on) && number("NETFOLD_VERBOSE", 0, &verbose) &&
                   number("NETFOLD_MPI_MIN_BYTES", 4096, &settings->min_bytes) &&
                   number("NETFOLD_SHARED_MEMORY", 1, &shared_memory) &&
                   number("NETFOLD_AUTHENTICATED", 0, &authenticated) && number("NETFOLD_SLOTS", 0, &settings->slots) &&
                   number("NETFOLD_JOIN_TIMEOUT", 60, &join_s) &&
                   number("NETFOLD_STALL_TIMEOUT", 24 * 3600, &stall_s) && number("NETFOLD_BUSY_POLL", 0, &poll_us) && mode(&settings->mode) && on != 0 && in_clear();
    if (!settings->on)
        return;
    settings->verbose = (int32_t)(verbose > 2 ? 2 : verbose);
    settings->shared_memory = shared_memory != 0;
    settings->authenticated = authenticated != 0;
    settings->join_ms = join_s * 1000;
    settings->stall_ms = stall_s * 1000;
    settings->poll_us = poll_us;
    if (controller != NULL && strlen(controller) >= sizeof settings->controller) {
        fprintf(stderr, "netfold: NETFOLD_CONTROLLER is too long; all calls are left to MPI\n");
        settings->on = false;
    } else if (controller != NULL) {
        strcpy(settings->controller, controller);
    }
    char host[32] = "";
    gethostname(host, sizeof host - 1);
    snprintf(settings->job, sizeof settings->job, "mpi %s %ld", host, (long)getpid());
}

static void print_log(void *context, int32_t level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "netfold: %s\n", line);
}

/* After MPI's initialisation: all ranks take the settings of rank 0. */
static void start(void)
{
    struct shim_settings settings;
    int rank;
    memset(&settings, 0, sizeof settings);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        read_settings(&settings);
    if (PMPI_Bcast(&settings, sizeof settings, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS || !settings.on)
        return;
    if (PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &self) != MPI_SUCCESS || !shim_communicators_start())
        return;
    if (PMPI_Add_error_code(MPI_ERR_OTHER, &error_code) != MPI_SUCCESS)
        error_code = MPI_ERR_OTHER;
    shim_requests_start();
    netfold_set_log(print_log, NULL, settings.verbose > 1 ? NETFOLD_LOG_LEVEL_INFO : NETFOLD_LOG_LEVEL_WARNING);
    shim_settings = settings;
}

int MPI_Init(int *argc, char ***argv)
{
    int error = PMPI_Init(argc, argv);
    if (error == MPI_SUCCESS)
        start();
    return error;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int error = PMPI_Init_thread(argc, argv, required, provided);
    if (error == MPI_SUCCESS)
        start();
    return error;
}

int MPI_Finalize(void)
{
    if (shim_settings.on) {
        int rank;
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        shim_requests_end();
        shim_communicators_end();
        if (shim_settings.verbose > 1 || (shim_settings.verbose == 1 && rank == 0))
            fprintf(stderr, "netfold: rank %d: %llu collectives of %llu bytes taken, %llu left to MPI\n", rank,
                    atomic_load(&calls_taken), atomic_load(&bytes_taken), atomic_load(&calls_left));
        shim_settings.on = false;
        PMPI_Comm_free(&self);
    }
    return PMPI_Finalize();
}

void shim_progress(void)
{
    int flag;
    PMPI_Iprobe(0, 0, self, &flag, MPI_STATUS_IGNORE);
}

void shim_count(bool taken, size_t bytes)
{
    if (taken) {
        atomic_fetch_add_explicit(&calls_taken, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&bytes_taken, bytes, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&calls_left, 1, memory_order_relaxed);
    }
}

int shim_error_code(void)
{
    char line[MPI_MAX_ERROR_STRING];
    snprintf(line, sizeof line, "Netfold: %s", netfold_last_error());
    if (error_code != MPI_ERR_OTHER)
        PMPI_Add_error_string(error_code, line);
    return error_code;
}

int shim_fail(MPI_Comm comm)
{
    int code = shim_error_code();
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}
