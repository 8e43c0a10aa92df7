#include "mca/common/outer_requests.h"

#include <stdatomic.h>

#include "mca/coll/module.h"

static opal_mutex_t list_lock = OPAL_MUTEX_STATIC_INIT;
static gcm_outer_request *under_way;
static atomic_int n_under_way; /* as a look without the lock */
static bool progress_registered;

void gcm_outer_release(gcm_outer_request *r) {
  OMPI_REQUEST_FINI(&r->super.req_ompi);
  OBJ_RELEASE(r);
}

int gcm_wait(ompi_request_t **request, ompi_status_public_t *status) {
  const int rc = ompi_request_wait(request, status);
  if (*request != MPI_REQUEST_NULL) (void)ompi_request_free(request); /* Open MPI leaves it where it has failed */
  return rc;
}

void gcm_log_no_request(void) { gcm_abi->log(-1, "this rank has no memory left for a request"); }

/* ---- progress ---- */

static bool has_ended(gcm_outer_request *r) {
  int i = 0;
  while (i < GCM_MOST_INNER && (r->inner[i] == MPI_REQUEST_NULL || gcm_is_complete(r->inner[i]))) i++;
  return i == GCM_MOST_INNER || (r->is_lost != NULL && r->is_lost(r));
}

/* Returns the requests whose inner ones are complete, no longer in the list. */
static gcm_outer_request *take_ready(void) {
  gcm_outer_request *ready = NULL;
  opal_mutex_lock(&list_lock);
  for (gcm_outer_request **link = &under_way; *link != NULL;) {
    gcm_outer_request *r = *link;
    if (!has_ended(r)) {
      link = &r->next;
      continue;
    }
    *link = r->next;
    r->next = ready;
    ready = r;
    atomic_fetch_sub_explicit(&n_under_way, 1, memory_order_relaxed);
  }
  opal_mutex_unlock(&list_lock);
  return ready;
}

static void end(gcm_outer_request *r) {
  r->end(r);
  opal_mutex_lock(&list_lock);
  r->ended = true;
  const bool detached = r->detached;
  opal_mutex_unlock(&list_lock);
  if (detached) {
    gcm_outer_release(r);
  } else {
    gcm_complete(&r->super.req_ompi); /* from here on `r` may be gone */
  }
}

static int progress(void) {
  if (GCM_LIKELY(atomic_load_explicit(&n_under_way, memory_order_relaxed) == 0)) return 0;
  int ended = 0;
  for (gcm_outer_request *r = take_ready(), *next; r != NULL; r = next) {
    next = r->next;
    end(r);
    ended++;
  }
  return ended;
}

void gcm_outer_begun(gcm_outer_request *r) {
  opal_mutex_lock(&list_lock);
  if (!progress_registered) opal_progress_register(progress);
  progress_registered = true;
  r->next = under_way;
  under_way = r;
  atomic_fetch_add_explicit(&n_under_way, 1, memory_order_relaxed);
  opal_mutex_unlock(&list_lock);
}

int gcm_outer_follow(gcm_outer_request *ours, int rc, ompi_request_t **request) {
  if (rc != MPI_SUCCESS) {
    gcm_outer_release(ours);
    return rc;
  }
  ours->inner[0] = *request;
  *request = &ours->super.req_ompi;
  gcm_outer_begun(ours);
  return MPI_SUCCESS;
}

void gcm_stop_outer_requests(void) {
  if (progress_registered) opal_progress_unregister(progress);
  progress_registered = false;
  opal_mutex_lock(&list_lock);
  under_way = NULL; /* those that Open MPI never completes */
  atomic_store_explicit(&n_under_way, 0, memory_order_relaxed);
  opal_mutex_unlock(&list_lock);
}

/* ---- what MPI asks of a request ---- */

static int request_free(ompi_request_t **request) {
  gcm_outer_request *r = (gcm_outer_request *)*request;
  *request = MPI_REQUEST_NULL;
  opal_mutex_lock(&list_lock);
  const bool under_way_now = !r->ended;
  if (under_way_now) r->detached = true;
  opal_mutex_unlock(&list_lock);
  if (under_way_now) return OMPI_SUCCESS;
  gcm_await_completion(&r->super.req_ompi);
  gcm_outer_release(r);
  return OMPI_SUCCESS;
}

static void construct(gcm_outer_request *r) {
  ompi_request_t *outer = &r->super.req_ompi;
  outer->req_free = request_free;
  outer->req_cancel = NULL;
  outer->req_start = NULL;
  outer->req_status = ompi_status_empty;
  for (int i = 0; i < GCM_MOST_INNER; i++) r->inner[i] = MPI_REQUEST_NULL;
  r->end = NULL;
  r->is_lost = NULL;
  r->ended = r->detached = false;
}
OBJ_CLASS_INSTANCE(gcm_outer_request, mca_pml_base_request_t, construct, NULL);

void gcm_outer_init(gcm_outer_request *r, ompi_request_type_t type) {
  OMPI_REQUEST_INIT(&r->super.req_ompi, false);
  r->super.req_ompi.req_type = type;
  r->super.req_ompi.req_state = OMPI_REQUEST_ACTIVE;
}
