# Room mca/io of the component.
GC_COLL_COMPONENT_SOURCES += \
	src/mca/io/accesses.c \
	src/mca/io/file_requests.c \
	src/mca/io/files.h \
	src/mca/io/selection.c \
	src/mca/io/split_accesses.c
