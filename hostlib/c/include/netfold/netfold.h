/* Netfold: collective operations of distributed training, summed inside the network.
 *
 * Every function returns a netfold_result; NETFOLD_RESULT_OK is 0. Outputs go through pointers and are written on success only.
 * NULL where memory is needed is an error, never a crash; so is a panic of the library. netfold_last_error() gives the
 * message of this thread's last failed call: what went wrong and what to do.
 *
 * Generated from hostlib/c/src; do not edit. */

#ifndef NETFOLD_H
#define NETFOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Version of this interface: raised when a program compiled against an older header would break.
 */
#define NETFOLD_ABI_VERSION 1

/**
 * How a call ended. Codes never change their meaning; new ones may come.
 */
typedef enum {
  /**
   * All went well.
   */
  NETFOLD_RESULT_OK = 0,
  /**
   * A pointer that is needed is null.
   */
  NETFOLD_RESULT_NULL_POINTER = 1,
  /**
   * An argument is out of range, or text is not UTF-8.
   */
  NETFOLD_RESULT_ARGUMENT = 2,
  /**
   * The library panicked: a bug. The object must not be used any more, only freed.
   */
  NETFOLD_RESULT_PANIC = 3,
  /**
   * The switch's address cannot be resolved.
   */
  NETFOLD_RESULT_ADDRESS = 4,
  /**
   * The switch or a rank cannot be reached.
   */
  NETFOLD_RESULT_CONNECT = 5,
  /**
   * The switch does not take this worker.
   */
  NETFOLD_RESULT_REFUSED = 6,
  /**
   * Not all ranks came in time.
   */
  NETFOLD_RESULT_JOIN_TIMEOUT = 7,
  /**
   * A peer speaks another version, or none.
   */
  NETFOLD_RESULT_PROTOCOL = 8,
  /**
   * A socket or the machine failed.
   */
  NETFOLD_RESULT_IO = 9,
  /**
   * The collective is not possible on this element type or path.
   */
  NETFOLD_RESULT_UNSUPPORTED = 10,
  /**
   * A length is out of range or does not fit.
   */
  NETFOLD_RESULT_LENGTH = 11,
  /**
   * A rank called something else at the same place.
   */
  NETFOLD_RESULT_MISMATCH = 12,
  /**
   * A rank is gone.
   */
  NETFOLD_RESULT_PEER_LOST = 13,
  /**
   * The switch is gone, and ranks could not go on without it.
   */
  NETFOLD_RESULT_SWITCH_LOST = 14,
  /**
   * No progress for too long, or the job was ended from outside.
   */
  NETFOLD_RESULT_ABORTED = 15,
  /**
   * The communicator was closed or aborted on this rank.
   */
  NETFOLD_RESULT_CLOSED = 16,
  /**
   * A forked child uses its parent's communicator.
   */
  NETFOLD_RESULT_FORKED = 17,
  /**
   * Not done yet: try again later.
   */
  NETFOLD_RESULT_AGAIN = 18,
  /**
   * The outcome was taken before.
   */
  NETFOLD_RESULT_TAKEN = 19,
  /**
   * Anything else.
   */
  NETFOLD_RESULT_FAILED = 20,
} netfold_result;

/**
 * What a trainer should do about a result.
 */
typedef enum {
  /**
   * Nothing is wrong.
   */
  NETFOLD_ADVICE_NONE = 0,
  /**
   * Build a new communicator with the same ranks.
   */
  NETFOLD_ADVICE_RETRY = 1,
  /**
   * Build a new communicator without the rank that is gone.
   */
  NETFOLD_ADVICE_SHRINK = 2,
  /**
   * Stop: program, arguments or surroundings must change first.
   */
  NETFOLD_ADVICE_STOP = 3,
} netfold_advice;

/**
 * What a communicator is made from. Used by one thread at a time.
 */
typedef struct netfold_builder netfold_builder;

/**
 * One rank's place in a job. May be used by many threads, but freed by one.
 */
typedef struct netfold_comm netfold_comm;

/**
 * An operation in flight; freed by netfold_work_free, which does not stop it.
 */
typedef struct netfold_work netfold_work;

/**
 * Takes a log line: what was given to netfold_set_log, the level, and the text, valid during the call. Called from any thread.
 */
typedef void (*netfold_log_fn)(void *context, int32_t level, const char *line);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The library's version, for example "0.1.0": static, never null.
 */
const char *netfold_version(void);

/**
 * The interface version of the library that is loaded; compare it with NETFOLD_ABI_VERSION of the header.
 */
uint32_t netfold_abi_version(void);

/**
 * Makes a builder with nothing set.
 *
 * Memory:  * `out` is null or valid for a write.
 */
netfold_result netfold_builder_new(netfold_builder **out);

