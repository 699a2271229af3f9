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
   * Success.
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
   * The switch refused this worker.
   */
  NETFOLD_RESULT_REFUSED = 6,
  /**
   * Not all ranks joined in time.
   */
  NETFOLD_RESULT_JOIN_TIMEOUT = 7,
  /**
   * A peer uses another version of the protocol, or another protocol.
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
   * A rank made a different call at the same position.
   */
  NETFOLD_RESULT_MISMATCH = 12,
  /**
   * A rank was lost.
   */
  NETFOLD_RESULT_PEER_LOST = 13,
  /**
   * The switch was lost, and ranks could not continue without it.
   */
  NETFOLD_RESULT_SWITCH_LOST = 14,
  /**
   * No progress until the timeout, or the job was aborted from outside.
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
  /**
   * Memory of a CUDA device cannot be used, or the device failed.
   */
  NETFOLD_RESULT_CUDA = 21,
  /**
   * Not all ranks asked for another generation in time, or not all processes that were to join came.
   */
  NETFOLD_RESULT_NOT_RESIZED = 22,
  /**
   * This rank was taken as lost, and its job continues without it.
   */
  NETFOLD_RESULT_EXCLUDED = 23,
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
   * Build a new communicator without the lost rank.
   */
  NETFOLD_ADVICE_SHRINK = 2,
  /**
   * Stop: the program, its arguments or its environment must change first.
   */
  NETFOLD_ADVICE_STOP = 3,
} netfold_advice;

/**
 * How floating-point tensors are encoded on the network.
 */
typedef enum {
  /**
   * Integers alone.
   */
  NETFOLD_MODE_I32 = 0,
  /**
   * Block floating point, 32 bits an element.
   */
  NETFOLD_MODE_BFP32 = 1,
  /**
   * Block floating point, 16 bits an element.
   */
  NETFOLD_MODE_BFP16 = 2,
  /**
   * Block floating point, 32 bits an element, at a switch whose sums saturate.
   */
  NETFOLD_MODE_SATURATING = 3,
  /**
   * Block floating point, 16 bits an element, at a switch with 32-bit sums.
   */
  NETFOLD_MODE_WIDE = 4,
  /**
   * binary16 without conversion, at a switch that supports it.
   */
  NETFOLD_MODE_HALF = 5,
  /**
   * binary32 without conversion, at a switch that supports it.
   */
  NETFOLD_MODE_FLOAT = 6,
} netfold_mode;

/**
 * How floating-point numbers are rounded to the encoding.
 */
typedef enum {
  /**
   * To the nearest.
   */
  NETFOLD_ROUNDING_NEAREST = 0,
  /**
   * Up or down at random, so that the expected value is exact.
   */
  NETFOLD_ROUNDING_STOCHASTIC = 1,
} netfold_rounding;

/**
 * Element types.
 */
typedef enum {
  /**
   * binary32.
   */
  NETFOLD_DTYPE_F32 = 1,
  /**
   * binary16.
   */
  NETFOLD_DTYPE_F16 = 2,
  /**
   * bfloat16.
   */
  NETFOLD_DTYPE_BF16 = 3,
  /**
   * 32-bit two's complement.
   */
  NETFOLD_DTYPE_I32 = 4,
  /**
   * binary64.
   */
  NETFOLD_DTYPE_F64 = 5,
  /**
   * 8-bit two's complement.
   */
  NETFOLD_DTYPE_I8 = 6,
  /**
   * 16-bit two's complement.
   */
  NETFOLD_DTYPE_I16 = 7,
  /**
   * 64-bit two's complement.
   */
  NETFOLD_DTYPE_I64 = 8,
  /**
   * 8 bits, unsigned.
   */
  NETFOLD_DTYPE_U8 = 9,
  /**
   * 16 bits, unsigned.
   */
  NETFOLD_DTYPE_U16 = 10,
  /**
   * 32 bits, unsigned.
   */
  NETFOLD_DTYPE_U32 = 11,
  /**
   * 64 bits, unsigned.
   */
  NETFOLD_DTYPE_U64 = 12,
} netfold_dtype;

