# Room coll/shared_gpu: ranks that share one GPU.
GC_COLL_SOURCES += \
	src/coll/shared_gpu/device_groups.cpp \
	src/coll/shared_gpu/device_groups.h \
	src/coll/shared_gpu/group_leader.cpp \
	src/coll/shared_gpu/group_leader.h \
	src/coll/shared_gpu/group_runtime.cpp \
	src/coll/shared_gpu/group_runtime.h \
	src/coll/shared_gpu/group_runtime_steps.cpp \
	src/coll/shared_gpu/group_wait.cpp \
	src/coll/shared_gpu/group_wait.h \
	src/coll/shared_gpu/member_pages.cpp \
	src/coll/shared_gpu/member_pages.h \
	src/coll/shared_gpu/merge.h \
	src/coll/shared_gpu/merge_moves.cpp \
	src/coll/shared_gpu/merge_reductions.cpp \
	src/coll/shared_gpu/merged_call.cpp \
	src/coll/shared_gpu/merged_call.h \
	src/coll/shared_gpu/own_part.cpp \
	src/coll/shared_gpu/own_part.h
