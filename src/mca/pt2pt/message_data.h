/* The data of one side of a message, in memory of any kind: where they lie, and how they come into consecutive bytes of
 * host memory and back. Messages carry such bytes, so the other side may have any type of the same signature, as MPI
 * wants it.
 *
 * Only bytes of data are written, never gaps, and of a receive no more than the message had.
 * Thread safety: any thread. Ownership: borrows the buffer and the type, which must live as long as it is used.
 */
#ifndef GPUCOLL_MCA_PT2PT_MESSAGE_DATA_H
#define GPUCOLL_MCA_PT2PT_MESSAGE_DATA_H

#include "abi/pt2pt.h"
#include "mca/coll/plan.h"

typedef struct gcm_message_data {
  gc_message_data place; /* as the engine takes it; without gaps, the first byte of data; host memory needs no map */
  bool has_gaps;
  bool mixed; /* no kernel reaches all data (gcm_is_mixed) */
  bool partly_host;
  /* As the application passed them. */
  void *buffer;
  size_t count;
  gcm_type *type;
} gcm_message_data;

/* These return MPI error classes, and have logged the sentence where they fail. */
int gcm_describe_data(gcm_message_data *data, const void *buffer, size_t count, gcm_type *type, bool on_device);
/* Copies the first bytes of the data to `packed`, or back from it; at most as many as there are. */
int gcm_load_data(const gcm_message_data *data, void *packed, size_t bytes);
int gcm_store_data(const gcm_message_data *data, void *packed, size_t bytes);

/* Packs host memory, or unpacks it: the first bytes of its data. */
int gcm_convert(const void *buffer, size_t count, gcm_type *type, void *packed, size_t bytes, bool unpacks);

#endif
