# Room mca/common of the component.
GC_COLL_COMPONENT_SOURCES += \
	src/mca/common/bootstrap.c \
	src/mca/common/compat.h \
	src/mca/common/lifetime.c \
	src/mca/common/memory.c \
	src/mca/common/outer_requests.c \
	src/mca/common/outer_requests.h \
	src/mca/common/parameters.c \
	src/mca/common/performance.c \
	src/mca/common/sparse_memory.c \
	src/mca/common/sparse_memory.h \
	src/mca/common/type_map.c \
	src/mca/common/types.c
