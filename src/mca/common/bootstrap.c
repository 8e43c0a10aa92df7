/* Answers what the engine asks of MPI: names of processes and what they published. */
#include <opal/util/proc.h>

#include "mca/coll/module.h"

/* ---- the modex ---- */

int gcm_publish_process(void) {
  gc_process_blob mine;
  int rc = gcm_abi->process_open(&mine, OPAL_PROC_MY_NAME.vpid == 0);
  if (rc != MPI_SUCCESS) return OMPI_ERR_NOT_AVAILABLE; /* the engine has said why */
  OPAL_MODEX_SEND(rc, GCM_MODEX_SCOPE, &mca_coll_gpucoll_component.collm_version, &mine, sizeof mine);
  if (rc == OPAL_SUCCESS) return OMPI_SUCCESS;
  gcm_abi->log(-1, "this process cannot tell the others about itself: Open MPI's modex refused its entry");
  return OMPI_ERROR;
}

/* Blobs by process name, kept because a modex query may ask another node. The value of a process without gpucoll is
 * `absent`. */
static opal_hash_table_t blobs;
static bool blobs_exist;
static opal_mutex_t blobs_lock = OPAL_MUTEX_STATIC_INIT;
static gc_process_blob absent;

static uint64_t name_of(const opal_process_name_t *name) { return (uint64_t)name->jobid << 32 | (uint64_t)name->vpid; }

static gc_process_blob *fetch(const ompi_proc_t *proc) {
  uint8_t *bytes = NULL;
  size_t size = 0;
  int rc;
  OPAL_MODEX_RECV(rc, &mca_coll_gpucoll_component.collm_version, &proc->super.proc_name, (void **)&bytes, &size);
  if (rc != OPAL_SUCCESS || bytes == NULL) return &absent;
  if (size == sizeof(gc_process_blob)) return (gc_process_blob *)bytes;
  free(bytes);
  gc_process_blob *other = calloc(1, sizeof *other); /* zeros are the blob of another version */
  return other != NULL ? other : &absent;
}

static const gc_process_blob *look_up(const ompi_proc_t *proc) {
  const uint64_t name = name_of(&proc->super.proc_name);
  void *found = NULL;
  if (!blobs_exist) {
    OBJ_CONSTRUCT(&blobs, opal_hash_table_t);
    opal_hash_table_init(&blobs, 64);
    blobs_exist = true;
  }
  if (opal_hash_table_get_value_uint64(&blobs, name, &found) != OPAL_SUCCESS) {
    found = fetch(proc);
    opal_hash_table_set_value_uint64(&blobs, name, found);
  }
  return found == &absent ? NULL : found;
}

const gc_process_blob *gcm_process_blob_of(const ompi_proc_t *proc) {
  opal_mutex_lock(&blobs_lock);
  const gc_process_blob *blob = look_up(proc);
  opal_mutex_unlock(&blobs_lock);
  return blob;
}

void gcm_forget_processes(void) {
  if (!blobs_exist) return;
  uint64_t name;
  void *blob, *node = NULL;
  int rc = opal_hash_table_get_first_key_uint64(&blobs, &name, &blob, &node);
  while (rc == OPAL_SUCCESS) {
    if (blob != &absent) free(blob);
    rc = opal_hash_table_get_next_key_uint64(&blobs, &name, &blob, node, &node);
  }
  OBJ_DESTRUCT(&blobs);
  blobs_exist = false;
}

/* ---- the engine's calls; ctx is the gcm_module ---- */

static const gc_process_blob *call_peer(void *ctx, int rank) { return gcm_process_blob_of(gcm_member(ctx, rank)); }

static uint64_t call_process_name(void *ctx, int rank) {
  const gcm_module *m = ctx;
  return name_of(&gcm_member(m, rank)->super.proc_name);
}

static void call_progress(void) { opal_progress(); }

const gc_host_calls gcm_host_calls = {call_peer, call_process_name, call_progress};
