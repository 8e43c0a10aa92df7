# Room core/plan: tasks, tuner, planner; pure functions.
GC_CORE_SOURCES += \
	src/core/plan/algorithm_choice.cpp \
	src/core/plan/algorithm_choice.h \
	src/core/plan/channel_loads.h \
	src/core/plan/collective_send_recv.cpp \
	src/core/plan/collective_send_recv.h \
	src/core/plan/copy_engine_limits.cpp \
	src/core/plan/copy_engine_limits.h \
	src/core/plan/copy_engine_reduction.cpp \
	src/core/plan/copy_engine_reduction.h \
	src/core/plan/copy_items.cpp \
	src/core/plan/copy_items.h \
	src/core/plan/plan_builder.cpp \
	src/core/plan/plan_builder.h \
	src/core/plan/planner.cpp \
	src/core/plan/planner.h \
	src/core/plan/send_recv_rounds.h \
	src/core/plan/task.h \
	src/core/plan/tuner.cpp \
	src/core/plan/tuner.h \
	src/core/plan/tuning_file.cpp \
	src/core/plan/tuning_file.h
