# Room mca/osc of the component.
GC_COLL_COMPONENT_SOURCES += \
	src/mca/osc/origins.c \
	src/mca/osc/selection.c \
	src/mca/osc/windows.h
