/* The examples with MPI share this. */
#ifndef GPUCOLL_EXAMPLE_MPI_H
#define GPUCOLL_EXAMPLE_MPI_H

#include <mpi.h>

#include "example.h"

/* Chooses the device before anything is allocated: the ranks of a node should have different ones. */
static inline void choose_device(void) {
  MPI_Comm node;
  int rank_on_node, devices;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank_on_node);
  MPI_Comm_free(&node);
  CHECK(gpucollDeviceCount(&devices));
  CHECK(gpucollSetDevice(rank_on_node % devices)); /* cudaSetDevice */
}

#endif
