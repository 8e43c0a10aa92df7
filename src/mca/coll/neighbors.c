/* Whom a rank exchanges with in MPI's neighbourhood collectives, and by which blocks of its buffers.
 *
 * Messages between the same two ranks match in the order of their lists. In graphs that is the order of the edges. In a
 * Cartesian grid block 2d belongs to the neighbour in the negative direction of dimension d and block 2d + 1 to the one
 * in the positive direction, and what is sent in one direction comes from the other: a rank sends the negative one
 * first and so receives the positive one first. It shows where both are the same rank, in periodic dimensions of size
 * 1 and 2.
 */
#include "base/mutant.h"
#include "mca/coll/plan.h"

bool gcm_make_neighbors(gcm_neighbors *list, int degree) {
  list->ranks = malloc(((size_t)degree + 1) * sizeof *list->ranks); /* never of no bytes, which may be NULL */
  list->blocks = malloc(((size_t)degree + 1) * sizeof *list->blocks);
  list->degree = degree;
  list->n = 0;
  return list->ranks != NULL && list->blocks != NULL;
}

static void append(gcm_neighbors *list, int rank, int block) {
  if (rank == MPI_PROC_NULL) return;
  list->ranks[list->n] = rank;
  list->blocks[list->n++] = block;
}

static void append_all(gcm_neighbors *list, const int *ranks, int n) {
  for (int i = 0; i < n; i++) append(list, ranks[i], i);
}

/* The rank so many places on in a dimension; `stride`: between the ranks of neighbours in it. */
static int shifted(const mca_topo_base_comm_cart_t *cart, int dimension, int stride, int rank, int places) {
  const int size = cart->dims[dimension], here = rank / stride % size;
  int there = here + places;
  if (there < 0 || there >= size) {
    if (!cart->periods[dimension]) return MPI_PROC_NULL;
    there = (there + size) % size;
  }
  return rank + (there - here) * stride;
}

static void list_grid(gcm_module *module, const mca_topo_base_comm_cart_t *cart, int rank) {
  int stride = 1;
  for (int d = 0; d < cart->ndims; d++) stride *= cart->dims[d];
  for (int d = 0; d < cart->ndims; d++) {
    stride /= cart->dims[d]; /* the last dimension's is 1 */
    const int negative = shifted(cart, d, stride, rank, -1), positive = shifted(cart, d, stride, rank, 1);
    append(&module->destinations, negative, 2 * d);
    append(&module->destinations, positive, 2 * d + 1);
    append(&module->sources, positive, 2 * d + 1);
    append(&module->sources, negative, 2 * d);
  }
}

static const int *graph_edges(const mca_topo_base_comm_graph_t *graph, int rank, int *n) {
  const int first = rank == 0 ? 0 : graph->index[rank - 1];
  *n = graph->index[rank] - first;
  return graph->edges + first;
}

static int degree(const ompi_communicator_t *comm, bool in) {
  const mca_topo_base_comm_cgd_union_t *topo = &comm->c_topo->mtc;
  int n = 0;
  if (OMPI_COMM_IS_CART(comm)) return 2 * topo->cart->ndims;
  if (OMPI_COMM_IS_DIST_GRAPH(comm)) return in ? topo->dist_graph->indegree : topo->dist_graph->outdegree;
  if (OMPI_COMM_IS_GRAPH(comm)) graph_edges(topo->graph, comm->c_my_rank, &n);
  return n;
}
int gcm_neighbors_in(const ompi_communicator_t *comm) { return comm->c_topo == NULL ? 0 : degree(comm, true); }
int gcm_neighbors_out(const ompi_communicator_t *comm) { return comm->c_topo == NULL ? 0 : degree(comm, false); }
bool gcm_has_edges(const ompi_communicator_t *comm) { return gcm_neighbors_in(comm) + gcm_neighbors_out(comm) > 0; }

uint64_t gcm_absent_neighbors(const ompi_communicator_t *comm) {
  if (comm->c_topo == NULL || !OMPI_COMM_IS_CART(comm) || gc_mutant(412)) return 0;
  const mca_topo_base_comm_cart_t *cart = comm->c_topo->mtc.cart;
  uint64_t absent = 0;
  int stride = 1;
  for (int d = cart->ndims - 1; d >= 0; stride *= cart->dims[d--]) {
    for (int side = 0; side < 2 && 2 * d + side < 64; side++) {
      const bool is_absent = shifted(cart, d, stride, comm->c_my_rank, 2 * side - 1) == MPI_PROC_NULL;
      absent |= (uint64_t)is_absent << (2 * d + side);
    }
  }
  return absent;
}

bool gcm_has_destinations(const ompi_communicator_t *comm) {
  const int n = gcm_neighbors_out(comm);
  if (gc_mutant(413)) return true;
  return n > 64 || (n > 0 && gcm_absent_neighbors(comm) != ~UINT64_C(0) >> (64 - n));
}

static void list_all(gcm_module *module) {
  const ompi_communicator_t *comm = module->communicator;
  if (comm->c_topo == NULL) return;
  const mca_topo_base_comm_cgd_union_t *topo = &comm->c_topo->mtc;
  if (OMPI_COMM_IS_CART(comm)) {
    list_grid(module, topo->cart, comm->c_my_rank);
  } else if (OMPI_COMM_IS_DIST_GRAPH(comm)) {
    append_all(&module->sources, topo->dist_graph->in, topo->dist_graph->indegree);
    append_all(&module->destinations, topo->dist_graph->out, topo->dist_graph->outdegree);
  } else if (OMPI_COMM_IS_GRAPH(comm)) {
    int n;
    const int *ranks = graph_edges(topo->graph, comm->c_my_rank, &n);
    append_all(&module->sources, ranks, n);
    append_all(&module->destinations, ranks, n);
  }
}

bool gcm_find_neighbors(gcm_module *module) {
  if (module->destinations.blocks != NULL) return true;
  gcm_forget_neighbors(module);
  if (!gcm_make_neighbors(&module->sources, gcm_neighbors_in(module->communicator)) ||
      !gcm_make_neighbors(&module->destinations, gcm_neighbors_out(module->communicator))) {
    gcm_forget_neighbors(module);
    return false;
  }
  list_all(module);
  return true;
}

void gcm_forget_neighbors(gcm_module *module) {
  gcm_neighbors *const lists[] = {&module->sources, &module->destinations};
  for (int i = 0; i < 2; i++) {
    free(lists[i]->ranks);
    free(lists[i]->blocks);
    *lists[i] = (gcm_neighbors){0};
  }
}