/**
 * Frees a builder that was not connected, or does nothing for NULL.
 *
 * Memory:  * `builder` is null, or a builder that was neither connected nor freed.
 */
void netfold_builder_free(netfold_builder *builder);

/**
 * Name of the job, 1 to 64 bytes of UTF-8, the same on all ranks.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
 */
netfold_result netfold_builder_set_job(netfold_builder *builder, const char *name);

/**
 * This worker's rank, from 0, each once.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_rank(netfold_builder *builder, uint16_t rank);

/**
 * Number of workers, the same on all ranks.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_world_size(netfold_builder *builder, uint16_t workers);

/**
 * How floating-point tensors travel (a netfold_mode), the same on all ranks. The default is NETFOLD_MODE_BFP32.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_mode(netfold_builder *builder,
                                        int32_t mode);

/**
 * Slots of the switch to ask for, a power of two: the chunks in flight. The default is 256.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_slots(netfold_builder *builder, uint32_t slots);

/**
 * Address of the switch's control port, "HOST:PORT". Names are resolved now.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
 */
netfold_result netfold_builder_set_switch(netfold_builder *builder, const char *address);

/**
 * How long to wait for the other ranks to join, in milliseconds. The default is 60,000.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_join_timeout(netfold_builder *builder, uint64_t timeout_ms);

/**
 * How long an operation may make no progress before the job is given up, in milliseconds. The default is 60,000.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_stall_timeout(netfold_builder *builder,
                                                 uint64_t timeout_ms);

/**
 * Joins the job, waits for all ranks, and writes the communicator to `*out`. Frees the builder in any case.
 *
 * Memory:  * `builder` is null, or a builder that was neither connected nor freed; `out` is null or valid for a write.
 */
netfold_result netfold_builder_connect(netfold_builder *builder, netfold_comm **out);

/**
 * Starts any collective and writes its handle to `*out`. `op` matters for collectives that reduce, `root` for those that have
 * one. `send` and `recv` may be the same where input and output are equally long; an all-gather is in place when send is
 * recv + rank * count elements, a reduce-scatter when recv is send + rank * count.
 *
 * Memory:  * `comm` is null or a communicator that was not freed. `send` and `recv` are null, or valid for what the collective reads and
 * writes until the operation is over; until then nobody writes either or reads recv. `out` is null or valid for a write.
 */
netfold_result netfold_comm_start(const netfold_comm *comm,
                                  int32_t collective,
                                  const void *send,
                                  void *recv,
                                  size_t count,
                                  int32_t dtype,
                                  int32_t op,
                                  uint16_t root,
                                  netfold_work **out);

/**
 * The same as netfold_comm_start, and waits for the end.
 *
 * Memory:  * As for netfold_comm_start.
 */
netfold_result netfold_comm_run(const netfold_comm *comm,
                                int32_t collective,
                                const void *send,
                                void *recv,
                                size_t count,
                                int32_t dtype,
                                int32_t op,
                                uint16_t root);

/**
 * Replaces `count` elements at `tensor` by the reduction over all ranks, and waits for the end.
 *
 * Memory:  * As for netfold_comm_start, with `tensor` as both send and recv.
 */
netfold_result netfold_comm_all_reduce(const netfold_comm *comm,
                                       void *tensor,
                                       size_t count,
                                       int32_t dtype,
                                       int32_t op);

/**
 * Returns when every rank has called it.
 *
 * Memory:  * `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_barrier(const netfold_comm *comm);

/**
 * This worker's rank.
 *
 * Memory:  * `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_rank(const netfold_comm *comm, uint16_t *out);

/**
 * Number of workers.
 *
 * Memory:  * `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_world_size(const netfold_comm *comm, uint16_t *out);

/**
 * Which way data go, and why, in words. Writes as much as fits in `len` bytes, always ended by a zero, and the length
 * of all of it without the zero to `*needed`, unless that is NULL.
 *
 * Memory:  * `comm` is null or a communicator that was not freed; `text` is null or valid for writes of `len` bytes; `needed` is null
 * or valid for a write.
 */
netfold_result netfold_comm_path(const netfold_comm *comm,
                                 char *text,
                                 size_t len,
                                 size_t *needed);

/**
 * Ends the job on this rank, from any thread: pending and later calls fail promptly here, and the other ranks learn that this
 * one is gone.
 *
 * Memory:  * `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_abort(const netfold_comm *comm);

/**
 * NETFOLD_RESULT_OK while the job goes on, else the error that ended it.
 *
 * Memory:  * `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_failure(const netfold_comm *comm);

/**
 * Finishes all pending operations, leaves the job and frees the communicator, whatever is returned.
 *
 * Memory:  * `comm` is null, or a communicator that was not freed and that no other thread uses.
 */
netfold_result netfold_comm_leave(netfold_comm *comm);