/**
 * How elements are combined.
 */
typedef enum {
  /**
   * Sum.
   */
  NETFOLD_OP_SUM = 0,
  /**
   * Sum divided by the number of ranks.
   */
  NETFOLD_OP_AVG = 1,
  /**
   * Product.
   */
  NETFOLD_OP_PRODUCT = 2,
  /**
   * Smallest.
   */
  NETFOLD_OP_MIN = 3,
  /**
   * Largest.
   */
  NETFOLD_OP_MAX = 4,
  /**
   * Bitwise and, of integers.
   */
  NETFOLD_OP_BIT_AND = 5,
  /**
   * Bitwise or, of integers.
   */
  NETFOLD_OP_BIT_OR = 6,
  /**
   * Bitwise exclusive or, of integers.
   */
  NETFOLD_OP_BIT_XOR = 7,
} netfold_op;

/**
 * Collectives. `count` is, in elements: of the tensor (all-reduce, reduce, broadcast), what each rank sends (all-gather), what
 * each rank receives (reduce-scatter), for each peer (all-to-all).
 */
typedef enum {
  /**
   * Every rank ends with the reduction of all ranks' tensors.
   */
  NETFOLD_COLLECTIVE_ALL_REDUCE = 1,
  /**
   * The root ends with the reduction of all ranks' tensors.
   */
  NETFOLD_COLLECTIVE_REDUCE = 2,
  /**
   * Every rank ends with the root's tensor.
   */
  NETFOLD_COLLECTIVE_BROADCAST = 3,
  /**
   * Every rank ends with all ranks' tensors, in order of rank.
   */
  NETFOLD_COLLECTIVE_ALL_GATHER = 4,
  /**
   * Rank r ends with part r of the reduction of all ranks' tensors.
   */
  NETFOLD_COLLECTIVE_REDUCE_SCATTER = 5,
  /**
   * Rank r ends with part r of every rank's tensor.
   */
  NETFOLD_COLLECTIVE_ALL_TO_ALL = 6,
  /**
   * No rank returns before all have called.
   */
  NETFOLD_COLLECTIVE_BARRIER = 7,
} netfold_collective;

/**
 * What connects the ranks of a communicator.
 */
typedef enum {
  /**
   * There is no other rank.
   */
  NETFOLD_NETWORK_ALONE = 0,
  /**
   * All ranks are on one host and share memory.
   */
  NETFOLD_NETWORK_SHARED_MEMORY = 1,
  /**
   * A switch reduces; ranks of one host reduce in shared memory before.
   */
  NETFOLD_NETWORK_SWITCH = 2,
  /**
   * The hosts reduce, in a ring over TCP.
   */
  NETFOLD_NETWORK_RING = 3,
} netfold_network;

/**
 * The severity of a log line.
 */
typedef enum {
  /**
   * Something failed.
   */
  NETFOLD_LOG_LEVEL_ERROR = 1,
  /**
   * Something did not work as configured, and the library uses an alternative.
   */
  NETFOLD_LOG_LEVEL_WARNING = 2,
  /**
   * The path of a communicator.
   */
  NETFOLD_LOG_LEVEL_INFO = 3,
  /**
   * For debugging.
   */
  NETFOLD_LOG_LEVEL_DEBUG = 4,
} netfold_log_level;

/**
 * The settings of a communicator. Used by one thread at a time.
 */
typedef struct netfold_builder netfold_builder;

/**
 * One rank's membership of a job. May be used by many threads, but freed by one.
 */
typedef struct netfold_comm netfold_comm;

/**
 * An operation in flight; freed by netfold_work_free, which does not stop it.
 */
typedef struct netfold_work netfold_work;

/**
 * Gathers `len` bytes of every rank, in order of rank, into `all`, which has room for `len` times the world size: an MPI_Allgather
 * of bytes. Returns 0 on success. Called on the thread that connects.
 */
