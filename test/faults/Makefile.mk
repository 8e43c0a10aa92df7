# The fault driver and its workers: see faults.py.
EXTRA_DIST += test/faults/tests.cmake test/faults/faults.py
check_PROGRAMS += test/faults/api_worker test/faults/mpi_worker
test_faults_api_worker_SOURCES = test/faults/api_worker.cpp test/faults/worker.h
test_faults_api_worker_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_faults_api_worker_LDADD = libgpucoll.la
test_faults_mpi_worker_SOURCES = test/faults/mpi_worker.cpp test/faults/worker.h
test_faults_mpi_worker_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_faults_mpi_worker_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_faults_mpi_worker_LDADD = libgpucoll.la $(MPI_LIBS)
