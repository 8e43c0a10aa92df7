# Room pt2pt: point-to-point messages that the receiver copies straight from the sender's memory.
noinst_LTLIBRARIES += src/pt2pt/libpt2pt.la
src_pt2pt_libpt2pt_la_SOURCES = \
	src/pt2pt/abi_pt2pt.cpp \
	src/pt2pt/device_ends.cpp \
	src/pt2pt/device_ends.h \
	src/pt2pt/host_slots.h \
	src/pt2pt/offer.cpp \
	src/pt2pt/offer.h \
	src/pt2pt/outboxes.cpp \
	src/pt2pt/outboxes.h \
	src/pt2pt/peer_lists.h \
	src/pt2pt/pieces.cpp \
	src/pt2pt/pieces.h \
	src/pt2pt/take.cpp \
	src/pt2pt/take.h \
	src/pt2pt/transfer.h
src_pt2pt_libpt2pt_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