typedef int32_t (*netfold_all_gather_fn)(void *context, const uint8_t *mine, uint8_t *all, size_t len);

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
 * Memory: `out` is null or valid for a write.
 */
netfold_result netfold_builder_new(netfold_builder **out);

/**
 * Frees a builder that was not connected, or does nothing for NULL.
 *
 * Memory: `builder` is null, or a builder that was neither connected nor freed.
 */
void netfold_builder_free(netfold_builder *builder);

/**
 * Name of the job, 1 to 64 bytes of UTF-8, the same on all ranks.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
 */
netfold_result netfold_builder_set_job(netfold_builder *builder, const char *name);

/**
 * Makes this a group of the job: some of its workers, with ranks and a world size of their own. The name has 1 to 64 bytes of UTF-8 without a
 * slash, the same on all ranks of the group, and is unique in the job. A controller lists a group under its job and ends it with its job.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
 */
netfold_result netfold_builder_set_group(netfold_builder *builder,
                                         const char *name);

/**
 * This worker's rank, from 0, each once.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_rank(netfold_builder *builder, uint16_t rank);

/**
 * Number of workers, the same on all ranks.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_world_size(netfold_builder *builder, uint16_t workers);

/**
 * Writes the netfold_mode of a name, such as "bfp16", to `*out`.
 *
 * Memory: `name` is null or a C string. `out` is null or valid for a write.
 */
netfold_result netfold_mode_from_name(const char *name, int32_t *out);

/**
 * How floating-point tensors are encoded (a netfold_mode), the same on all ranks. The default is NETFOLD_MODE_BFP32.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_mode(netfold_builder *builder,
                                        int32_t mode);

/**
 * How floating-point numbers are rounded (a netfold_rounding) in modes of block floating point. The default is
 * NETFOLD_ROUNDING_NEAREST. `seed` matters to NETFOLD_ROUNDING_STOCHASTIC alone: the same seed gives the same results; ranks
 * may have the same one, or differ.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_rounding(netfold_builder *builder,
                                            int32_t rounding,
                                            uint64_t seed);

/**
 * The fraction of each rank's contributions, from 0 to 1, that sums and averages of floating-point numbers may lack, the same on
 * all ranks: queues in the network may then trim packets instead of dropping them. With `rescale` a sum that lacks contributions is
 * multiplied by the number of ranks over the number of contributors; else what is missing counts as zero. With `without_stragglers`
 * ranks also complete sums without stragglers' contributions. Every rank receives the same bits. netfold_work_left_out returns how
 * much was missing. The default is 0: every contribution is in every sum.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_tolerance(netfold_builder *builder,
                                             double tolerance,
                                             bool rescale,
                                             bool without_stragglers);

/**
 * Makes the job confidential: switches, and observers of the network, see masked lanes only. `file` holds the group key as 64
 * hexadecimal digits (`netfold group-key` creates one), the same on all ranks, and must not be accessible to other users. It is read now.
 * Needs a rendezvous or an exchange, the mode i32, bfp32 or bfp16, and no tolerance. Ranks with another key are
 * NETFOLD_RESULT_MISMATCH at netfold_builder_connect, with the first of them as netfold_last_error_peer.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `file` is null or a C string.
 */
netfold_result netfold_builder_set_confidential(netfold_builder *builder,
                                                const char *file);

