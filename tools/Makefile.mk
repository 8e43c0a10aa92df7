# The programs that are installed: gpucoll-perf is an MPI program over libgpucoll, gpucoll-info links the rooms.
# A tarball has all of them: what is no program's source must be named where there is no condition.
EXTRA_DIST += docs/tuning.md docs/formats/perf.md docs/formats/trace.md docs/formats/tuning.md

if TOOLS
GC_BUILD_OPTIONS = -DGC_CUDA_ARCHS='"$(GC_CUDA_ARCHS)"' -DGC_SANITIZER_NAMES='"$(GC_SANITIZER_NAMES)"' \
	-DGC_PLUGIN_FOLDER='"$(OMPI_PLUGIN_DIR)"' -DGC_OPEN_MPI_FOLDER='"$(OMPI_SYSTEM_PLUGIN_DIR)"' \
	-DGC_OPEN_MPI_VERSION='"$(OMPI_VERSION)"'

# All of gpucoll-perf but main.cpp, so that tests can link its parts.
noinst_LTLIBRARIES += tools/libperf.la
tools_libperf_la_SOURCES = \
	tools/common/command_line.h \
	tools/common/output.h \
	tools/perf/agree.cpp \
	tools/perf/agree.h \
	tools/perf/bench.cpp \
	tools/perf/bench.h \
	tools/perf/check.cpp \
	tools/perf/check.h \
	tools/perf/collective.cpp \
	tools/perf/collective.h \
	tools/perf/computing.cpp \
	tools/perf/computing.h \
	tools/perf/computing_kernel.cpp \
	tools/perf/cuda_driver.cpp \
	tools/perf/cuda_driver.h \
	tools/perf/data.cpp \
	tools/perf/data.h \
	tools/perf/derived_type.cpp \
	tools/perf/derived_type.h \
	tools/perf/earlier.cpp \
	tools/perf/earlier.h \
	tools/perf/figures.cpp \
	tools/perf/figures.h \
	tools/perf/find_function.h \
	tools/perf/heading.h \
	tools/perf/json.cpp \
	tools/perf/json.h \
	tools/perf/measure.cpp \
	tools/perf/measure.h \
	tools/perf/memory.cpp \
	tools/perf/memory.h \
	tools/perf/messages.cpp \
	tools/perf/messages.h \
	tools/perf/mpi_call.cpp \
	tools/perf/mpi_call.h \
	tools/perf/options.cpp \
	tools/perf/options.h \
	tools/perf/report.cpp \
	tools/perf/report.h \
	tools/perf/runner.cpp \
	tools/perf/runner.h \
	tools/perf/runner_api.cpp \
	tools/perf/runner_messages.cpp \
	tools/perf/runner_mpi.cpp \
	tools/perf/runner_nccl.cpp \
	tools/perf/session.cpp \
	tools/perf/session.h \
	tools/perf/small_floats.h \
	tools/perf/table.cpp \
	tools/perf/table.h \
	tools/perf/type_shape.cpp \
	tools/perf/type_shape.h \
	tools/perf/types.cpp \
	tools/perf/types.h
GC_PERF_CPPFLAGS = -I$(top_srcdir)/tools $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
# Of the room base it takes its own copy, for parsing sizes: libgpucoll does not export it.
GC_PERF_LIBS = tools/libperf.la libgpucoll.la $(GC_BASE_LIBS) $(MPI_LIBS) -lfmt -ldl
tools_libperf_la_CPPFLAGS = $(GC_PERF_CPPFLAGS)

bin_PROGRAMS += tools/gpucoll-perf
tools_gpucoll_perf_SOURCES = tools/perf/main.cpp
tools_gpucoll_perf_CPPFLAGS = $(GC_PERF_CPPFLAGS)
tools_gpucoll_perf_LDADD = $(GC_PERF_LIBS)

bin_PROGRAMS += tools/gpucoll-info
tools_gpucoll_info_SOURCES = \
	tools/common/command_line.h \
	tools/common/output.h \
	tools/common/usual_shape.cpp \
	tools/common/usual_shape.h \
	tools/info/check.cpp \
	tools/info/check.h \
	tools/info/command.h \
	tools/info/explain.cpp \
	tools/info/explain.h \
	tools/info/facts.cpp \
	tools/info/facts.h \
	tools/info/hosts.cpp \
	tools/info/hosts.h \
	tools/info/main.cpp \
	tools/info/text.cpp
tools_gpucoll_info_CPPFLAGS = -I$(top_srcdir)/tools $(AM_CPPFLAGS) $(GC_BUILD_OPTIONS)
tools_gpucoll_info_LDADD = $(GC_CORE_LIBS) -lfmt

# Like gpucoll-perf over libgpucoll, and with parts of it; of core it takes its own copy of tuner and tuning files.
bin_PROGRAMS += tools/gpucoll-tune
tools_gpucoll_tune_SOURCES = \
	tools/common/command_line.h \
	tools/common/output.h \
	tools/common/usual_shape.cpp \
	tools/common/usual_shape.h \
	tools/tune/main.cpp \
	tools/tune/member.cpp \
	tools/tune/member.h \
	tools/tune/process_team.cpp \
	tools/tune/sweep.cpp \
	tools/tune/sweep.h \
	tools/tune/team.h \
	tools/tune/thread_team.cpp \
	tools/tune/ways.cpp \
	tools/tune/ways.h
tools_gpucoll_tune_CPPFLAGS = $(GC_PERF_CPPFLAGS)
tools_gpucoll_tune_LDADD = tools/libperf.la libgpucoll.la $(GC_CORE_LIBS) $(MPI_LIBS) -lfmt -ldl
endif
