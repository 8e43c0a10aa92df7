/* Every parameter of the engine's table as an MCA variable coll_gpucoll_<name>.
 *
 * All are strings, as the engine alone knows their ranges and suffixes (64M). The default is today's value, so that
 * ompi_info shows what GPUCOLL_<NAME> in the environment has set; a value given through MCA wins over that.
 */
#include <ctype.h>
#include <stdio.h>

#include "mca/coll/module.h"

enum { kMostParameters = 64, kMostOldNames = 16 };

/* Hold the values that the variables point to. Open MPI replaces and frees the strings that it sets itself. */
static char *values[kMostParameters];
static char *old_values[kMostOldNames];
static char defaults[kMostParameters][sizeof(((gc_param *)0)->value)];

/* The engine has read it already, but tells of a bad value only when it starts: too late to refuse a selection. */
static const char *from_environment(const char *name) {
  char variable[64];
  size_t length = (size_t)snprintf(variable, sizeof variable, "GPUCOLL_%s", name);
  for (size_t i = 0; i < length && i < sizeof variable; i++) variable[i] = (char)toupper((unsigned char)variable[i]);
  return getenv(variable);
}

/* Returns the middle one of Open MPI's three levels for this kind of reader. */
static mca_base_var_info_lvl_t info_level(int level) {
  if (level == GC_LEVEL_USER) return OPAL_INFO_LVL_2;
  return level == GC_LEVEL_TUNING ? OPAL_INFO_LVL_5 : OPAL_INFO_LVL_8;
}

/* Sets a parameter to what the user has set the variable `index` to, if anything. */
static int take(int index, const char *name, const char *value) {
  mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
  if (index < 0) return OMPI_ERROR;
  if (mca_base_var_get_value(index, NULL, &source, NULL) != OPAL_SUCCESS) return OMPI_ERROR;
  const char *text = source == MCA_BASE_VAR_SOURCE_DEFAULT ? from_environment(name) : value != NULL ? value : "";
  if (text == NULL) return OMPI_SUCCESS;
  return gcm_abi->set_param(name, text) == MPI_SUCCESS ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
}

static int register_one(size_t i, const gc_param *param) {
  memcpy(defaults[i], param->value, sizeof defaults[i]);
  values[i] = defaults[i];
  const int index = mca_base_component_var_register(&mca_coll_gpucoll_component.collm_version, param->name, param->help,
                                                    MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, info_level(param->level),
                                                    MCA_BASE_VAR_SCOPE_READONLY, &values[i]);
  return take(index, param->name, values[i]);
}

/* Registers a name that a parameter no longer has, hidden from ompi_info, so that setting it is an error. */
static int refuse_old_name(size_t i, const char *name) {
  const int index = mca_base_component_var_register(&mca_coll_gpucoll_component.collm_version, name, "No longer used",
                                                    MCA_BASE_VAR_TYPE_STRING, NULL, 0, MCA_BASE_VAR_FLAG_INTERNAL,
                                                    OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY, &old_values[i]);
  return take(index, name, old_values[i]);
}

int gcm_register_parameters(void) {
  gc_param param;
  const char *name;
  int first_error = OMPI_SUCCESS;
  for (size_t i = 0; i < kMostParameters && gcm_abi->param(i, &param); i++) {
    const int rc = register_one(i, &param); /* all of them, so that one run shows every bad value */
    if (first_error == OMPI_SUCCESS) first_error = rc;
  }
  for (size_t i = 0; i < kMostOldNames && gcm_abi->old_param(i, &name); i++) {
    const int rc = refuse_old_name(i, name);
    if (first_error == OMPI_SUCCESS) first_error = rc;
  }
  return first_error;
}