/**
 * Has packets between workers and switches authenticated, or not, the default. The same on all ranks. Needs a control session over TLS
 * or on this machine; switches that do not authenticate packets refuse at netfold_builder_connect.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_authenticated(netfold_builder *builder,
                                                 bool authenticated);

/**
 * Has CUDA devices quantise the sums and averages of floats in their memory (netfold_comm_start_cuda), or not, the default: in mode bfp16 half as many
 * bytes cross the bus. The same on all ranks. Needs NETFOLD_MODE_BFP16 or NETFOLD_MODE_BFP32, no tolerance, and at netfold_builder_connect
 * devices of compute capability 7.0 or later.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_device_quantization(netfold_builder *builder,
                                                       bool on);

/**
 * Number of the switch's slots to request, a power of two: the chunks in flight. The default is 256.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_slots(netfold_builder *builder, uint32_t slots);

/**
 * Classes of operations, a power of two, 1 to 16, the same on all ranks: through a switch, what is started in a higher class (see
 * netfold_comm_start_in_class) overtakes what was started before in a lower one. The default is 1.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_classes(netfold_builder *builder,
                                           uint8_t classes);

/**
 * Importance classes of chunks of floating-point numbers, 1 to 8: packets of larger numbers are of higher classes, so that queues that
 * distinguish classes send them first, and may trim those of smaller numbers first. Sums are the same. The default is 1.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_importance(netfold_builder *builder,
                                              uint8_t classes);

/**
 * Address of the switch's control port, "HOST:PORT". Names are resolved now.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
 */
netfold_result netfold_builder_set_switch(netfold_builder *builder, const char *address);

/**
 * Address of a controller's port for workers, "HOST:PORT", instead of a switch's control port; the controller places jobs on its switches. It may
 * restart while the job runs, and ranks that are linked (by an exchange or a rendezvous) and have lost their switch rejoin.
 * Names are resolved now.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
 */
netfold_result netfold_builder_set_controller(netfold_builder *builder,
                                              const char *address);

/**
 * Uses TLS to the controller: its certificate must be signed by an authority in this file (PEM) and be for the host in
 * the controller's address. The file is read for each connection. Sets nothing for a switch's own port, which has no TLS.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `file` is null or a C string.
 */
netfold_result netfold_builder_set_controller_ca(netfold_builder *builder,
                                                 const char *file);

/**
 * The job's tenant and its token, from the controller's administrator.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `name` and `token` are null or C strings.
 */
netfold_result netfold_builder_set_tenant(netfold_builder *builder, const char *name, const char *token);

/**
 * Number of trees of switches for the job, 1 to 8, the same on all ranks. The default is 1.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_trees(netfold_builder *builder, uint8_t trees);

/**
 * How long to wait for the other ranks to join, in milliseconds. The default is 60,000.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_join_timeout(netfold_builder *builder, uint64_t timeout_ms);

/**
 * How long an operation may make no progress before the job fails, in milliseconds. The default is 60,000.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_stall_timeout(netfold_builder *builder, uint64_t timeout_ms);

/**
 * How long a thread that waits for results polls for packets before it sleeps, in microseconds. The default is 0. Polling takes a whole core
 * while results are awaited: it is for hosts with a core to spare for each rank.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_busy_poll(netfold_builder *builder,
                                             uint64_t time_us);

/**
 * After how long without an operation the ranks give the slots of their switch back, in milliseconds, to request them again for the next
 * operation; 0 for never. The default is 10 s for groups, and never for jobs.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_idle_timeout(netfold_builder *builder,
                                                uint64_t timeout_ms);

/**
 * Address at which rank 0 listens and where the others find it, "HOST:PORT", the same on all ranks. With it (or an exchange)
 * ranks of one host reduce in shared memory, a switch is optional, hosts do everything that a switch cannot, and the job survives the loss
 * of a switch. Names are resolved now.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
 */
netfold_result netfold_builder_set_rendezvous(netfold_builder *builder,
                                              const char *address);

/**
 * Ranks find each other by `gather`, over a channel that they have already, instead of a rendezvous. Every
 * rank calls it equally often while it connects, and each time with the same `len`, unless one fails: `gather` must end in
 * bounded time then, too. `context` is passed on as it is.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `gather` is null, or behaves as netfold_all_gather_fn requires, with
 * `context`, until netfold_builder_connect or netfold_builder_free returns.
 */
netfold_result netfold_builder_set_exchange(netfold_builder *builder,
                                            netfold_all_gather_fn gather,
                                            void *context);

