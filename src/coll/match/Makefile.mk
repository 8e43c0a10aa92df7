# Room coll/match: matches the ranks' calls on the board.
GC_COLL_SOURCES += \
	src/coll/match/arrival_watch.cpp \
	src/coll/match/arrival_watch.h \
	src/coll/match/blocking_order.cpp \
	src/coll/match/blocking_order.h \
	src/coll/match/board_bootstrap.cpp \
	src/coll/match/board_bootstrap.h \
	src/coll/match/board_entries.cpp \
	src/coll/match/board_entries.h \
	src/coll/match/board_line.cpp \
	src/coll/match/board_line.h \
	src/coll/match/call_id.cpp \
	src/coll/match/call_id.h \
	src/coll/match/call_matcher.cpp \
	src/coll/match/call_matcher.h \
	src/coll/match/component.cpp \
	src/coll/match/component.h \
	src/coll/match/launch_numbers.cpp \
	src/coll/match/launch_numbers.h \
	src/coll/match/rank_failures.cpp \
	src/coll/match/rank_failures.h
