# Room core/connect: links, mesh, trees, device tables.
GC_CORE_SOURCES += \
	src/core/connect/capabilities.cpp \
	src/core/connect/capabilities.h \
	src/core/connect/channel_links.cpp \
	src/core/connect/channel_links.h \
	src/core/connect/device_tables.cpp \
	src/core/connect/device_tables.h \
	src/core/connect/end_wait.h \
	src/core/connect/link_breaks.h \
	src/core/connect/link_progress.cpp \
	src/core/connect/link_progress.h \
	src/core/connect/links.cpp \
	src/core/connect/links.h \
	src/core/connect/mesh.cpp \
	src/core/connect/mesh.h \
	src/core/connect/message_counts.h \
	src/core/connect/network_mesh.cpp \
	src/core/connect/network_mesh.h \
	src/core/connect/nodes.h \
	src/core/connect/requirements.cpp \
	src/core/connect/requirements.h \
	src/core/connect/rings.cpp \
	src/core/connect/rings.h \
	src/core/connect/trees.cpp \
	src/core/connect/trees.h
