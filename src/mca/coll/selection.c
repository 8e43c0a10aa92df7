/* `mpirun --mca coll gpucoll` literally.
 *
 * That selection excludes every other collective component, but gpucoll stands in front of them and cannot do without.
 * So, while the framework registers its components and the selection may still be changed, the others are brought
 * back behind gpucoll: found, loaded, registered, and named in the selection, which the framework reads again when it
 * opens them. Only where the user wrote exactly `gpucoll`: a list or an exclusion is a wish of its own and is kept.
 * `--mca coll_gpucoll_fallback none` leaves the selection as it is.
 */
#include "mca/coll/module.h"

enum { kFallbackAuto = 0 }; /* the first choice of the parameter `fallback` */

static bool is_listed(const mca_base_framework_t *framework, const char *name) {
  mca_base_component_list_item_t *item;
  OPAL_LIST_FOREACH(item, &framework->framework_components, mca_base_component_list_item_t) {
    if (strcmp(item->cli_component->mca_component_name, name) == 0) return true;
  }
  return false;
}

/* Components go to the head of the list: the framework is on its way through it and would register them again. */
static void add_static_components(mca_base_framework_t *framework) {
  const mca_base_component_t **component = framework->framework_static_components;
  for (; component != NULL && *component != NULL; component++) {
    if (is_listed(framework, (*component)->mca_component_name)) continue;
    mca_base_component_list_item_t *item = OBJ_NEW(mca_base_component_list_item_t);
    if (item == NULL) return;
    item->cli_component = *component;
    opal_list_prepend(&framework->framework_components, &item->super);
  }
}

static void add_plugins(mca_base_framework_t *framework) {
  opal_list_t *known = NULL;
  mca_base_component_repository_item_t *plugin;
  if (mca_base_component_repository_get_components(framework, &known) != OPAL_SUCCESS || known == NULL) return;
  OPAL_LIST_FOREACH(plugin, known, mca_base_component_repository_item_t) {
    if (is_listed(framework, plugin->ri_name)) continue;
    const size_t before = opal_list_get_size(&framework->framework_components);
    if (mca_base_component_repository_open(framework, plugin) != OPAL_SUCCESS) continue;
    if (opal_list_get_size(&framework->framework_components) == before) continue;
    opal_list_item_t *appended = opal_list_remove_last(&framework->framework_components);
    opal_list_prepend(&framework->framework_components, appended);
  }
}

static bool register_variables(const mca_base_component_t *component) {
  return component->mca_register_component_params == NULL || component->mca_register_component_params() == OPAL_SUCCESS;
}

/* Registers what was added, drops what refuses, and returns "gpucoll,<the others>", to be freed. */
static char *register_added(mca_base_framework_t *framework, const char *own_name) {
  mca_base_component_list_item_t *item, *next;
  char **names = NULL;
  int rc = opal_argv_append_nosize(&names, own_name);
  OPAL_LIST_FOREACH_SAFE(item, next, &framework->framework_components, mca_base_component_list_item_t) {
    const mca_base_component_t *component = item->cli_component;
    if (strcmp(component->mca_component_name, own_name) == 0) continue;
    if (register_variables(component)) {
      if (rc == OPAL_SUCCESS) rc = opal_argv_append_nosize(&names, component->mca_component_name);
    } else {
      opal_list_remove_item(&framework->framework_components, &item->super);
      OBJ_RELEASE(item);
    }
  }
  char *selection = rc == OPAL_SUCCESS ? opal_argv_join(names, ',') : NULL;
  opal_argv_free(names);
  return selection;
}

bool gcm_asked_literally(void) {
  const char *wanted = ompi_coll_base_framework.framework_selection;
  return wanted != NULL && strcmp(wanted, mca_coll_gpucoll_component.collm_version.mca_component_name) == 0;
}

int gcm_widen_selection(void) {
  mca_base_framework_t *framework = &ompi_coll_base_framework;
  const char *own_name = mca_coll_gpucoll_component.collm_version.mca_component_name;
  if (gcm_abi->param_value("fallback") != kFallbackAuto) return OMPI_SUCCESS;

  add_static_components(framework);
  add_plugins(framework);
  char *selection = register_added(framework, own_name);
  if (selection == NULL) return OMPI_ERR_OUT_OF_RESOURCE;
  const int index = mca_base_var_find("ompi", "coll", NULL, NULL);
  const int rc = index < 0
                     ? index
                     : mca_base_var_set_value(index, selection, strlen(selection) + 1, MCA_BASE_VAR_SOURCE_SET, NULL);
  free(selection);
  if (rc == OPAL_SUCCESS) return OMPI_SUCCESS;
  gcm_abi->log(-1,
               "Open MPI does not let gpucoll add the other collective components to --mca coll gpucoll; leave the "
               "option out, or name them: --mca coll gpucoll,tuned,libnbc,basic,inter,self");
  return OMPI_ERROR;
}
