/* A component of the framework osc with the lowest priority. Windows of device memory are made before a component is
 * asked (selection.c), but Open MPI refuses a window at once where it has no component that offers to make it, as
 * between nodes over TCP. This one offers to, and makes none. */
#include "mca/osc/device_windows.h"
#include "ompi/mca/osc/base/base.h"

static int init(bool progress_threads, bool mpi_threads) {
  (void)progress_threads, (void)mpi_threads;
  return OMPI_SUCCESS;
}
static int finalize(void) { return OMPI_SUCCESS; }

static int query(ompi_win_t *win, void **base, size_t size, int unit, ompi_communicator_t *comm, opal_info_t *info,
                 int flavor) {
  (void)win, (void)base, (void)size, (void)unit, (void)comm, (void)info;
  return flavor == MPI_WIN_FLAVOR_CREATE ? 0 : -1;
}

static int refuse(ompi_win_t *win, void **base, size_t size, int unit, ompi_communicator_t *comm, opal_info_t *info,
                  int flavor, int *model) {
  (void)win, (void)base, (void)size, (void)unit, (void)comm, (void)info, (void)flavor, (void)model;
  return OMPI_ERR_NOT_SUPPORTED;
}

static ompi_osc_base_component_t component = {
    .osc_version = {OMPI_OSC_BASE_VERSION_3_0_0, .mca_component_name = "gpucoll"},
    .osc_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .osc_init = init,
    .osc_query = query,
    .osc_select = refuse,
    .osc_finalize = finalize,
};

void gcm_offer_own_component(void) {
  mca_base_component_list_item_t *item = OBJ_NEW(mca_base_component_list_item_t);
  if (item == NULL) return;
  item->cli_component = &component.osc_version;
  opal_list_append(&ompi_osc_base_framework.framework_components, &item->super);
}
