/* The component coll/gpucoll: loads the engine, registers its parameters, publishes the process, offers a module to
 * every communicator.
 *
 * The component logs one sentence when something is wrong, and goes on as follows:
 * - The library is of another version, or a parameter has a bad value, and the user asked for gpucoll literally
 *   (--mca coll gpucoll): registration fails and MPI_Init ends with Open MPI's own error. Running silently without what
 *   was asked for would be worse.
 * - A parameter has a bad value in an installation that is used by default, or the engine cannot start (no shared
 *   memory is left): the component stays, as without it device buffers would crash, and takes everything through host
 *   memory.
 */
#include "gpucoll/gpucoll.h"
#include "mca/coll/kept_objects.h"
#include "mca/io/files.h"
#include "mca/osc/windows.h"

const gc_abi *gcm_abi;
const gc_pointer_hint *gcm_hint;
bool gcm_engine_runs;

static int log_stream = -1;

/* A stream of our own, as the engine's lines begin with host and process already. An earlier one is gone: Open MPI ends
 * its output at MPI_T_finalize, without closing components that are only registered, and this file's data stay. */
static void open_log(void) {
  opal_output_stream_t stream;
  OBJ_CONSTRUCT(&stream, opal_output_stream_t);
  stream.lds_want_stderr = true;
  log_stream = opal_output_open(&stream);
  OBJ_DESTRUCT(&stream);
}

static void log_line(int level, const char *line) {
  (void)level; /* the line says it */
  opal_output(log_stream, "%s", line);
}

static int load_engine(void) {
  gcm_abi = gpucoll_abi(GC_ABI_VERSION);
  if (gcm_abi == NULL || gcm_abi->bytes < sizeof(gc_abi)) {
    gcm_abi = NULL;
    opal_output(
        0,
        "gpucoll: the component coll/gpucoll and libgpucoll are of different versions (interface %u is wanted): "
        "install both from one build, or correct LD_LIBRARY_PATH",
        GC_ABI_VERSION);
    return OMPI_ERR_NOT_AVAILABLE;
  }
  gcm_hint = gcm_abi->hint;
  open_log();
  gcm_abi->set_log_sink(log_line);
  return OMPI_SUCCESS;
}

static int register_params(void) {
  int rc = load_engine();
  if (rc != OMPI_SUCCESS) return rc;
  gcm_engine_runs = gcm_register_parameters() == OMPI_SUCCESS;
  gcm_register_counters();
  if (!gcm_asked_literally()) return OMPI_SUCCESS;
  return gcm_engine_runs ? gcm_widen_selection() : OMPI_ERR_NOT_AVAILABLE;
}

/* The modex is committed after this, and before collm_init_query. */
static int open_component(void) {
  if (gcm_abi->param_value("priority") < 0) return OMPI_SUCCESS;
  gcm_engine_runs = gcm_engine_runs && gcm_publish_process() == OMPI_SUCCESS;
  if (!gcm_engine_runs) gcm_abi->log(0, "device buffers of this process go through host memory, for the reason above");
  return OMPI_SUCCESS;
}

/* The PML has been selected before this. */
static int init_query(bool progress_threads, bool mpi_threads) {
  (void)progress_threads, (void)mpi_threads;
  if (gcm_abi->param_value("priority") < 0) return OMPI_SUCCESS;
  gcm_look_at_messages();
  gcm_look_at_windows();
  gcm_look_at_files();
  return OMPI_SUCCESS;
}

static int close_component(void) {
  gcm_leave_messages();
  gcm_leave_windows();
  gcm_leave_files();
  gcm_stop_progress();
  gcm_process_close();
  gcm_forget_processes();
  gcm_forget_kept_objects();
  gcm_forget_type_maps();
  gcm_engine_runs = false;
  gcm_abi->set_log_sink(NULL); /* Open MPI's output goes away, the library stays */
  if (log_stream >= 0) opal_output_close(log_stream);
  log_stream = -1;
  return OMPI_SUCCESS;
}

/* The one symbol of the plugin that Open MPI looks for. */
__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_gpucoll_component = {
    .collm_version =
        {
            GCM_COLL_VERSION,
            .mca_component_name = "gpucoll",
            MCA_BASE_MAKE_VERSION(component, GPUCOLL_MAJOR, GPUCOLL_MINOR, GPUCOLL_PATCH),
            .mca_open_component = open_component,
            .mca_close_component = close_component,
            .mca_register_component_params = register_params,
        },
    .collm_init_query = init_query,
    .collm_comm_query = gcm_comm_query,
};
