/* The component coll/gpucoll: loads the engine, registers its parameters, publishes the process, offers a module to
 * every communicator.
 *
 * When the engine or a parameter is bad, one sentence is logged and registration fails: Open MPI then goes on without
 * this component, or, where the user asked for it literally (--mca coll gpucoll), ends MPI_Init with its own error.
 * Running silently without what was asked for would be worse than either.
 */
#include "coll/mca/module.h"
#include "gpucoll/gpucoll.h"

const gc_abi *gcm_abi;

static void log_line(int level, const char *line) {
  (void)level; /* the line says it */
  opal_output(0, "%s", line);
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
  gcm_abi->set_log_sink(log_line);
  return OMPI_SUCCESS;
}

static int register_params(void) {
  int rc = load_engine();
  if (rc == OMPI_SUCCESS) rc = gcm_register_parameters();
  if (rc == OMPI_SUCCESS) rc = gcm_widen_selection();
  return rc;
}

/* The modex is committed after this, and before collm_init_query. */
static int open_component(void) { return gcm_abi->param_value("priority") < 0 ? OMPI_SUCCESS : gcm_publish_process(); }

static int init_query(bool progress_threads, bool mpi_threads) {
  (void)progress_threads, (void)mpi_threads;
  return OMPI_SUCCESS;
}

static int close_component(void) {
  gcm_stop_progress();
  gcm_process_close();
  gcm_forget_processes();
  if (gcm_abi != NULL) gcm_abi->set_log_sink(NULL); /* Open MPI's output goes away, the library stays */
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
    .collm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .collm_init_query = init_query,
    .collm_comm_query = gcm_comm_query,
};
