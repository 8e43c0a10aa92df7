# Room mca/coll of the component.
GC_COLL_COMPONENT_SOURCES += \
	src/mca/coll/again.h \
	src/mca/coll/arguments.h \
	src/mca/coll/blocking.c \
	src/mca/coll/collectives.def \
	src/mca/coll/engine.c \
	src/mca/coll/engine.h \
	src/mca/coll/group_reductions.c \
	src/mca/coll/groups.c \
	src/mca/coll/kept_arrays.c \
	src/mca/coll/kept_arrays.h \
	src/mca/coll/kept_objects.c \
	src/mca/coll/kept_objects.h \
	src/mca/coll/kinds.c \
	src/mca/coll/module.c \
	src/mca/coll/module.h \
	src/mca/coll/neighbors.c \
	src/mca/coll/nonblocking.c \
	src/mca/coll/persistent.c \
	src/mca/coll/plan.h \
	src/mca/coll/requests.c \
	src/mca/coll/requests.h \
	src/mca/coll/selection.c \
	src/mca/coll/staging.c \
	src/mca/coll/staging.h
