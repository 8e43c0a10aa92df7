# Room mpi: what coll and pt2pt share: process, board, progress, staging, datatypes.
GC_MPI_SOURCES = \
	src/mpi/board.cpp \
	src/mpi/board.h \
	src/mpi/error_class.h \
	src/mpi/message_causes.cpp \
	src/mpi/message_causes.h \
	src/mpi/mpi_process.cpp \
	src/mpi/mpi_process.h \
	src/mpi/progress_thread.cpp \
	src/mpi/progress_thread.h \
	src/mpi/remote_boards.cpp \
	src/mpi/remote_boards.h \
	src/mpi/remote_process.cpp \
	src/mpi/remote_process.h
include src/mpi/datatype/Makefile.mk
include src/mpi/staging/Makefile.mk

noinst_LTLIBRARIES += src/mpi/libmpi.la
src_mpi_libmpi_la_SOURCES = $(GC_MPI_SOURCES)
src_mpi_libmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
