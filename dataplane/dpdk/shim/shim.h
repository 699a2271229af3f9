/* DPDK's inline functions and macros, which Rust cannot call, under names of our own. Read by bindgen, too. */
#ifndef NETFOLD_DPDK_SHIM_H
#define NETFOLD_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_eth_ring.h>
#include <rte_ether.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

/* Receive-side scaling over the addresses and ports of IPv4 and UDP. */
static const uint64_t NETFOLD_RSS_UDP = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP;
/* A packet may be several buffers, received and sent. */
static const uint64_t NETFOLD_RX_SCATTER = RTE_ETH_RX_OFFLOAD_SCATTER;
static const uint64_t NETFOLD_TX_SEGMENTS = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

/* One buffer of a packet. */
struct netfold_segment {
    const uint8_t *data;
    uint32_t len;
    const struct rte_mbuf *next;
};

/* rte_errno of this thread. */
int netfold_errno(void);

/* Directs DPDK's log to a buffer of each thread from now on; 0, or -1 when there is no memory. */
int netfold_log_open(void);
/* Moves what was logged on this thread since the last call to `text`, at most `len` bytes of it, the newest; returns how many. */
size_t netfold_log_take(char *text, size_t len);

uint16_t netfold_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
uint16_t netfold_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);

/* Stops and closes a port on the thread on which DPDK tears connections down, and returns when that is done. */
void netfold_close_there(uint16_t port);

/* `count` empty buffers, all or none; 0 or a negative error number. */
int netfold_alloc(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned count);
/* Makes a buffer empty again. */
void netfold_reset(struct rte_mbuf *mbuf);
/* `len` bytes more at the end of the last segment, or NULL when they do not fit. */
uint8_t *netfold_append(struct rte_mbuf *mbuf, uint16_t len);
/* A buffer behind the last of a packet; 0 or a negative error number. */
int netfold_chain(struct rte_mbuf *head, struct rte_mbuf *tail);
/* Bytes of the whole packet. */
uint32_t netfold_packet_len(const struct rte_mbuf *mbuf);
void netfold_segment_of(const struct rte_mbuf *mbuf, struct netfold_segment *segment);

/* Adds a holder to a packet, which returns to its pool with the last. */
void netfold_hold(struct rte_mbuf *mbuf);

/* Directs datagrams (UDP over IPv4) to a port of that number to a queue of a running device; NULL where the device has no such
 * rules. */
struct rte_flow *netfold_steer(uint16_t port, uint16_t udp_port, uint16_t queue);
void netfold_unsteer(uint16_t port, struct rte_flow *rule);

/* Takes a packet out of a ring, or NULL. */
struct rte_mbuf *netfold_ring_take(struct rte_ring *ring);

/* Frees an entry that rte_swx_ctl_pipeline_table_entry_read has made. */
void netfold_swx_entry_free(struct rte_swx_table_entry *entry);

#endif
