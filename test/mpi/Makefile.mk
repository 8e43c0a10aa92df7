# Tests of label mpi: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/mpi/tests.cmake test/mpi/bad_parameter.sh test/mpi/faults.sh test/mpi/nodes.sh test/mpi/openmpi5.sh

check_PROGRAMS += test/mpi/alone
test_mpi_alone_SOURCES = test/mpi/alone.cpp test/mpi/call_form.h test/mpi/mpi_test.h
test_mpi_alone_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_alone_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_alone_LDADD = libgpucoll.la $(MPI_LIBS)
check_PROGRAMS += test/mpi/memory
test_mpi_memory_SOURCES = test/mpi/memory.cpp test/mpi/call_form.h test/mpi/mpi_test.h
test_mpi_memory_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_memory_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_memory_LDADD = libgpucoll.la $(MPI_LIBS)
check_PROGRAMS += test/mpi/nodes
test_mpi_nodes_SOURCES = test/mpi/nodes.cpp test/mpi/call_form.h test/mpi/mpi_test.h
test_mpi_nodes_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_nodes_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_nodes_LDADD = libgpucoll.la $(MPI_LIBS)
check_PROGRAMS += test/mpi/derived
test_mpi_derived_SOURCES = test/mpi/derived.cpp test/mpi/mpi_test.h
test_mpi_derived_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_derived_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_derived_LDADD = libgpucoll.la $(MPI_LIBS)

check_PROGRAMS += test/mpi/host test/mpi/allreduce test/mpi/close_calls test/mpi/collectives test/mpi/staged test/mpi/mixed test/mpi/threads \
	test/mpi/spawn test/mpi/finalize test/mpi/faults test/mpi/neighbors test/mpi/generated \
	test/mpi/intercommunicators \
	test/mpi/stress
test_mpi_intercommunicators_SOURCES = test/mpi/intercommunicators.cpp test/mpi/call_form.h test/mpi/mpi_test.h
test_mpi_intercommunicators_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_intercommunicators_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_intercommunicators_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_neighbors_SOURCES = test/mpi/neighbors.cpp test/mpi/call_form.h test/mpi/mpi_test.h
test_mpi_neighbors_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_neighbors_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_neighbors_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_host_SOURCES = test/mpi/host.cpp test/mpi/mpi_test.h
test_mpi_host_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_host_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_host_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_allreduce_SOURCES = test/mpi/allreduce.cpp test/mpi/mpi_test.h
test_mpi_allreduce_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_allreduce_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_allreduce_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_collectives_SOURCES = test/mpi/collectives.cpp test/mpi/mpi_test.h
test_mpi_collectives_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_collectives_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_collectives_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_staged_SOURCES = test/mpi/staged.cpp test/mpi/staged_addresses.h test/mpi/staged_calls.h \
	test/mpi/staged_case.h test/mpi/mpi_test.h
test_mpi_staged_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_staged_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_staged_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_close_calls_SOURCES = test/mpi/close_calls.cpp test/mpi/mpi_test.h
test_mpi_close_calls_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_close_calls_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_close_calls_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_mixed_SOURCES = test/mpi/mixed.cpp test/mpi/mpi_test.h
test_mpi_mixed_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_mixed_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_mixed_LDADD = libgpucoll.la $(MPI_LIBS)
check_PROGRAMS += test/mpi/persistent
test_mpi_persistent_SOURCES = test/mpi/persistent.cpp test/mpi/mpi_test.h
test_mpi_persistent_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_persistent_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_persistent_LDADD = libgpucoll.la $(MPI_LIBS)
check_PROGRAMS += test/mpi/nonblocking
test_mpi_nonblocking_SOURCES = test/mpi/nonblocking.cpp test/mpi/mpi_test.h
test_mpi_nonblocking_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_nonblocking_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_nonblocking_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_threads_SOURCES = test/mpi/threads.cpp test/mpi/mpi_test.h
test_mpi_threads_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_threads_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_threads_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_spawn_SOURCES = test/mpi/spawn.cpp test/mpi/mpi_test.h
test_mpi_spawn_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_spawn_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_spawn_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_finalize_SOURCES = test/mpi/finalize.cpp test/mpi/mpi_test.h
test_mpi_finalize_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_finalize_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_finalize_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_faults_SOURCES = test/mpi/faults.cpp test/mpi/mpi_test.h
test_mpi_faults_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_faults_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_faults_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_generated_SOURCES = test/mpi/generated.cpp test/mpi/generated_case.h test/mpi/generated_groups.h \
	test/mpi/generated_layouts.h test/mpi/generated_move_calls.h test/mpi/generated_moves.h \
	test/mpi/generated_operations.h test/mpi/generated_reductions.h test/mpi/generated_types.h test/mpi/mpi_test.h
test_mpi_generated_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_generated_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_generated_LDADD = libgpucoll.la $(MPI_LIBS)
test_mpi_stress_SOURCES = test/mpi/stress.cpp test/mpi/mpi_test.h
test_mpi_stress_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_stress_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_mpi_stress_LDADD = libgpucoll.la $(MPI_LIBS)
