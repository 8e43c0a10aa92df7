# Room core/plan: tasks, tuner, planner; pure functions.
GC_CORE_SOURCES += \
	src/core/plan/channel_loads.h \
	src/core/plan/chosen_collectives.cpp \
	src/core/plan/chosen_collectives.h \
	src/core/plan/collective_messages.cpp \
	src/core/plan/collective_messages.h \
	src/core/plan/copy_limits.cpp \
	src/core/plan/copy_limits.h \
	src/core/plan/copy_reductions.cpp \
	src/core/plan/copy_reductions.h \
	src/core/plan/pair_rounds.h \
	src/core/plan/plan_builder.cpp \
	src/core/plan/plan_builder.h \
	src/core/plan/planner.cpp \
	src/core/plan/planner.h \
	src/core/plan/task.h \
	src/core/plan/tuner.cpp \
	src/core/plan/tuner.h \
	src/core/plan/tuning_file.cpp \
	src/core/plan/tuning_file.h
