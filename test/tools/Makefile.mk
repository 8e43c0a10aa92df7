# Tests of label tools: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/tools/tests.cmake test/tools/trace_test.py test/tools/nvtx_test.py test/tools/hosts_test.py test/tools/expect.sh test/tools/skips.sh test/tools/with_python.sh \
	test/tools/info_json.sh test/tools/impossible.json test/tools/performance_test.py test/tools/plot_test.py test/tools/no_matplotlib/matplotlib.py test/tools/other_mpi/mpirun test/tools/other_open_mpi/ompi_info

if TOOLS
check_PROGRAMS += test/tools/check_test test/tools/data_test test/tools/figures_test test/tools/options_test test/tools/read_json \
	test/tools/ways_test \
	test/tools/perf_corrupted
test_tools_check_test_SOURCES = test/tools/check_folders.h test/tools/check_test.cpp tools/info/check.cpp
test_tools_check_test_CPPFLAGS = -I$(top_srcdir)/tools $(AM_CPPFLAGS) -include $(top_srcdir)/test/tools/check_folders.h \
	-DGC_PLUGIN_FOLDER=g_plugin_folder -DGC_OPEN_MPI_FOLDER=g_open_mpi_folder -DGC_OPEN_MPI_VERSION='"unknown"'
test_tools_check_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_tools_check_test_LDADD = $(GC_BASE_LIBS) $(GTEST_LIBS) -lfmt
test_tools_data_test_SOURCES = test/tools/data_test.cpp
test_tools_data_test_CPPFLAGS = $(GC_PERF_CPPFLAGS)
test_tools_data_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_tools_data_test_LDADD = $(GC_PERF_LIBS) $(GTEST_LIBS)
test_tools_figures_test_SOURCES = test/tools/figures_test.cpp
test_tools_figures_test_CPPFLAGS = $(GC_PERF_CPPFLAGS)
test_tools_figures_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_tools_figures_test_LDADD = $(GC_PERF_LIBS) $(GTEST_LIBS)
test_tools_options_test_SOURCES = test/tools/options_test.cpp
test_tools_options_test_CPPFLAGS = $(GC_PERF_CPPFLAGS)
test_tools_options_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_tools_options_test_LDADD = $(GC_PERF_LIBS) $(GTEST_LIBS)
test_tools_ways_test_SOURCES = test/tools/ways_test.cpp tools/tune/member.cpp tools/tune/ways.cpp
test_tools_ways_test_CPPFLAGS = $(GC_PERF_CPPFLAGS)
test_tools_ways_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_tools_ways_test_LDADD = libgpucoll.la $(GC_CORE_LIBS) $(MPI_LIBS) $(GTEST_LIBS)
test_tools_read_json_SOURCES = test/tools/read_json.cpp
# gpucoll-perf with an MPI_Allreduce that spoils a byte, and an MPI_Barrier that waits for nobody.
test_tools_perf_corrupted_SOURCES = tools/perf/main.cpp test/tools/corrupt.cpp
test_tools_perf_corrupted_CPPFLAGS = $(GC_PERF_CPPFLAGS)
test_tools_perf_corrupted_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_tools_perf_corrupted_LDADD = $(GC_PERF_LIBS)
if HAVE_NVTX
# NVTX loads it.
check_LTLIBRARIES += test/tools/nvtx_tool.la
test_tools_nvtx_tool_la_SOURCES = test/tools/nvtx_tool.c
test_tools_nvtx_tool_la_CPPFLAGS = $(AM_CPPFLAGS) $(NVTX_CPPFLAGS)
test_tools_nvtx_tool_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
endif
# Written by tools.perf_files.
CLEANFILES += perf.json perf.csv
# Written by tools.tune.
CLEANFILES += tuned.txt tuned_processes.txt
endif
