# Room proto: protocols of the device side and the formats shared by devices, ranks and host. Headers only.
noinst_HEADERS = \
	src/proto/coop.h \
	src/proto/direct.h \
	src/proto/family.h \
	src/proto/format/doorbell.h \
	src/proto/format/board.h \
	src/proto/format/bootstrap.h \
	src/proto/format/calls.h \
	src/proto/format/connection.h \
	src/proto/format/copy.h \
	src/proto/format/direct.h \
	src/proto/format/line_mesh.h \
	src/proto/format/zero_copy.h \
	src/proto/format/mesh.h \
	src/proto/format/local_reduction.h \
	src/proto/format/outbox.h \
	src/proto/format/packing.h \
	src/proto/format/peer.h \
	src/proto/format/plan.h \
	src/proto/format/pulse.h \
	src/proto/format/device_group.h \
	src/proto/line_mover.h \
	src/proto/line_parts.h \
	src/proto/line_primitives.h \
	src/proto/line_work.h \
	src/proto/ll.h \
	src/proto/ll128.h \
	src/proto/messages.h \
	src/proto/packs.h \
	src/proto/pairs.h \
	src/proto/platform.h \
	src/proto/primitives.h \
	src/proto/primitives_ll.h \
	src/proto/primitives_ll128.h \
	src/proto/protocols.h \
	src/proto/reduce_copy.h \
	src/proto/reduction.h
