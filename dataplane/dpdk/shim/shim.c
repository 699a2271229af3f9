/* See shim.h. Each function is one call of the inline function of almost the same name, except for the log, and for functions that take structures
 * or callbacks that are easier to write here. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

int netfold_errno(void) { return rte_errno; }

/* DPDK's log of this thread: the newest bytes, and their number. DPDK flushes after every message, so a message
 * is written by the thread that says it. */
static __thread char log_text[1024];
static __thread size_t log_len;

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
    (void)cookie;
    const size_t all = len;
    /* DPDK's last messages before it ends the process must be visible. */
    if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_CRIT)
        fwrite(text, 1, len, stderr);
    if (len > sizeof log_text) {
        text += len - sizeof log_text;
        len = sizeof log_text;
    }
    if (log_len + len > sizeof log_text) {
        const size_t kept = sizeof log_text - len;
        memmove(log_text, log_text + log_len - kept, kept);
        log_len = kept;
    }
    memcpy(log_text + log_len, text, len);
    log_len += len;
    return (ssize_t)all;
}

int netfold_log_open(void)
{
    static FILE *stream;
    if (stream == NULL) {
        const cookie_io_functions_t functions = { .write = log_write };
        stream = fopencookie(NULL, "w", functions);
        if (stream == NULL)
            return -1;
        setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    }
    return rte_openlog_stream(stream);
}

size_t netfold_log_take(char *text, size_t len)
{
    const size_t taken = log_len < len ? log_len : len;
    memcpy(text, log_text + log_len - taken, taken);
    log_len = 0;
    return taken;
}

uint16_t netfold_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
    return rte_eth_rx_burst(port, queue, mbufs, count);
}

uint16_t netfold_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
    return rte_eth_tx_burst(port, queue, mbufs, count);
}

struct closing {
    uint16_t port;
    sem_t done;
};

static void close_here(void *argument)
{
    struct closing *closing = argument;
    rte_eth_dev_stop(closing->port);
    rte_eth_dev_close(closing->port);
    sem_post(&closing->done);
}

void netfold_close_there(uint16_t port)
{
    struct closing closing = { .port = port };
    sem_init(&closing.done, 0, 0);
    if (rte_eal_alarm_set(1, close_here, &closing) != 0)
        close_here(&closing);
    while (sem_wait(&closing.done) != 0) { /* a signal */
    }
    sem_destroy(&closing.done);
}

int netfold_alloc(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned count)
{
    return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

void netfold_reset(struct rte_mbuf *mbuf) { rte_pktmbuf_reset(mbuf); }

uint8_t *netfold_append(struct rte_mbuf *mbuf, uint16_t len)
{
    return (uint8_t *)rte_pktmbuf_append(mbuf, len);
}

int netfold_chain(struct rte_mbuf *head, struct rte_mbuf *tail) { return rte_pktmbuf_chain(head, tail); }

uint32_t netfold_packet_len(const struct rte_mbuf *mbuf) { return rte_pktmbuf_pkt_len(mbuf); }

void netfold_segment_of(const struct rte_mbuf *mbuf, struct netfold_segment *segment)
{
    segment->data = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    segment->len = rte_pktmbuf_data_len(mbuf);
    segment->next = mbuf->next;
}

void netfold_hold(struct rte_mbuf *mbuf) { rte_pktmbuf_refcnt_update(mbuf, 1); }

struct rte_flow *netfold_steer(uint16_t port, uint16_t udp_port, uint16_t queue)
{
    const struct rte_flow_attr attr = { .ingress = 1 };
    const struct rte_flow_item_udp to = { .hdr.dst_port = rte_cpu_to_be_16(udp_port) };
    const struct rte_flow_item_udp all_bits = { .hdr.dst_port = UINT16_MAX };
    const struct rte_flow_item pattern[] = {
        { .type = RTE_FLOW_ITEM_TYPE_ETH },
        { .type = RTE_FLOW_ITEM_TYPE_IPV4 },
        { .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &to, .mask = &all_bits },
        { .type = RTE_FLOW_ITEM_TYPE_END },
    };
    const struct rte_flow_action_queue there = { .index = queue };
    const struct rte_flow_action actions[] = {
        { .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &there },
        { .type = RTE_FLOW_ACTION_TYPE_END },
    };
    struct rte_flow_error error;
    if (rte_flow_validate(port, &attr, pattern, actions, &error) != 0)
        return NULL;
    return rte_flow_create(port, &attr, pattern, actions, &error);
}

void netfold_unsteer(uint16_t port, struct rte_flow *rule)
{
    struct rte_flow_error error;
    rte_flow_destroy(port, rule, &error);
}

struct rte_mbuf *netfold_ring_take(struct rte_ring *ring)
{
    void *mbuf = NULL;
    return rte_ring_dequeue(ring, &mbuf) == 0 ? mbuf : NULL;
}

void netfold_swx_entry_free(struct rte_swx_table_entry *entry)
{
    if (entry == NULL)
        return;
    free(entry->key);
    free(entry->key_mask);
    free(entry->action_data);
    free(entry);
}
