# Tests of label nccl: programs that were written for NCCL. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/nccl/tests.cmake test/nccl/exports.sh test/nccl/symbols.def

check_PROGRAMS += test/nccl/abi_test test/nccl/program_test
test_nccl_abi_test_SOURCES = test/nccl/abi_test.cpp
test_nccl_abi_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_nccl_abi_test_LDADD = -lgtest -ldl
test_nccl_program_test_SOURCES = test/nccl/program_test.cpp test/nccl/elements.h test/resources.h
test_nccl_program_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_nccl_program_test_LDADD = src/nccl/libnccl.la libgpucoll.la $(GTEST_LIBS)
