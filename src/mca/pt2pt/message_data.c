#include "mca/pt2pt/message_data.h"

int gcm_describe_data(gcm_message_data *data, const void *buffer, size_t count, gcm_type *type, bool on_device) {
  const gcm_layout layout = {.groups = 1, .count = count, .type = type};
  const bool looks = on_device && buffer == MPI_BOTTOM;
  const gcm_kinds kinds = looks ? gcm_kinds_at_addresses(&layout) : (gcm_kinds){.device = on_device};
  *data = (gcm_message_data){.place = {.bytes = count * type->super.size, .on_device = on_device},
                             .mixed = gcm_are_mixed(&kinds),
                             .partly_host = kinds.device && kinds.host,
                             .buffer = (void *)(uintptr_t)buffer,
                             .count = count,
                             .type = type};
  if (ompi_datatype_is_contiguous_memory_layout(type, count > 1 ? 2 : 1)) {
    data->place.memory = gcm_address(buffer, type->super.true_lb);
    return MPI_SUCCESS;
  }
  data->place.memory = data->buffer;
  data->has_gaps = true;
  if (data->place.bytes == 0 || !on_device) return MPI_SUCCESS;
  data->place.map = gcm_type_map(type);
  if (data->place.map != NULL) return MPI_SUCCESS;
  gcm_abi->log(-1, "no memory is left to list where the data of a message's type lie; use smaller types");
  return MPI_ERR_NO_MEM;
}

int gcm_convert(const void *buffer, size_t count, gcm_type *type, void *packed, size_t bytes, bool unpacks) {
  opal_convertor_t convertor;
  struct iovec piece = {.iov_base = packed, .iov_len = bytes};
  uint32_t pieces = 1;
  size_t length = bytes;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  if (unpacks) {
    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, buffer, 0, &convertor);
    (void)opal_convertor_unpack(&convertor, &piece, &pieces, &length);
  } else {
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, buffer, 0, &convertor);
    (void)opal_convertor_pack(&convertor, &piece, &pieces, &length);
  }
  OBJ_DESTRUCT(&convertor);
  return length == bytes ? MPI_SUCCESS : MPI_ERR_UNKNOWN;
}

static int copy(void *packed, void *memory, size_t bytes, bool to_device) {
  return gcm_abi->copy(to_device ? memory : packed, to_device ? packed : memory, bytes);
}

/* Copies a run that may be memory of the host or of any device. */
static int copy_mixed(void *packed, void *memory, size_t bytes, bool to_device) {
  if (gc_is_device(gcm_abi, memory)) return copy(packed, memory, bytes, to_device);
  memcpy(to_device ? memory : packed, to_device ? packed : memory, bytes);
  return MPI_SUCCESS;
}

/* Copies run by run, up to `bytes` bytes of data. */
static int copy_runs(const gc_message_data *place, uint8_t *packed, size_t bytes, bool to_device) {
  size_t done = 0;
  int rc = MPI_SUCCESS;
  for (ptrdiff_t element = 0; done < bytes; element += place->map->extent) {
    for (size_t i = 0; i < place->map->n_runs; i++) {
      const gc_runs *runs = &place->map->runs[i];
      for (size_t r = 0; r < runs->count && done < bytes && rc == MPI_SUCCESS; r++) {
        const size_t length = runs->bytes < bytes - done ? runs->bytes : bytes - done;
        void *memory = gcm_address(place->memory, element + runs->offset + (ptrdiff_t)r * runs->stride);
        rc = copy_mixed(packed + done, memory, length, to_device);
        done += length;
      }
    }
    if (rc != MPI_SUCCESS) return rc;
  }
  return rc;
}

static int copy_data(const gcm_message_data *data, void *packed, size_t bytes, bool to_memory) {
  const gc_message_data *place = &data->place;
  if (bytes > place->bytes) bytes = place->bytes;
  if (bytes == 0) return MPI_SUCCESS;
  if (!place->on_device) return gcm_convert(data->buffer, data->count, data->type, packed, bytes, to_memory);
  if (place->map == NULL) return copy(packed, place->memory, bytes, to_memory);
  if (data->mixed) return copy_runs(place, packed, bytes, to_memory);
  return gcm_abi->copy_packed(place->map, place->memory, packed, bytes, to_memory);
}

int gcm_load_data(const gcm_message_data *data, void *packed, size_t bytes) {
  return copy_data(data, packed, bytes, false);
}
int gcm_store_data(const gcm_message_data *data, void *packed, size_t bytes) {
  return copy_data(data, packed, bytes, true);
}
