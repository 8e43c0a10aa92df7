# Room mca/osc of the component.
GC_COLL_COMPONENT_SOURCES += \
	src/mca/osc/device_windows.c \
	src/mca/osc/device_windows.h \
	src/mca/osc/operation_requests.c \
	src/mca/osc/operations.c \
	src/mca/osc/operations.h \
	src/mca/osc/origins.c \
	src/mca/osc/own_component.c \
	src/mca/osc/selection.c \
	src/mca/osc/synchronizations.c \
	src/mca/osc/window_accesses.c \
	src/mca/osc/window_accumulates.c \
	src/mca/osc/window_epochs.c \
	src/mca/osc/window_messages.h \
	src/mca/osc/window_operations.c \
	src/mca/osc/window_targets.c \
	src/mca/osc/window_targets.h \
	src/mca/osc/windows.h