/**
 * This host's IP address, at which the other ranks can reach it: needed with an exchange, ranks on several hosts, and no switch.
 * The default is the address from which this host reaches the switch, or the loopback's.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
 */
netfold_result netfold_builder_set_local_ip(netfold_builder *builder,
                                            const char *address);

/**
 * Names this rank's host: ranks with the same name share memory. The default is the system's identity, or
 * the variable NETFOLD_HOST_ID.
 *
 * Memory: `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
 */
netfold_result netfold_builder_set_host(netfold_builder *builder, const char *name);

/**
 * Whether ranks of one host reduce in shared memory first, the same on all ranks. The default is true.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_shared_memory(netfold_builder *builder, bool on);

/**
 * Whether hosts do by themselves, in a ring over TCP, what a switch refuses or cannot complete, the same on all ranks. The
 * default is true; without, it is an error.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_fall_back(netfold_builder *builder,
                                             bool on);

/**
 * Joins the job, waits for all ranks, and writes the communicator to `*out`. Frees the builder in any case.
 *
 * Memory: `builder` is null, or a builder that was neither connected nor freed; `out` is null or valid for a write.
 */
netfold_result netfold_builder_connect(netfold_builder *builder, netfold_comm **out);

/**
 * Starts any collective and writes its handle to `*out`. `op` matters for collectives that reduce, `root` for those that have
 * one. `send` and `recv` may be the same where input and output are equally long; an all-gather is in place when send is
 * recv + rank * count elements, a reduce-scatter when recv is send + rank * count.
 *
 * Memory: `comm` is null or a communicator that was not freed. `send` and `recv` are null, or valid for what the collective reads and
 * writes until the operation is over; until then nothing else writes either or reads recv. `out` is null or valid for a write.
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
 * The same as netfold_comm_start in a class of operations, below the number given to netfold_builder_set_classes: through a
 * switch, data of higher classes are sent first. All ranks start the same operations in the same order, in any class.
 *
 * Memory: As for netfold_comm_start.
 */
netfold_result netfold_comm_start_in_class(const netfold_comm *comm,
                                           uint8_t op_class,
                                           int32_t collective,
                                           const void *send,
                                           void *recv,
                                           size_t count,
                                           int32_t dtype,
                                           int32_t op,
                                           uint16_t root,
                                           netfold_work **out);

/**
 * The same as netfold_comm_start_in_class, with another tolerance than that of the builder (see netfold_builder_set_tolerance): 0 for a
 * complete sum. The same on all ranks. Matters to all-reduces and reduce-scatters of floating-point sums and averages alone.
 *
 * Memory: As for netfold_comm_start.
 */
netfold_result netfold_comm_start_tolerating(const netfold_comm *comm,
                                             double tolerance,
                                             bool rescale,
                                             bool without_stragglers,
                                             uint8_t op_class,
                                             int32_t collective,
                                             const void *send,
                                             void *recv,
                                             size_t count,
                                             int32_t dtype,
                                             int32_t op,
                                             uint16_t root,
                                             netfold_work **out);

/**
 * The same as netfold_comm_start on memory of a CUDA device: `send` and `recv` are its addresses, and the operation comes behind what `stream` (a
 * cudaStream_t or CUstream; NULL: the legacy default stream) has been given before. Returns without waiting for the device or the network.
 * Use the output behind netfold_work_wait_on_stream, or after netfold_work_wait. A communicator serves one device. NETFOLD_RESULT_CUDA when
 * there is no driver, the memory is not on one device, or the stream is being captured into a graph.
 *
 * Memory: As for netfold_comm_start, for the device; `stream` is a stream of the device's primary context, as all of CUDA's runtime are.
 */
netfold_result netfold_comm_start_cuda(const netfold_comm *comm,
                                       void *stream,
                                       int32_t collective,
                                       const void *send,
                                       void *recv,
                                       size_t count,
                                       int32_t dtype,
                                       int32_t op,
                                       uint16_t root,
                                       netfold_work **out);

