/* nic_offer.h: what a node tells the others of its interfaces, and of how it fared on each rail; and their
 * bytes. */
#ifndef NET_NIC_OFFER_H
#define NET_NIC_OFFER_H

#include "net/network.h"

#define NIC_OFFER_BYTES    16384 /* no node says more */
#define PROBE_RESULT_BYTES 2048  /* no result is longer */

/* The interfaces and RDMA devices of this node, judged by [asked] (a value of --hvd-nics), best first, and
 * what the environment says of those variables. HVD_OK; HVD_ERR_INVALID where [asked] fits none here; or
 * HVD_ERR_SYSTEM or HVD_ERR_NO_MEMORY. */
int nic_offer_read(struct network_node *node, const char *asked, struct hvd_error *err);

/* The same of [nics], which are judged. HVD_OK or HVD_ERR_NO_MEMORY. Pure. */
int nic_offer_of_nics(struct network_node *node, const struct nic *nics, int count);

/* Free what the two above and nic_offer_decode have made. A zeroed one is fine. */
void nic_offer_free(struct network_node *node);

/* To bytes, returns how many; and back into a zeroed node: HVD_OK, HVD_ERR_INVALID where they are not what
 * nic_offer_encode writes, or HVD_ERR_NO_MEMORY. */
size_t nic_offer_encode(const struct network_node *node, unsigned char bytes[NIC_OFFER_BYTES]);
int nic_offer_decode(struct network_node *node, const unsigned char *bytes, size_t length);

/* The same of a result over [rail_count] rails. Pure. */
size_t probe_result_encode(const struct network_probe_result *result, int rail_count,
                           unsigned char bytes[PROBE_RESULT_BYTES]);
int probe_result_decode(struct network_probe_result *result, int rail_count, const unsigned char *bytes,
                        size_t length);

#endif
