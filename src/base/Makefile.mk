# Room base: Status/Result, parameters, log, small helpers.
GC_BASE_SOURCES = \
	src/base/boot_id.h \
	src/base/observe/causes.cpp \
	src/base/observe/causes.def \
	src/base/observe/causes.h \
	src/base/observe/counters.def \
	src/base/observe/counters.h \
	src/base/environment.h \
	src/base/equal_params.cpp \
	src/base/equal_params.h \
	src/base/errors.def \
	src/base/fork.cpp \
	src/base/fork.h \
	src/base/hash.h \
	src/base/integers.h \
	src/base/log.cpp \
	src/base/log.h \
	src/base/monotonic.h \
	src/base/mutant.h \
	src/base/observe/nvtx.cpp \
	src/base/observe/nvtx.h \
	src/base/params.cpp \
	src/base/params.def \
	src/base/params.h \
	src/base/service_thread.h \
	src/base/shared_memory.cpp \
	src/base/shared_memory.h \
	src/base/shared_word.h \
	src/base/status.cpp \
	src/base/status.h \
	src/base/system_limits.cpp \
	src/base/system_limits.h \
	src/base/observe/trace.cpp \
	src/base/observe/trace.h \
	src/base/unique_fd.h

noinst_LTLIBRARIES += src/base/libbase.la
src_base_libbase_la_SOURCES = $(GC_BASE_SOURCES)
src_base_libbase_la_CPPFLAGS = $(AM_CPPFLAGS) $(NVTX_CPPFLAGS)

# What links with this room alone.
GC_BASE_LIBS = src/base/libbase.la

# Prints docs/PARAMETERS.md and docs/causes.md from the tables; `make update-docs` rewrites them, `make check` compares
# them.
check_PROGRAMS += src/base/observe/params_doc
src_base_observe_params_doc_SOURCES = src/base/observe/params_doc.cpp
src_base_observe_params_doc_LDADD = $(GC_BASE_LIBS)
EXTRA_DIST += docs/PARAMETERS.md docs/causes.md
update-docs: src/base/observe/params_doc
	src/base/observe/params_doc > $(srcdir)/docs/PARAMETERS.md
	src/base/observe/params_doc causes > $(srcdir)/docs/causes.md
.PHONY: update-docs