/**
 * Leaves the job at once and frees the communicator, or does nothing for NULL. Pending operations are given up, and the other
 * ranks are told; none of this rank's memory is touched afterwards.
 *
 * Memory:  * `comm` is null, or a communicator that was not freed and that no other thread uses.
 */
void netfold_comm_free(netfold_comm *comm);

/**
 * Has every log line up to `level` (a netfold_log_level) passed to `call`, or none any more when `call` is NULL. Applies to the
 * whole process. Without it nothing is logged.
 *
 * Memory:  * `call` may be called from any thread with `context` until it is replaced; it must not call the library.
 */
netfold_result netfold_set_log(netfold_log_fn call,
                               void *context,
                               int32_t level);

/**
 * The message of this thread's last failed call: what went wrong and what to do. Empty when none has failed. Valid until
 * this thread's next failed call; never NULL.
 */
const char *netfold_last_error(void);

/**
 * The rank that caused this thread's last failed call, or -1 when none is known.
 */
int32_t netfold_last_error_peer(void);

/**
 * What to do about this thread's last failed call.
 */
netfold_advice netfold_last_error_advice(void);

/**
 * A short, stable name of a result code, for example "peer_lost"; "unknown" for numbers that are none. Never NULL.
 */
const char *netfold_result_name(int32_t result);

/**
 * Waits until the operation is over, at most `timeout_ms` milliseconds (negative: without bound), and returns how it ended;
 * NETFOLD_RESULT_AGAIN when it is still under way. Any thread, any number of times.
 *
 * Memory:  * `work` is null or an operation that was not freed.
 */
netfold_result netfold_work_wait(const netfold_work *work,
                                 int64_t timeout_ms);

/**
 * Writes whether the operation is over to `*done`, without waiting, and returns NETFOLD_RESULT_OK or how it failed.
 *
 * Memory:  * `work` is null or an operation that was not freed; `done` is null or valid for a write.
 */
netfold_result netfold_work_test(const netfold_work *work,
                                 bool *done);

/**
 * Frees the handle, or does nothing for NULL. The operation goes on, and so must its memory until it is over.
 *
 * Memory:  * `work` is null, or an operation that was not freed and that no other thread uses.
 */
void netfold_work_free(netfold_work *work);

/**
 * The message of this thread's last failed call: what went wrong and what to do. Empty when none has failed. Valid until
 * this thread's next failed call; never NULL.
 */
const char *netfold_last_error(void);

/**
 * The rank that caused this thread's last failed call, or -1 when none is known.
 */
int32_t netfold_last_error_peer(void);

/**
 * What to do about this thread's last failed call.
 */
netfold_advice netfold_last_error_advice(void);

/**
 * A short, stable name of a result code, for example "peer_lost"; "unknown" for numbers that are none. Never NULL.
 */
const char *netfold_result_name(int32_t result);

/**
 * Has every log line up to `level` (a netfold_log_level) passed to `call`, or none any more when `call` is NULL. Applies to the
 * whole process. Without it nothing is logged.
 *
 * Memory:  * `call` may be called from any thread with `context` until it is replaced; it must not call the library.
 */
netfold_result netfold_set_log(netfold_log_fn call,
                               void *context,
                               int32_t level);

/**
 * Makes a builder with nothing set.
 *
 * Memory:  * `out` is null or valid for a write.
 */
netfold_result netfold_builder_new(netfold_builder **out);

/**
 * Frees a builder that was not connected, or does nothing for NULL.
 *
 * Memory:  * `builder` is null, or a builder that was neither connected nor freed.
 */
void netfold_builder_free(netfold_builder *builder);

/**
 * Name of the job, 1 to 64 bytes of UTF-8, the same on all ranks.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
 */
netfold_result netfold_builder_set_job(netfold_builder *builder, const char *name);

/**
 * This worker's rank, from 0, each once.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_rank(netfold_builder *builder, uint16_t rank);

/**
 * Number of workers, the same on all ranks.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_world_size(netfold_builder *builder, uint16_t workers);

/**
 * How floating-point tensors travel (a netfold_mode), the same on all ranks. The default is NETFOLD_MODE_BFP32.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_mode(netfold_builder *builder,
                                        int32_t mode);

/**
 * Slots of the switch to ask for, a power of two: the chunks in flight. The default is 256.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_slots(netfold_builder *builder, uint32_t slots);

/**
 * Address of the switch's control port, "HOST:PORT". Names are resolved now.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
 */
netfold_result netfold_builder_set_switch(netfold_builder *builder, const char *address);

