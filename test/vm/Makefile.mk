# Tests of label vm: a virtual machine with RDMA devices.
check_PROGRAMS += test/vm/functions
test_vm_functions_SOURCES = test/vm/functions.cpp
test_vm_functions_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_vm_functions_LDADD = libgpucoll.la
EXTRA_DIST += test/vm/faults.sh test/vm/functions.sh test/vm/rails.sh test/vm/failover.sh test/vm/mpi.sh test/vm/run test/vm/tests.cmake \
	test/vm/guest/fabric test/vm/guest/init test/vm/guest/layout test/vm/guest/main test/vm/guest/onhost test/vm/guest/vm-rsh