/**
 * The same for an all-reduce of float32 (NETFOLD_OP_SUM or NETFOLD_OP_AVG) with error feedback, in place, where devices quantise
 * (netfold_builder_set_device_quantization): `residual`, as many numbers of the device's memory, all zeros at first, is added to `tensor`, and then
 * holds what the encoding left out of this rank's contribution.
 *
 * Memory: As for netfold_comm_start_cuda, with `tensor` as both send and recv; the same for `residual`, which does not overlap it.
 */
netfold_result netfold_comm_start_cuda_with_feedback(const netfold_comm *comm,
                                                     void *stream,
                                                     float *tensor,
                                                     float *residual,
                                                     size_t count,
                                                     int32_t op,
                                                     netfold_work **out);

/**
 * The same as netfold_comm_start, and waits for the end.
 *
 * Memory: As for netfold_comm_start.
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
 * Memory: As for netfold_comm_start, with `tensor` as both send and recv.
 */
netfold_result netfold_comm_all_reduce(const netfold_comm *comm,
                                       void *tensor,
                                       size_t count,
                                       int32_t dtype,
                                       int32_t op);

/**
 * Starts the sum or average over all ranks of `send` + `residual` and writes its handle to `*out`: all are of `count` binary32
 * numbers, and `send` and `recv` may be the same. When it is over, `recv` holds the result, and `residual` what was left out of this
 * rank's contribution, by rounding or because it was missing (see netfold_builder_set_tolerance): pass it with the same tensor in the next step, all zeros in the first. After a failure both hold unspecified numbers.
 *
 * Memory: As for netfold_comm_start; and `residual` is null or valid for reads and writes of `count` numbers until the operation is over;
 * until then nothing else reads or writes it. It overlaps neither send nor recv.
 */
netfold_result netfold_comm_start_with_feedback(const netfold_comm *comm,
                                                const float *send,
                                                float *recv,
                                                float *residual,
                                                size_t count,
                                                int32_t op,
                                                netfold_work **out);

/**
 * The same in place, and waits for the end.
 *
 * Memory: As for netfold_comm_start_with_feedback, with `tensor` as both send and recv.
 */
netfold_result netfold_comm_all_reduce_with_feedback(const netfold_comm *comm,
                                                     float *tensor,
                                                     float *residual,
                                                     size_t count,
                                                     int32_t op);

/**
 * Returns when every rank has called it.
 *
 * Memory: `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_barrier(const netfold_comm *comm);

/**
 * This worker's rank.
 *
 * Memory: `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_rank(const netfold_comm *comm, uint16_t *out);

/**
 * Number of workers.
 *
 * Memory: `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_world_size(const netfold_comm *comm, uint16_t *out);

/**
 * A description of the data path and the reason for it. Writes as much as fits in `len` bytes, always zero-terminated, and the length
 * of all of it without the zero to `*needed`, unless that is NULL.
 *
 * Memory: `comm` is null or a communicator that was not freed; `text` is null or valid for writes of `len` bytes; `needed` is null
 * or valid for a write.
 */
netfold_result netfold_comm_path(const netfold_comm *comm,
                                 char *text,
                                 size_t len,
                                 size_t *needed);

/**
 * The part of each of the job's trees in its next operations, of 1: even at first, then in proportion to the rates that the ranks have measured. 0 for a tree
 * that is lost. Writes the first `capacity` parts to `shares`, which may be NULL if that is 0, and how many trees there are to `*count`: none without a switch.
 *
 * Memory: `comm` is null or a communicator that was not freed; `shares` is null or valid for writes of `capacity` numbers; `count` is null or valid for a write.
 */
netfold_result netfold_comm_tree_shares(const netfold_comm *comm,
                                        double *shares,
                                        size_t capacity,
                                        size_t *count);

