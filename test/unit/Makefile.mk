# Tests of label unit: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/unit/tests.cmake test/unit/kernel_subset.sh test/unit/parameters_document.sh \
	test/unit/documents.sh test/unit/parameters_tested.sh test/unit/rooms.sh test/unit/rooms.txt test/unit/tarball.sh

check_PROGRAMS += test/unit/base_test test/unit/core_test test/unit/bootstrap_test
test_unit_base_test_SOURCES = test/unit/base_test.cpp test/resources.h
test_unit_base_test_LDADD = $(GC_BASE_LIBS) $(GTEST_LIBS)
test_unit_core_test_SOURCES = test/unit/core_test.cpp
test_unit_core_test_LDADD = src/mpi/libmpi.la $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_bootstrap_test_SOURCES = test/unit/bootstrap_test.cpp test/resources.h
test_unit_bootstrap_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/unit/bootstrap_test_tsan
test_unit_bootstrap_test_tsan_SOURCES = test/unit/bootstrap_test.cpp test/resources.h src/net/bootstrap/door.cpp \
	src/net/bootstrap/gathering.cpp src/net/bootstrap/rendezvous.cpp src/net/bootstrap/socket.cpp \
	src/net/bootstrap/socket_bootstrap.cpp src/net/bootstrap/spare.cpp
test_unit_bootstrap_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_bootstrap_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_bootstrap_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif

check_PROGRAMS += test/unit/emu_graph_test test/unit/emu_memory_test test/unit/emu_share_test test/unit/emu_stream_test
test_unit_emu_graph_test_SOURCES = test/unit/emu_graph_test.cpp test/unit/emu_kernels.h
test_unit_emu_graph_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
test_unit_emu_memory_test_SOURCES = test/unit/emu_memory_test.cpp
test_unit_emu_memory_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
test_unit_emu_share_test_SOURCES = test/unit/emu_share_test.cpp
test_unit_emu_share_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
test_unit_emu_stream_test_SOURCES = test/unit/emu_stream_test.cpp test/unit/emu_kernels.h
test_unit_emu_stream_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/emu_blocks_test
test_unit_emu_blocks_test_SOURCES = test/unit/emu_blocks_test.cpp test/unit/emu_kernels.h
test_unit_emu_blocks_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/unit/emu_graph_test_tsan test/unit/emu_memory_test_tsan test/unit/emu_share_test_tsan \
	test/unit/emu_stream_test_tsan
test_unit_emu_graph_test_tsan_SOURCES = test/unit/emu_graph_test.cpp
test_unit_emu_graph_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_emu_graph_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_emu_graph_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
test_unit_emu_memory_test_tsan_SOURCES = test/unit/emu_memory_test.cpp
test_unit_emu_memory_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_emu_memory_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_emu_memory_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
test_unit_emu_share_test_tsan_SOURCES = test/unit/emu_share_test.cpp
test_unit_emu_share_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_emu_share_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_emu_share_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
test_unit_emu_stream_test_tsan_SOURCES = test/unit/emu_stream_test.cpp
test_unit_emu_stream_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_emu_stream_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_emu_stream_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif

check_PROGRAMS += test/unit/tuner_test test/unit/tuning_file_test
test_unit_tuner_test_SOURCES = test/unit/tuner_test.cpp
test_unit_tuner_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_tuning_file_test_SOURCES = test/unit/tuning_file_test.cpp
test_unit_tuning_file_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/mailbox_test test/unit/links_test
test_unit_mailbox_test_SOURCES = test/unit/mailbox_test.cpp test/unit/wireup_ranks.h
test_unit_mailbox_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_links_test_SOURCES = test/unit/links_test.cpp test/unit/wireup_ranks.h
test_unit_links_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/peers_test
test_unit_peers_test_SOURCES = test/unit/peers_test.cpp test/unit/wireup_ranks.h
test_unit_peers_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/device_link_test
test_unit_device_link_test_SOURCES = test/unit/device_link_test.cpp test/unit/forwarding_device.h \
	test/unit/wireup_ranks.h
