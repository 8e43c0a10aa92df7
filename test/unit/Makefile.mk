# Tests of label unit: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/unit/tests.cmake test/unit/causes_tested.sh test/unit/kernel_subset.sh test/unit/parameters_document.sh \
	test/unit/documents.sh test/unit/over_ipv6.sh test/unit/parameters_tested.sh test/unit/rooms.sh test/unit/rooms.txt test/unit/tarball.sh \
	test/unit/troubleshooting.py

check_PROGRAMS += test/unit/base/base_test test/unit/core/core_test test/unit/net/bootstrap_test
test_unit_base_base_test_SOURCES = test/unit/base/base_test.cpp test/resources.h
test_unit_base_base_test_LDADD = $(GC_BASE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/base/trace_test
test_unit_base_trace_test_SOURCES = test/unit/base/trace_test.cpp
test_unit_base_trace_test_LDADD = $(GC_BASE_LIBS) $(GTEST_LIBS)
test_unit_core_core_test_SOURCES = test/unit/core/core_test.cpp
test_unit_core_core_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_net_bootstrap_test_SOURCES = test/unit/net/bootstrap_test.cpp test/resources.h test/unit/net/silent_port.h
test_unit_net_bootstrap_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/address_test
test_unit_net_address_test_SOURCES = test/unit/net/address_test.cpp
test_unit_net_address_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/mesh_lines_test
GC_MESH_LINES_TEST_SOURCES = test/unit/net/mesh_lines_test.cpp test/proto/mesh_program.h test/proto/plan_runner.h \
	test/proto/world.h test/proto/thread_block.h
test_unit_net_mesh_lines_test_SOURCES = $(GC_MESH_LINES_TEST_SOURCES)
test_unit_net_mesh_lines_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/tcp_test
test_unit_net_tcp_test_SOURCES = test/unit/net/tcp_test.cpp test/resources.h test/unit/net/link_kernels.h
test_unit_net_tcp_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
if HAVE_VERBS
# The tests open this library by dlopen, in the place of libibverbs.
GC_FAKE_VERBS_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += test/unit/net/fake_verbs.la
test_unit_net_fake_verbs_la_SOURCES = test/unit/net/fake_verbs.cpp test/unit/net/fake_verbs.h
test_unit_net_fake_verbs_la_LDFLAGS = $(GC_FAKE_VERBS_LDFLAGS)
check_PROGRAMS += test/unit/net/verbs_test
test_unit_net_verbs_test_SOURCES = test/unit/net/verbs_test.cpp test/unit/net/link_kernels.h
test_unit_net_verbs_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/verbs_devices_test
test_unit_net_verbs_devices_test_SOURCES = test/unit/net/verbs_devices_test.cpp test/unit/net/link_kernels.h
test_unit_net_verbs_devices_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/verbs_failover_test
test_unit_net_verbs_failover_test_SOURCES = test/unit/net/verbs_failover_test.cpp test/unit/net/link_kernels.h
test_unit_net_verbs_failover_test_LDADD = $(GC_NET_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_LTLIBRARIES += test/unit/net/fake_verbs_tsan.la
test_unit_net_fake_verbs_tsan_la_SOURCES = test/unit/net/fake_verbs.cpp
test_unit_net_fake_verbs_tsan_la_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_net_fake_verbs_tsan_la_LDFLAGS = $(GC_FAKE_VERBS_LDFLAGS) -fsanitize=thread
check_PROGRAMS += test/unit/net/verbs_test_tsan
test_unit_net_verbs_test_tsan_SOURCES = test/unit/net/verbs_test.cpp src/net/step_lanes.cpp src/topo/pci.cpp $(GC_VERBS_SOURCES)
test_unit_net_verbs_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_net_verbs_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_net_verbs_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/verbs_failover_test_tsan
test_unit_net_verbs_failover_test_tsan_SOURCES = test/unit/net/verbs_failover_test.cpp src/net/step_lanes.cpp src/topo/pci.cpp $(GC_VERBS_SOURCES)
test_unit_net_verbs_failover_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_net_verbs_failover_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_net_verbs_failover_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif
endif
if TSAN_VARIANTS
check_PROGRAMS += test/unit/net/mesh_lines_test_tsan
test_unit_net_mesh_lines_test_tsan_SOURCES = $(GC_MESH_LINES_TEST_SOURCES) src/net/mesh_lines.cpp
test_unit_net_mesh_lines_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_net_mesh_lines_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_net_mesh_lines_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/tcp_test_tsan
test_unit_net_tcp_test_tsan_SOURCES = test/unit/net/tcp_test.cpp src/net/bootstrap/address.cpp src/net/bootstrap/dialed_connection.cpp \
	src/net/bootstrap/door.cpp \
	src/net/bootstrap/interfaces.cpp src/net/bootstrap/socket.cpp \
	src/net/bootstrap/spare.cpp src/net/tcp/channel.cpp src/net/tcp/endpoint.cpp src/net/step_lanes.cpp \
	src/net/mesh_lines.cpp src/net/tcp/step_stream.cpp src/net/tcp/tcp.cpp src/net/tcp/tcp_end.cpp
test_unit_net_tcp_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_net_tcp_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_net_tcp_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/net/bootstrap_test_tsan
test_unit_net_bootstrap_test_tsan_SOURCES = test/unit/net/bootstrap_test.cpp test/resources.h test/unit/net/silent_port.h src/net/bootstrap/address.cpp src/net/bootstrap/dialed_connection.cpp \
	src/net/bootstrap/door.cpp \
	src/net/bootstrap/gathering.cpp src/net/bootstrap/interfaces.cpp src/net/bootstrap/rendezvous.cpp src/net/bootstrap/socket.cpp \
	src/net/bootstrap/socket_bootstrap.cpp src/net/bootstrap/spare.cpp
test_unit_net_bootstrap_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_net_bootstrap_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_net_bootstrap_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif

check_PROGRAMS += test/unit/gpu/emu_graph_test test/unit/gpu/emu_memory_test test/unit/gpu/emu_share_test test/unit/gpu/emu_stream_test
test_unit_gpu_emu_graph_test_SOURCES = test/unit/gpu/emu_graph_test.cpp test/unit/gpu/emu_kernels.h
test_unit_gpu_emu_graph_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
test_unit_gpu_emu_memory_test_SOURCES = test/unit/gpu/emu_memory_test.cpp
test_unit_gpu_emu_memory_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
test_unit_gpu_emu_share_test_SOURCES = test/unit/gpu/emu_share_test.cpp
test_unit_gpu_emu_share_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
test_unit_gpu_emu_stream_test_SOURCES = test/unit/gpu/emu_stream_test.cpp test/unit/gpu/emu_kernels.h
test_unit_gpu_emu_stream_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/gpu/emu_blocks_test
test_unit_gpu_emu_blocks_test_SOURCES = test/unit/gpu/emu_blocks_test.cpp test/unit/gpu/emu_kernels.h
test_unit_gpu_emu_blocks_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/unit/gpu/emu_graph_test_tsan test/unit/gpu/emu_memory_test_tsan test/unit/gpu/emu_share_test_tsan \
	test/unit/gpu/emu_stream_test_tsan
test_unit_gpu_emu_graph_test_tsan_SOURCES = test/unit/gpu/emu_graph_test.cpp
test_unit_gpu_emu_graph_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_gpu_emu_graph_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_gpu_emu_graph_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
test_unit_gpu_emu_memory_test_tsan_SOURCES = test/unit/gpu/emu_memory_test.cpp
test_unit_gpu_emu_memory_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_gpu_emu_memory_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_gpu_emu_memory_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
test_unit_gpu_emu_share_test_tsan_SOURCES = test/unit/gpu/emu_share_test.cpp
test_unit_gpu_emu_share_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_gpu_emu_share_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_gpu_emu_share_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
test_unit_gpu_emu_stream_test_tsan_SOURCES = test/unit/gpu/emu_stream_test.cpp
test_unit_gpu_emu_stream_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_gpu_emu_stream_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_gpu_emu_stream_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif

check_PROGRAMS += test/unit/core/tuner_test test/unit/core/tuning_file_test
test_unit_core_tuner_test_SOURCES = test/unit/core/tuner_test.cpp
test_unit_core_tuner_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_core_tuning_file_test_SOURCES = test/unit/core/tuning_file_test.cpp
test_unit_core_tuning_file_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/core/mailbox_test test/unit/core/links_test
test_unit_core_mailbox_test_SOURCES = test/unit/core/mailbox_test.cpp test/unit/core/wireup_ranks.h
test_unit_core_mailbox_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_core_links_test_SOURCES = test/unit/core/links_test.cpp test/unit/core/wireup_ranks.h test/patience.h
test_unit_core_links_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/core/peers_test
test_unit_core_peers_test_SOURCES = test/unit/core/peers_test.cpp test/unit/core/wireup_ranks.h test/unit/net/silent_port.h
test_unit_core_peers_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/core/device_link_test
test_unit_core_device_link_test_SOURCES = test/unit/core/device_link_test.cpp test/unit/forwarding_device.h \
	test/unit/core/wireup_ranks.h
test_unit_core_device_link_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/mpi/pinned_pool_test
test_unit_mpi_pinned_pool_test_SOURCES = test/unit/mpi/pinned_pool_test.cpp
test_unit_mpi_pinned_pool_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/mpi/pipelined_copy_test
test_unit_mpi_pipelined_copy_test_SOURCES = test/unit/mpi/pipelined_copy_test.cpp
test_unit_mpi_pipelined_copy_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/mpi/copy_queue_test
test_unit_mpi_copy_queue_test_SOURCES = test/unit/mpi/copy_queue_test.cpp test/unit/forwarding_device.h
test_unit_mpi_copy_queue_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/pt2pt/messages_test
test_unit_pt2pt_messages_test_SOURCES = test/unit/pt2pt/messages_test.cpp
test_unit_pt2pt_messages_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/mpi/mpi_process_test
test_unit_mpi_mpi_process_test_SOURCES = test/unit/mpi/mpi_process_test.cpp
test_unit_mpi_mpi_process_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/mpi/program_memory_test
test_unit_mpi_program_memory_test_SOURCES = test/unit/mpi/program_memory_test.cpp
test_unit_mpi_program_memory_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/mpi/scratch_test
test_unit_mpi_scratch_test_SOURCES = test/unit/mpi/scratch_test.cpp test/unit/forwarding_device.h test/unit/in_flight.h
test_unit_mpi_scratch_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/traced_calls_test
test_unit_coll_traced_calls_test_SOURCES = test/unit/coll/traced_calls_test.cpp
test_unit_coll_traced_calls_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/operands_test
test_unit_coll_operands_test_SOURCES = test/unit/coll/operands_test.cpp
test_unit_coll_operands_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/mpi/board_test
test_unit_mpi_board_test_SOURCES = test/unit/mpi/board_test.cpp
test_unit_mpi_board_test_LDADD = src/mpi/libmpi.la $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/proto/pairs_test
test_unit_proto_pairs_test_SOURCES = test/unit/proto/pairs_test.cpp
test_unit_proto_pairs_test_LDADD = $(GC_BASE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/coll/merged_call_test
test_unit_coll_merged_call_test_SOURCES = test/unit/coll/merged_call_test.cpp
test_unit_coll_merged_call_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/background_task_test
test_unit_coll_background_task_test_SOURCES = test/unit/coll/background_task_test.cpp
test_unit_coll_background_task_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/request_sequence_test
test_unit_coll_request_sequence_test_SOURCES = test/unit/coll/request_sequence_test.cpp
test_unit_coll_request_sequence_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/request_test
test_unit_coll_request_test_SOURCES = test/unit/coll/request_test.cpp
test_unit_coll_request_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/call_matcher_test
test_unit_coll_call_matcher_test_SOURCES = test/unit/coll/call_matcher_test.cpp
test_unit_coll_call_matcher_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/causes_test
test_unit_coll_causes_test_SOURCES = test/unit/coll/causes_test.cpp
test_unit_coll_causes_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/kept_calls_test
test_unit_coll_kept_calls_test_SOURCES = test/unit/coll/kept_calls_test.cpp
test_unit_coll_kept_calls_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/coll/mpi_runtime_test
test_unit_coll_mpi_runtime_test_SOURCES = test/unit/coll/mpi_runtime_test.cpp
test_unit_coll_mpi_runtime_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/mpi/launch_order_test
test_unit_mpi_launch_order_test_SOURCES = test/unit/mpi/launch_order_test.cpp
test_unit_mpi_launch_order_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/mpi/progress_thread_test
test_unit_mpi_progress_thread_test_SOURCES = test/unit/mpi/progress_thread_test.cpp
test_unit_mpi_progress_thread_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/core/registration_test
test_unit_core_registration_test_SOURCES = test/unit/core/registration_test.cpp test/resources.h
test_unit_core_registration_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/gpu/gpu_platform_test
test_unit_gpu_gpu_platform_test_SOURCES = test/unit/gpu/gpu_platform_test.cpp
test_unit_gpu_gpu_platform_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
if HAVE_CUDA
check_PROGRAMS += test/unit/gpu/gpu_cuda_test
test_unit_gpu_gpu_cuda_test_SOURCES = test/unit/gpu/gpu_cuda_test.cpp
test_unit_gpu_gpu_cuda_test_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
test_unit_gpu_gpu_cuda_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)
else
EXTRA_DIST += test/unit/gpu/gpu_cuda_test.cpp
endif

check_PROGRAMS += test/unit/core/plan/planner_test
test_unit_core_plan_planner_test_SOURCES = test/unit/core/plan/collective_messages_test.cpp \
	test/unit/core/plan/planner_draws_test.cpp test/unit/core/plan/planner_test.cpp \
	test/unit/core/plan/plan_walk.h test/unit/core/plan/planner_cases.h
test_unit_core_plan_planner_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/core/copy_engine_reduction_test
test_unit_core_copy_engine_reduction_test_SOURCES = test/unit/core/copy_engine_reduction_test.cpp
test_unit_core_copy_engine_reduction_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/core/copy_reduction_test
test_unit_core_copy_reduction_test_SOURCES = test/unit/core/copy_reduction_test.cpp test/unit/forwarding_device.h test/unit/core/wireup_ranks.h test/patience.h
test_unit_core_copy_reduction_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/unit/core/copy_messages_test
test_unit_core_copy_messages_test_SOURCES = test/unit/core/copy_messages_test.cpp test/unit/forwarding_device.h test/unit/core/wireup_ranks.h test/patience.h
test_unit_core_copy_messages_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/core/reclaim_test
test_unit_core_reclaim_test_SOURCES = test/unit/core/reclaim_test.cpp test/unit/core/idle_communicators.h \
	test/unit/core/wireup_ranks.h test/unit/forwarding_device.h test/unit/in_flight.h
test_unit_core_reclaim_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/core/closing_test
test_unit_core_closing_test_SOURCES = test/unit/core/closing_test.cpp test/patience.h test/unit/core/idle_communicators.h \
	test/unit/core/wireup_ranks.h
test_unit_core_closing_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/unit/core/closing_test_tsan
test_unit_core_closing_test_tsan_SOURCES = $(test_unit_core_closing_test_SOURCES)
test_unit_core_closing_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_core_closing_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_core_closing_test_tsan_LDADD = test/api/libapi_tsan.a $(GC_TSAN_LIBS) $(HWLOC_LIBS) $(GTEST_LIBS)
endif
check_PROGRAMS += test/unit/core/quiescence_test
test_unit_core_quiescence_test_SOURCES = test/unit/core/quiescence_test.cpp test/unit/in_flight.h
test_unit_core_quiescence_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/unit/core/quiescence_test_tsan
test_unit_core_quiescence_test_tsan_SOURCES = $(test_unit_core_quiescence_test_SOURCES)
test_unit_core_quiescence_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_core_quiescence_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_core_quiescence_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif
check_PROGRAMS += test/unit/core/send_order_test
test_unit_core_send_order_test_SOURCES = test/unit/core/send_order_test.cpp
test_unit_core_send_order_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/core/resident_kernel_test
test_unit_core_resident_kernel_test_SOURCES = test/unit/core/resident_kernel_test.cpp
test_unit_core_resident_kernel_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
check_PROGRAMS += test/unit/core/work_fifo_test test/unit/core/launcher_test
test_unit_core_work_fifo_test_SOURCES = test/unit/core/work_fifo_test.cpp
test_unit_core_work_fifo_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
test_unit_core_launcher_test_SOURCES = test/unit/core/launcher_test.cpp test/unit/core/plan_cache_test.cpp \
	test/unit/core/recent_table_test.cpp test/unit/core/launcher_fixture.h test/unit/forwarding_device.h test/unit/in_flight.h
test_unit_core_launcher_test_LDADD = $(GC_CORE_LIBS) $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/unit/core/launcher_test_tsan
test_unit_core_launcher_test_tsan_SOURCES = test/unit/core/launcher_test.cpp test/unit/core/plan_cache_test.cpp \
	test/unit/core/launcher_fixture.h test/unit/forwarding_device.h test/unit/in_flight.h \
	src/core/plan/algorithm_choice.cpp src/core/plan/copy_engine_reduction.cpp src/core/peer/fault.cpp src/core/launch/graph_memory.cpp \
	src/core/launch/graph_users.cpp src/core/launch/plan_cache.cpp src/core/launch/launcher.cpp src/core/launch/resident_kernel.cpp \
	src/core/plan/plan_builder.cpp src/core/plan/planner.cpp src/core/plan/tuner.cpp src/core/plan/tuning_file.cpp src/core/launch/work_fifo.cpp
test_unit_core_launcher_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_unit_core_launcher_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_unit_core_launcher_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
endif
