# Room mca/pt2pt of the component.
GC_COLL_SKIN_SOURCES += \
	src/mca/pt2pt/pt2pt.c
