/* nic_offer.h: what a node publishes about its network interfaces, and which rails worked for it in the
 * probe; and the encoding of both. */
#ifndef NET_NIC_OFFER_H
#define NET_NIC_OFFER_H

#include "net/network.h"

#define NIC_OFFER_BYTES    16384 /* the longest encoded offer */
#define PROBE_RESULT_BYTES 2048  /* the longest encoded result */

/* Read the interfaces and RDMA devices of this node, select them by [filter] (a value of --hvd-nics), and
 * sort them best first; also read what the environment has in the variables of network_env.h. HVD_OK;
 * HVD_ERR_INVALID if [filter] fits no interface here; or HVD_ERR_SYSTEM or HVD_ERR_NO_MEMORY. */
int nic_offer_read(struct network_node *node, const char *filter, struct hvd_error *err);

/* For tests: the same from [nics], which are selected already. HVD_OK or HVD_ERR_NO_MEMORY. Pure. */
int nic_offer_of_nics(struct network_node *node, const struct nic *nics, int count);

/* Free what the two functions above and nic_offer_decode have made. A zeroed node is fine. */
void nic_offer_free(struct network_node *node);

/* Encode a node, which returns the length; and decode it into a zeroed node. Decoding returns HVD_OK,
 * HVD_ERR_INVALID if the bytes are not what nic_offer_encode writes, or HVD_ERR_NO_MEMORY. */
size_t nic_offer_encode(const struct network_node *node, unsigned char bytes[NIC_OFFER_BYTES]);
int nic_offer_decode(struct network_node *node, const unsigned char *bytes, size_t length);

/* The same for a result over [rail_count] rails. Pure. */
size_t probe_result_encode(const struct network_probe_result *result, int rail_count,
                           unsigned char bytes[PROBE_RESULT_BYTES]);
int probe_result_decode(struct network_probe_result *result, int rail_count, const unsigned char *bytes,
                        size_t length);

#endif