/**
 * How long to wait for the other ranks to join, in milliseconds. The default is 60,000.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_join_timeout(netfold_builder *builder, uint64_t timeout_ms);

/**
 * How long an operation may make no progress before the job is given up, in milliseconds. The default is 60,000.
 *
 * Memory:  * `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_stall_timeout(netfold_builder *builder,
                                                 uint64_t timeout_ms);

/**
 * Joins the job, waits for all ranks, and writes the communicator to `*out`. Frees the builder in any case.
 *
 * Memory:  * `builder` is null, or a builder that was neither connected nor freed; `out` is null or valid for a write.
 */
netfold_result netfold_builder_connect(netfold_builder *builder, netfold_comm **out);

/**
 * Starts any collective and writes its handle to `*out`. `op` matters for collectives that reduce, `root` for those that have
 * one. `send` and `recv` may be the same where input and output are equally long; an all-gather is in place when send is
 * recv + rank * count elements, a reduce-scatter when recv is send + rank * count.
 *
 * Memory:  * `comm` is null or a communicator that was not freed. `send` and `recv` are null, or valid for what the collective reads and
 * writes until the operation is over; until then nobody writes either or reads recv. `out` is null or valid for a write.
 */
netfold_result netfold_comm_start(const netfold_comm *comm,
                                  int32_t collective,
                                  const void *send,
                                  void *recv,
                                  size_t count,
                                  int32_t dtype,
                                  int32_t op,
                                  uint16_t root,
                                  netfold_work **out);

/**
 * The same as netfold_comm_start, and waits for the end.
 *
 * Memory:  * As for netfold_comm_start.
 */
netfold_result netfold_comm_run(const netfold_comm *comm,
                                int32_t collective,
                                const void *send,
                                void *recv,
                                size_t count,
                                int32_t dtype,
                                int32_t op,
                                uint16_t root);

/**
 * Replaces `count` elements at `tensor` by the reduction over all ranks, and waits for the end.
 *
 * Memory:  * As for netfold_comm_start, with `tensor` as both send and recv.
 */
netfold_result netfold_comm_all_reduce(const netfold_comm *comm,
                                       void *tensor,
                                       size_t count,
                                       int32_t dtype,
                                       int32_t op);

/**
 * Returns when every rank has called it.
 *
 * Memory:  * `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_barrier(const netfold_comm *comm);

/**
 * This worker's rank.
 *
 * Memory:  * `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_rank(const netfold_comm *comm, uint16_t *out);

/**
 * Number of workers.
 *
 * Memory:  * `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_world_size(const netfold_comm *comm, uint16_t *out);

/**
 * Which way data go, and why, in words. Writes as much as fits in `len` bytes, always ended by a zero, and the length
 * of all of it without the zero to `*needed`, unless that is NULL.
 *
 * Memory:  * `comm` is null or a communicator that was not freed; `text` is null or valid for writes of `len` bytes; `needed` is null
 * or valid for a write.
 */
netfold_result netfold_comm_path(const netfold_comm *comm,
                                 char *text,
                                 size_t len,
                                 size_t *needed);

/**
 * Ends the job on this rank, from any thread: pending and later calls fail promptly here, and the other ranks learn that this
 * one is gone.
 *
 * Memory:  * `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_abort(const netfold_comm *comm);

/**
 * NETFOLD_RESULT_OK while the job goes on, else the error that ended it.
 *
 * Memory:  * `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_failure(const netfold_comm *comm);

/**
 * Finishes all pending operations, leaves the job and frees the communicator, whatever is returned.
 *
 * Memory:  * `comm` is null, or a communicator that was not freed and that no other thread uses.
 */
netfold_result netfold_comm_leave(netfold_comm *comm);

/**
 * Leaves the job at once and frees the communicator, or does nothing for NULL. Pending operations are given up, and the other
 * ranks are told; none of this rank's memory is touched afterwards.
 *
 * Memory:  * `comm` is null, or a communicator that was not freed and that no other thread uses.
 */
void netfold_comm_free(netfold_comm *comm);

/**
 * Waits until the operation is over, at most `timeout_ms` milliseconds (negative: without bound), and returns how it ended;
 * NETFOLD_RESULT_AGAIN when it is still under way. Any thread, any number of times.
 *
 * Memory:  * `work` is null or an operation that was not freed.
 */
netfold_result netfold_work_wait(const netfold_work *work,
                                 int64_t timeout_ms);

/**
 * Writes whether the operation is over to `*done`, without waiting, and returns NETFOLD_RESULT_OK or how it failed.
 *
 * Memory:  * `work` is null or an operation that was not freed; `done` is null or valid for a write.
 */
netfold_result netfold_work_test(const netfold_work *work,
                                 bool *done);

/**
 * Frees the handle, or does nothing for NULL. The operation goes on, and so must its memory until it is over.
 *
 * Memory:  * `work` is null, or an operation that was not freed and that no other thread uses.
 */
void netfold_work_free(netfold_work *work);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NETFOLD_H */
