/* gpucoll: MPI's collectives and messages, ordered by streams. Link libgpucoll-mpi (pkg-config gpucoll-mpi).
 *
 * gpucollMPIX does what MPI_X does, but takes a stream after the communicator and returns at once, as the functions of
 * gpucoll.h do: it runs when what was put into the stream before is done, and what is put there later finds its result.
 * (The first calls that need a connection between two ranks wait on the host until both ranks have come.)
 * So a program never waits for a stream in order to communicate, and may capture all of it into a graph. MPICH's
 * MPIX_X_enqueue are alike.
 *
 * Buffers are device memory of the communicator's device. Counts are MPI's. Types are MPI's predefined ones and derived
 * ones whose elements have no gaps and lie in memory in the order of their typemap. Reductions take the predefined
 * operations, and types whose elements are all of one predefined type that has the operation. On each communicator the
 * ranks call the collectives in one order, with equal signatures, as in MPI. Not so as in MPI:
 * - Messages have no tags. Between two ranks of a communicator the i-th send matches the i-th receive. There is no
 *   MPI_ANY_SOURCE, and a receive must be as long as its send.
 * - Sends and receives that wait for each other belong into one call of gpucollMPISendrecv, or between
 * gpucollGroupStart and gpucollGroupEnd. All these functions may be called in groups, as those of gpucoll.h.
 * - Intercommunicators, operations that programs make, and types with gaps are refused: call MPI's own function, after
 *   gpucollStreamSynchronize.
 *
 * They return gpucollSuccess or an error of gpucoll's; gpucollGetLastError(NULL) gives its sentence. Errors that come
 * later are the communicator's: gpucollCommGetAsyncError of gpucollCommFromMPI's. The error handler of the MPI
 * communicator is called for errors of MPI's own only.
 *
 * Thread safety: different communicators may be used by different threads at once, where MPI was initialised with
 * MPI_THREAD_MULTIPLE; one communicator by one thread at a time.
 */
#ifndef GPUCOLL_MPI_H
#define GPUCOLL_MPI_H

#include <mpi.h>

#include "gpucoll/gpucoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the communicator of the C API that belongs to an intracommunicator of MPI: the same ranks in the same order, on
 * the device that the calling thread had chosen when it was made. It needs neither an id nor sockets to meet: its ranks
 * meet by MPI. The first call is collective over `mpi`, and makes it; later ones are local. It is kept with `mpi`:
 * MPI_Comm_free of `mpi`, or else MPI_Finalize, destroys it; gpucollCommDestroy and gpucollCommAbort refuse it (to end
 * what is under way, there is gpucollCommRevoke). Duplicates of `mpi` do not have it. MPI_Comm_free waits for its
 * operations, as gpucollCommDestroy does. A program need not call this before collectives: the first one of a
 * communicator makes it as well, and is then collective in the sense that it waits for the other ranks. It must do so
 * before messages, which are not collective, and before a group, in which nothing can be made. All ranks must have
 * called MPI_Init, and none MPI_Finalize. A rank that waits longer than the parameter timeout gives up. The ranks of
 * `mpi` are out of step then, also in MPI's own nonblocking collectives and MPI_Comm_dup: further calls on `mpi` fail
 * with gpucollInvalidUsage, and a communicator that MPI_Comm_create_group makes of its group works. While a group is
 * open, MPI_Comm_free of a communicator that has one fails: MPI_ERR_OTHER, and the group fails. */
GPUCOLL_API gpucollResult_t gpucollCommFromMPI(MPI_Comm mpi, gpucollComm_t *comm);

/* Do what MPI_Barrier and MPI_Bcast do. What is put into the stream after a barrier runs once all ranks' streams have
 * come to it. */
GPUCOLL_API gpucollResult_t gpucollMPIBarrier(MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIBcast(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                                            MPI_Comm comm, gpucollStream_t stream);

/* sendbuf may be MPI_IN_PLACE where MPI allows it (of gpucollMPIReduce, at the root). In place,
 * gpucollMPIReduce_scatter_block and gpucollMPIReduce_scatter also write to the part of recvbuf in which the input of
 * this rank's result was, must not be called in a group, and the latter must have room for each rank's result before
 * the part of that rank. */
GPUCOLL_API gpucollResult_t gpucollMPIAllreduce(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIReduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                                             MPI_Op op, int root, MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIReduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                                           MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                           gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIReduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                     gpucollStream_t stream);

/* sendbuf (of scatters, recvbuf at the root) may be MPI_IN_PLACE where MPI allows it, but not of gpucollMPIAlltoallv.
 * The functions do not look at arguments that are not significant on a rank. They read arrays of counts and
 * displacements before they return. */
GPUCOLL_API gpucollResult_t gpucollMPIAllgather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIAllgatherv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                 void *recvbuf, const int recvcounts[], const int displs[],
                                                 MPI_Datatype recvtype, MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIGather(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                             void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                             MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIGatherv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                              void *recvbuf, const int recvcounts[], const int displs[],
                                              MPI_Datatype recvtype, int root, MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIScatter(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                              void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                              MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIScatterv(const void *sendbuf, const int sendcounts[], const int displs[],
                                               MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,
                                               MPI_Datatype recvtype, int root, MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIAlltoall(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                               void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                               gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIAlltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                                MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                                                const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                                                gpucollStream_t stream);

/* Messages to and from MPI_PROC_NULL do nothing. */
GPUCOLL_API gpucollResult_t gpucollMPISend(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest,
                                           MPI_Comm comm, gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPIRecv(void *buf, MPI_Count count, MPI_Datatype datatype, int source, MPI_Comm comm,
                                           gpucollStream_t stream);
GPUCOLL_API gpucollResult_t gpucollMPISendrecv(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                               int dest, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                               int source, MPI_Comm comm, gpucollStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