/**
 * What connects the ranks (a netfold_network): the same on all ranks while nothing fails, and a ring after the switch was lost.
 *
 * Memory: `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_network(const netfold_comm *comm,
                                    int32_t *out);

/**
 * Splits the ranks into groups, as MPI_Comm_split does: ranks with the same `color`, 0 or more, form a group, numbered by `key` and then by
 * their rank here. All ranks call it; those with a negative color have no group, and NULL is written to `*out`. Writes the group's
 * communicator to `*out`, which has this communicator's settings and is to be left or freed before it. It is a group of this
 * communicator's job (see netfold_builder_set_group). A quota of the tenant that is too small for the groups is NETFOLD_RESULT_REFUSED on all
 * ranks, with the slots that are needed in netfold_last_error().
 *
 * Memory: `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_split(const netfold_comm *comm,
                                  int32_t color,
                                  int32_t key,
                                  netfold_comm **out);

/**
 * Aborts the job on this rank, from any thread: pending and later calls fail promptly here, and the other ranks report this one
 * lost.
 *
 * Memory: `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_abort(const netfold_comm *comm);

/**
 * NETFOLD_RESULT_OK while the job runs, else the error that ended it.
 *
 * Memory: `comm` is null or a communicator that was not freed.
 */
netfold_result netfold_comm_failure(const netfold_comm *comm);

/**
 * Finishes all pending operations, leaves the job and frees the communicator, whatever is returned.
 *
 * Memory: `comm` is null, or a communicator that was not freed and that no other thread uses.
 */
netfold_result netfold_comm_leave(netfold_comm *comm);

/**
 * Leaves the job at once and frees the communicator, or does nothing for NULL. Pending operations are aborted, and the other
 * ranks are notified; none of this rank's memory is accessed afterwards.
 *
 * Memory: `comm` is null, or a communicator that was not freed and that no other thread uses.
 */
void netfold_comm_free(netfold_comm *comm);

/**
 * Passes every log line up to `level` (a netfold_log_level) to `call`, or none any more when `call` is NULL. Applies to the
 * whole process. Without it nothing is logged.
 *
 * Memory: `call` may be called from any thread with `context` until it is replaced; it must not call the library.
 */
netfold_result netfold_set_log(netfold_log_fn call,
                               void *context,
                               int32_t level);

/**
 * Whether the job shrinks and grows in place (netfold_comm_shrink, netfold_comm_grow), the same on all ranks. The control port, a switch's own or a
 * controller, decides which ranks each generation of the job has; without one the ranks, which are then linked by a rendezvous or an exchange, decide by a quorum:
 * more than half of them, or half with rank 0. Not for groups. The default is false.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_set_resizable(netfold_builder *builder,
                                             bool on);

/**
 * Makes this a process that joins a resizable job of this name that runs, when its ranks grow by it: without rank and world size. Without a control port
 * the rendezvous is the address of any member (netfold_comm_membership_address; at first, the job's own rendezvous). netfold_builder_connect then
 * waits until it has a rank, for the join timeout at most.
 *
 * Memory: `builder` is null or a builder in use by this thread alone.
 */
netfold_result netfold_builder_join_running(netfold_builder *builder);

/**
 * Continues without ranks that are lost: every rank that remains calls it, after an error that ended the job. The ranks are numbered anew, in the order of their
 * former ranks, and the communicator is that of the next generation (see netfold_comm_rank, netfold_comm_world_size, netfold_comm_lost). Operations that
 * were in flight have failed, and groups of the former generation have ended. A rank that is connected and does not call it in time is not left out: the
 * result is NETFOLD_RESULT_NOT_RESIZED. A rank that was taken as lost and returns gets NETFOLD_RESULT_EXCLUDED: free the communicator. After all
 * other failures it may be called again.
 *
 * Memory: `comm` is null, or a communicator that was not freed and that no other thread uses meanwhile.
 */
netfold_result netfold_comm_shrink(netfold_comm *comm,
                                   uint64_t timeout_ms);

/**
 * Continues with `joining` more ranks, 1 or more, which join as netfold_builder_join_running says: every rank calls it at the same point, and waits until so
 * many processes have come. They are numbered after the ranks that there are. After NETFOLD_RESULT_NOT_RESIZED the communicator is as it was before.
 *
 * Memory: As for netfold_comm_shrink.
 */
