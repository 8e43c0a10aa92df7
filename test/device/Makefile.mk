# Tests of label device (they need a GPU): programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/device/tests.cmake test/device/run test/device/bench_primitives.cu test/device/facts.cu \
	test/device/digest.cpp test/device/torch_check.py

check_PROGRAMS += test/device/bench_types
test_device_bench_types_SOURCES = test/device/bench_types.cpp test/mpi/mpi_test.h
test_device_bench_types_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_device_bench_types_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_device_bench_types_LDADD = libgpucoll.la $(MPI_LIBS)
