#include "mca/pt2pt/message_data.h"

int gcm_describe_data(gcm_message_data *data, const void *buffer, size_t count, gcm_type *type) {
  const gcm_side side = gcm_reads(buffer, (gcm_layout){.groups = 1, .count = count, .type = type});
  *data = (gcm_message_data){.bytes = count * type->super.size, .mixed = gcm_is_mixed(&side)};
  if (ompi_datatype_is_contiguous_memory_layout(type, count > 1 ? 2 : 1)) {
    data->memory = gcm_address(buffer, type->super.true_lb);
    return MPI_SUCCESS;
  }
  data->memory = (void *)(uintptr_t)buffer;
  data->map = gcm_type_map(type);
  if (data->map != NULL) return MPI_SUCCESS;
  gcm_abi->log(-1, "no memory is left to list where the data of a message's type lie; use smaller types");
  return MPI_ERR_NO_MEM;
}

static int copy(void *packed, void *memory, size_t bytes, bool to_device) {
  return gcm_abi->copy(to_device ? memory : packed, to_device ? packed : memory, bytes);
}

/* Copies a run that may be memory of either kind. */
static int copy_mixed(void *packed, void *memory, size_t bytes, bool to_device) {
  if (gc_is_device(gcm_abi, memory)) return copy(packed, memory, bytes, to_device);
  memcpy(to_device ? memory : packed, to_device ? packed : memory, bytes);
  return MPI_SUCCESS;
}

/* Copies run by run, up to `bytes` bytes of data. */
static int copy_strided(const gcm_message_data *data, uint8_t *packed, size_t bytes, bool to_device) {
  size_t done = 0;
  int rc = MPI_SUCCESS;
  for (ptrdiff_t element = 0; done < bytes; element += data->map->extent) {
    for (size_t i = 0; i < data->map->n_runs; i++) {
      const gc_runs *runs = &data->map->runs[i];
      for (size_t r = 0; r < runs->count && done < bytes && rc == MPI_SUCCESS; r++) {
        const size_t length = runs->bytes < bytes - done ? runs->bytes : bytes - done;
        void *memory = gcm_address(data->memory, element + runs->offset + (ptrdiff_t)r * runs->stride);
        rc = copy_mixed(packed + done, memory, length, to_device);
        done += length;
      }
    }
    if (rc != MPI_SUCCESS) return rc;
  }
  return rc;
}

static int copy_data(const gcm_message_data *data, void *packed, size_t bytes, bool to_device) {
  if (bytes == 0) return MPI_SUCCESS;
  if (data->map == NULL) return copy(packed, data->memory, bytes, to_device);
  if (data->mixed) return copy_strided(data, packed, bytes, to_device);
  return gcm_abi->copy_packed(data->map, data->memory, packed, bytes, to_device);
}

int gcm_load_data(const gcm_message_data *data, void *packed) { return copy_data(data, packed, data->bytes, false); }

int gcm_store_data(const gcm_message_data *data, void *packed, size_t bytes) {
  return copy_data(data, packed, bytes < data->bytes ? bytes : data->bytes, true);
}
