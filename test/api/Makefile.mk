# Tests of label api: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/api/tests.cmake

GC_API_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/api
GC_I32_CPPFLAGS = -DGC_KERNEL_SUBSET -DGC_KERNEL_SHARD_i32
check_PROGRAMS += test/api/all_reduce_test test/api/bad_input_test test/api/processes_test
test_api_all_reduce_test_SOURCES = test/api/all_reduce_test.cpp test/api/ranks.h
test_api_all_reduce_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_all_reduce_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_all_reduce_test_LDADD = libgpucoll.la $(GTEST_LIBS)
test_api_bad_input_test_SOURCES = test/api/bad_input_test.cpp test/api/ranks.h
test_api_bad_input_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_bad_input_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_bad_input_test_LDADD = libgpucoll.la $(GTEST_LIBS)
test_api_processes_test_SOURCES = test/api/processes_test.cpp test/api/ranks.h
test_api_processes_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_processes_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_processes_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/fork_test
test_api_fork_test_SOURCES = test/api/fork_test.cpp test/resources.h
test_api_fork_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_fork_test_LDADD = libgpucoll.la
check_PROGRAMS += test/api/configuration_test
test_api_configuration_test_SOURCES = test/api/configuration_test.cpp test/api/ranks.h
test_api_configuration_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_configuration_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_configuration_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/disagree_test
test_api_disagree_test_SOURCES = test/api/disagree_test.cpp test/api/ranks.h
test_api_disagree_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_disagree_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_disagree_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/graph_fault_test
test_api_graph_fault_test_SOURCES = test/api/graph_fault_test.cpp test/api/process_ranks.h test/api/ranks.h
test_api_graph_fault_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_graph_fault_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_graph_fault_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/repeat_test
test_api_repeat_test_SOURCES = test/api/repeat_test.cpp test/api/ranks.h
test_api_repeat_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_repeat_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_repeat_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/in_place_test
test_api_in_place_test_SOURCES = test/api/in_place_test.cpp test/api/ranks.h
test_api_in_place_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_in_place_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_in_place_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/meeting_test
test_api_meeting_test_SOURCES = test/api/meeting_test.cpp test/resources.h
test_api_meeting_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_meeting_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_meeting_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/comm_test
test_api_comm_test_SOURCES = test/api/comm_test.cpp test/api/ranks.h
test_api_comm_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_comm_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_comm_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/communicators_of_mpi_test
test_api_communicators_of_mpi_test_SOURCES = test/api/communicators_of_mpi_test.cpp
test_api_communicators_of_mpi_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_communicators_of_mpi_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_communicators_of_mpi_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/share_test
test_api_share_test_SOURCES = test/api/share_test.cpp test/api/ranks.h
test_api_share_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_share_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_share_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/differential_test
GC_CASE_SOURCES = test/api/case_memory.cpp test/api/case_rank.cpp test/api/case_rank.h test/api/case_run.cpp \
	test/api/case_run.h test/api/random_case.cpp test/api/random_case.h test/api/reference.cpp test/api/reference.h
# What there is to reduce (but with ThreadSanitizer, below).
GC_KERNEL_SUBSET_OBJECTS += test/api/collectives_test-reference.o test/api/differential_test-reference.o
test_api_differential_test_SOURCES = test/api/differential_test.cpp $(GC_CASE_SOURCES)
test_api_differential_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_differential_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_differential_test_LDADD = libgpucoll.la $(GTEST_LIBS)
# The C API with ThreadSanitizer: all that is below it once more, with kernels that move and those of 32 bits.
if TSAN_VARIANTS
check_LIBRARIES += test/api/libapi_tsan.a
test_api_libapi_tsan_a_SOURCES = $(GC_GPU_SOURCES) $(GC_TOPO_SOURCES) $(GC_NET_SOURCES) $(GC_CORE_SOURCES) \
	src/api/api.cpp src/api/api_comm.cpp src/api/api_device.cpp src/api/api_exchanges.cpp \
	src/api/api_operations.cpp src/task/buffer_check.cpp src/task/collective_task.cpp src/api/exchange.cpp \
	src/kernels/kernels.cpp src/kernels/shards/kernels_i32.cpp src/kernels/shards/kernels_move.cpp src/task/reduction_op.cpp \
	src/api/registrations.cpp src/task/types.cpp
test_api_libapi_tsan_a_CPPFLAGS = $(AM_CPPFLAGS) $(GC_I32_CPPFLAGS)
test_api_libapi_tsan_a_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
check_PROGRAMS += test/api/differential_test_tsan
test_api_differential_test_tsan_SOURCES = $(test_api_differential_test_SOURCES)
test_api_differential_test_tsan_CPPFLAGS = $(GC_API_TEST_CPPFLAGS) $(GC_I32_CPPFLAGS)
test_api_differential_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_api_differential_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_api_differential_test_tsan_LDADD = test/api/libapi_tsan.a $(GC_TSAN_LIBS) $(HWLOC_LIBS) $(GTEST_LIBS)
endif
check_PROGRAMS += test/api/group_test
test_api_group_test_SOURCES = test/api/group_test.cpp test/api/ranks.h
test_api_group_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_group_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_group_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/collectives_test test/api/send_recv_test
test_api_collectives_test_SOURCES = test/api/collectives_test.cpp test/api/ranks.h $(GC_CASE_SOURCES)
test_api_collectives_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_collectives_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_collectives_test_LDADD = libgpucoll.la $(GTEST_LIBS)
test_api_send_recv_test_SOURCES = test/api/send_recv_test.cpp test/api/ranks.h
test_api_send_recv_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_send_recv_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_send_recv_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/copy_test test/api/copy_processes_test
test_api_copy_test_SOURCES = test/api/copy_test.cpp test/api/copies.h test/api/ranks.h
test_api_copy_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_copy_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_copy_test_LDADD = libgpucoll.la $(GTEST_LIBS)
test_api_copy_processes_test_SOURCES = test/api/copy_processes_test.cpp test/api/copies.h test/api/process_ranks.h \
	test/api/ranks.h
test_api_copy_processes_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_copy_processes_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_copy_processes_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/copy_reduction_test
test_api_copy_reduction_test_SOURCES = test/api/copy_reduction_test.cpp test/api/copies.h test/api/ranks.h
test_api_copy_reduction_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_copy_reduction_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_copy_reduction_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/leak_processes_test
test_api_leak_processes_test_SOURCES = test/api/leak_processes_test.cpp test/api/process_ranks.h test/api/ranks.h \
	test/resources.h
test_api_leak_processes_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_leak_processes_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_leak_processes_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/zero_copy_processes_test
test_api_zero_copy_processes_test_SOURCES = test/api/zero_copy_processes_test.cpp test/api/process_ranks.h \
	test/api/ranks.h
test_api_zero_copy_processes_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_zero_copy_processes_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_zero_copy_processes_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/direct_processes_test
test_api_direct_processes_test_SOURCES = test/api/direct_processes_test.cpp test/api/process_ranks.h test/api/ranks.h
test_api_direct_processes_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_direct_processes_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_direct_processes_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/register_test
test_api_register_test_SOURCES = test/api/register_test.cpp test/api/copies.h test/api/ranks.h
test_api_register_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_register_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_register_test_LDADD = libgpucoll.la $(GTEST_LIBS)