netfold_result netfold_comm_grow(netfold_comm *comm,
                                 uint16_t joining,
                                 uint64_t timeout_ms);

/**
 * The generation of a resizable job, from 1; it grows by one whenever the job shrinks or grows. 0 of other jobs.
 *
 * Memory: `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_generation(const netfold_comm *comm,
                                       uint32_t *out);

/**
 * How many ranks of this generation were in the former one: they have the lowest numbers. 0 before this communicator has shrunk or grown.
 *
 * Memory: `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
 */
netfold_result netfold_comm_survivors(const netfold_comm *comm,
                                      uint16_t *out);

/**
 * Ranks of the former generation that are not in this one, as they were numbered there; none before this communicator has shrunk or grown. Writes the first `capacity`
 * of them to `ranks`, which may be NULL if that is 0, and how many there are, of which the first 128 are known, to `*count`.
 *
 * Memory: `comm` is null or a communicator that was not freed; `ranks` is null or valid for writes of `capacity` numbers; `count` is null or valid for a write.
 */
netfold_result netfold_comm_lost(const netfold_comm *comm,
                                 uint16_t *ranks,
                                 size_t capacity,
                                 size_t *count);

/**
 * Where processes that join a resizable job without a control port reach this rank, "IP:PORT"; empty of other jobs. Written as by netfold_comm_path.
 *
 * Memory: As for netfold_comm_path.
 */
netfold_result netfold_comm_membership_address(const netfold_comm *comm,
                                               char *text,
                                               size_t len,
                                               size_t *needed);

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
 * A short, stable name of a result code, for example "peer_lost"; "unknown" for other numbers. Never NULL.
 */
const char *netfold_result_name(int32_t result);

/**
 * Waits until the operation is over, at most `timeout_ms` milliseconds (negative: without bound), and returns how it ended;
 * NETFOLD_RESULT_AGAIN when it is still under way. Any thread, any number of times.
 *
 * Memory: `work` is null or an operation that was not freed.
 */
netfold_result netfold_work_wait(const netfold_work *work,
                                 int64_t timeout_ms);

/**
 * Writes whether the operation is over to `*done`, without waiting, and returns NETFOLD_RESULT_OK or how it failed.
 *
 * Memory: `work` is null or an operation that was not freed; `done` is null or valid for a write.
 */
netfold_result netfold_work_test(const netfold_work *work,
                                 bool *done);

/**
 * Writes how many chunks of the tensor lack any rank's contribution to `*partial`, the same on every rank, and how many lack this rank's to
 * `*left_out`, each unless it is NULL. Returns how the operation ended, without waiting; NETFOLD_RESULT_AGAIN when it is still under way.
 *
 * Memory: `work` is null or an operation that was not freed; `partial` and `left_out` are null or valid for a write.
 */
netfold_result netfold_work_left_out(const netfold_work *work,
                                     uint32_t *partial,
                                     uint32_t *left_out);

/**
 * Makes what is given to `stream` (a cudaStream_t or CUstream) from now on wait for the output of an operation that netfold_comm_start_cuda
 * has started. Does not wait itself. When the operation fails, the stream goes on, and every byte of the output that was not received
 * is 0xFF; netfold_work_wait and netfold_work_test return how it failed. For other operations NETFOLD_RESULT_UNSUPPORTED.
 *
 * Memory: `work` is null or an operation that was not freed; `stream` is null, the legacy default stream, or a stream of the operation's device.
 */
netfold_result netfold_work_wait_on_stream(const netfold_work *work,
                                           void *stream);

/**
 * Frees the handle, or does nothing for NULL. The operation continues, and its memory must stay valid until it is over.
 *
 * Memory: `work` is null, or an operation that was not freed and that no other thread uses.
 */
void netfold_work_free(netfold_work *work);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NETFOLD_H */
