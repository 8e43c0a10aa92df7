# Room coll/shared_gpu: ranks that share one GPU.
GC_COLL_SOURCES += \
	src/coll/shared_gpu/team_call.cpp \
	src/coll/shared_gpu/team_call.h \
	src/coll/shared_gpu/team_composer.h \
	src/coll/shared_gpu/team_moves.cpp \
	src/coll/shared_gpu/team_pages.cpp \
	src/coll/shared_gpu/team_pages.h \
	src/coll/shared_gpu/team_reductions.cpp \
	src/coll/shared_gpu/team_runtime.cpp \
	src/coll/shared_gpu/team_runtime.h \
	src/coll/shared_gpu/team_steps.cpp \
	src/coll/shared_gpu/teams.cpp \
	src/coll/shared_gpu/teams.h