test_unit_device_link_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/pipelined_copy_test
test_unit_pipelined_copy_test_SOURCES = test/unit/pipelined_copy_test.cpp
test_unit_pipelined_copy_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/scratch_test
test_unit_scratch_test_SOURCES = test/unit/scratch_test.cpp test/unit/forwarding_device.h test/unit/in_flight.h
test_unit_scratch_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/operands_test
test_unit_operands_test_SOURCES = test/unit/operands_test.cpp
test_unit_operands_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/merged_call_test
test_unit_merged_call_test_SOURCES = test/unit/merged_call_test.cpp
test_unit_merged_call_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/request_test
test_unit_request_test_SOURCES = test/unit/request_test.cpp
test_unit_request_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/call_matcher_test
test_unit_call_matcher_test_SOURCES = test/unit/call_matcher_test.cpp
test_unit_call_matcher_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/mpi_runtime_test
test_unit_mpi_runtime_test_SOURCES = test/unit/mpi_runtime_test.cpp
test_unit_mpi_runtime_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/progress_thread_test
test_unit_progress_thread_test_SOURCES = test/unit/progress_thread_test.cpp
test_unit_progress_thread_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/registration_test
test_unit_registration_test_SOURCES = test/unit/registration_test.cpp test/resources.h
test_unit_registration_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/gpu_platform_test
test_unit_gpu_platform_test_SOURCES = test/unit/gpu_platform_test.cpp
test_unit_gpu_platform_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
if HAVE_CUDA
check_PROGRAMS += test/unit/gpu_cuda_test
test_unit_gpu_cuda_test_SOURCES = test/unit/gpu_cuda_test.cpp
test_unit_gpu_cuda_test_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_unit_gpu_cuda_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
else
EXTRA_DIST += test/unit/gpu_cuda_test.cpp
endif

check_PROGRAMS += test/unit/planner_test
test_unit_planner_test_SOURCES = test/unit/planner_test.cpp test/unit/plan_walk.h
test_unit_planner_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/copy_engine_reduction_test
test_unit_copy_engine_reduction_test_SOURCES = test/unit/copy_engine_reduction_test.cpp
test_unit_copy_engine_reduction_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/copy_reduction_test
test_unit_copy_reduction_test_SOURCES = test/unit/copy_reduction_test.cpp test/unit/forwarding_device.h test/unit/wireup_ranks.h
test_unit_copy_reduction_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/copy_messages_test
test_unit_copy_messages_test_SOURCES = test/unit/copy_messages_test.cpp test/unit/forwarding_device.h test/unit/wireup_ranks.h
test_unit_copy_messages_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/reclaim_test
test_unit_reclaim_test_SOURCES = test/unit/reclaim_test.cpp test/unit/wireup_ranks.h test/unit/in_flight.h
test_unit_reclaim_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/quiescence_test
test_unit_quiescence_test_SOURCES = test/unit/quiescence_test.cpp test/unit/in_flight.h
test_unit_quiescence_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/send_order_test
test_unit_send_order_test_SOURCES = test/unit/send_order_test.cpp
test_unit_send_order_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/resident_kernel_test
test_unit_resident_kernel_test_SOURCES = test/unit/resident_kernel_test.cpp
test_unit_resident_kernel_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/work_fifo_test test/unit/launcher_test
test_unit_work_fifo_test_SOURCES = test/unit/work_fifo_test.cpp
test_unit_work_fifo_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_launcher_test_SOURCES = test/unit/launcher_test.cpp test/unit/plan_cache_test.cpp \
	test/unit/launcher_fixture.h test/unit/forwarding_device.h test/unit/in_flight.h
test_unit_launcher_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/unit/launcher_test_tsan
test_unit_launcher_test_tsan_SOURCES = test/unit/launcher_test.cpp test/unit/plan_cache_test.cpp \
	test/unit/launcher_fixture.h test/unit/forwarding_device.h test/unit/in_flight.h \
	src/core/plan/algorithm_choice.cpp src/core/plan/copy_engine_reduction.cpp src/core/peer/fault.cpp src/core/launch/graph_memory.cpp \
	src/core/launch/graph_users.cpp src/core/launch/plan_cache.cpp src/core/launch/launcher.cpp src/core/launch/resident_kernel.cpp \
	src/core/plan/plan_builder.cpp src/core/plan/planner.cpp src/core/plan/tuner.cpp src/core/plan/tuning_file.cpp src/core/launch/work_fifo.cpp
test_unit_launcher_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_launcher_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_launcher_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif
