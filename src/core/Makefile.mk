# Room core: communicator, channels, planner, arrival board, fault latch.
noinst_LTLIBRARIES += src/core/libcore.la
src_core_libcore_la_SOURCES = \
	src/core/abi.h \
	src/core/board.cpp \
	src/core/board.h \
	src/core/channel_loads.h \
	src/core/communicator.cpp \
	src/core/communicator.h \
	src/core/communicator_connect.cpp \
	src/core/copy_path.cpp \
	src/core/copy_path.h \
	src/core/device_tables.cpp \
	src/core/device_tables.h \
	src/core/direct_path.cpp \
	src/core/direct_path.h \
	src/core/fault.cpp \
	src/core/fault.h \
	src/core/graph_memory.cpp \
	src/core/graph_memory.h \
	src/core/group.cpp \
	src/core/group.h \
	src/core/launcher.cpp \
	src/core/launcher.h \
	src/core/links.cpp \
	src/core/links.h \
	src/core/liveness.cpp \
	src/core/liveness.h \
	src/core/mailbox.cpp \
	src/core/mailbox.h \
	src/core/meeting.cpp \
	src/core/meeting.h \
	src/core/memory_port.h \
	src/core/mesh.cpp \
	src/core/mesh.h \
	src/core/pair_rounds.h \
	src/core/peers.cpp \
	src/core/peers.h \
	src/core/plan_builder.cpp \
	src/core/plan_builder.h \
	src/core/planner.cpp \
	src/core/planner.h \
	src/core/proxy.cpp \
	src/core/proxy.h \
	src/core/registration.cpp \
	src/core/registration.h \
	src/core/retired.cpp \
	src/core/retired.h \
	src/core/stream_part.h \
	src/core/task.h \
	src/core/tenant.cpp \
	src/core/tenant.h \
	src/core/trees.cpp \
	src/core/trees.h \
	src/core/tuner.cpp \
	src/core/tuner.h \
	src/core/tuning_file.cpp \
	src/core/tuning_file.h \
	src/core/vigil.cpp \
	src/core/vigil.h \
	src/core/watchdog.cpp \
	src/core/watchdog.h \
	src/core/work_fifo.cpp \
	src/core/work_fifo.h

GC_CORE_LIBS = src/core/libcore.la src/topo/libtopo.la src/net/libnet.la src/gpu/libgpu.la src/base/libbase.la \
	$(HWLOC_LIBS) $(CUDA_LIBS)
