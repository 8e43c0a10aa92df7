/* The data of one side of a message that are device memory, if only in part: where they lie, and how they come into
 * consecutive bytes of host memory and back. Messages carry such bytes, so the other side may have any type of the same
 * signature, as MPI wants it.
 *
 * Only bytes of data are written, never gaps, and of a receive no more than the message had.
 * Thread safety: any thread. Ownership: borrows the buffer and the type, which must live as long as it is used.
 */
#ifndef GPUCOLL_MCA_PT2PT_MESSAGE_DATA_H
#define GPUCOLL_MCA_PT2PT_MESSAGE_DATA_H

#include "mca/coll/plan.h"

typedef struct gcm_message_data {
  void *memory;           /* where the first element begins; without a map, the first byte of data */
  const gc_type_map *map; /* NULL: the data have no gaps */
  size_t bytes;           /* of data */
  bool mixed;             /* some of the data are host memory: absolute addresses can lead to both */
} gcm_message_data;

/* These return MPI error classes, and have logged the sentence where they fail. REQUIRES: there are bytes of data. */
int gcm_describe_data(gcm_message_data *data, const void *buffer, size_t count, gcm_type *type);
/* Copies all data to `packed`, or as many bytes as a message had back from it. */
int gcm_load_data(const gcm_message_data *data, void *packed);
int gcm_store_data(const gcm_message_data *data, void *packed, size_t bytes);

#endif
