# The programs that are installed: gpucoll-perf is an MPI program over libgpucoll, gpucoll-info links the rooms.
#
#   bin_PROGRAMS += tools/gpucoll-perf
#   tools_gpucoll_perf_SOURCES = tools/perf/main.cpp ...
#   tools_gpucoll_perf_CPPFLAGS = -I$(top_srcdir)/tools $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
#   tools_gpucoll_perf_LDADD = libgpucoll.la $(MPI_LIBS) -lfmt
#
#   bin_PROGRAMS += tools/gpucoll-info
#   tools_gpucoll_info_SOURCES = tools/info/main.cpp
#   tools_gpucoll_info_CPPFLAGS = $(AM_CPPFLAGS) $(GC_BUILD_OPTIONS)
#   tools_gpucoll_info_LDADD = $(GC_CORE_LIBS) -lfmt
GC_BUILD_OPTIONS = -DGC_CUDA_ARCHS='"$(GC_CUDA_ARCHS)"' -DGC_SANITIZER_NAMES='"$(GC_SANITIZER_NAMES)"'
