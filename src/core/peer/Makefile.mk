# Room core/peer: peers, faults, liveness, mailbox.
GC_CORE_SOURCES += \
	src/core/peer/call_page.h \
	src/core/peer/call_records.cpp \
	src/core/peer/call_records.h \
	src/core/peer/device_link.cpp \
	src/core/peer/device_link.h \
	src/core/peer/fault.cpp \
	src/core/peer/fault.h \
	src/core/peer/heart.cpp \
	src/core/peer/heart.h \
	src/core/peer/letter.h \
	src/core/peer/liveness.cpp \
	src/core/peer/liveness.h \
	src/core/peer/mailbox.cpp \
	src/core/peer/mailbox.h \
	src/core/peer/memory_port.h \
	src/core/peer/peer_pages.h \
	src/core/peer/peer_wait.cpp \
	src/core/peer/peer_wait.h \
	src/core/peer/peers.cpp \
	src/core/peer/peers.h \
	src/core/peer/remote_pages.cpp \
	src/core/peer/remote_pages.h \
	src/core/peer/wireup.cpp \
	src/core/peer/wireup.h
