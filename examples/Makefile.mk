# Examples: compiled and run by the tests, installed as documentation.
GC_EXAMPLES = \
	examples/README.md \
	examples/api_arrays.py \
	examples/cg.c \
	examples/cg.h \
	examples/cg_cuda.cu \
	examples/cg_device.c \
	examples/example.h \
	examples/example_mpi.h \
	examples/fortran_arrays.f90 \
	examples/fortran_openacc.f90 \
	examples/graphs.c \
	examples/heat.c \
	examples/heat.h \
	examples/heat_2d.c \
	examples/heat_3d.c \
	examples/heat_cuda.cu \
	examples/heat_mpi.h \
	examples/mpi4py_arrays.py \
	examples/mpi_arrays.rs \
	examples/one_process.c \
	examples/one_process.rs \
	examples/one_process_per_rank.c \
	examples/plot_field.py
examplesdir = $(docdir)/examples
dist_examples_DATA = $(GC_EXAMPLES)
dist_examples_SCRIPTS = examples/one_gpu.sh examples/run_ranks.sh
EXTRA_DIST += examples/compiled.sh examples/tests.cmake
CLEANFILES += examples/fortran_arrays_f90 examples/fortran_openacc_f90 examples/gpucoll.mod examples/mpi_arrays_rs
CLEANFILES += examples/one_process_rs examples/heat.npy examples/heat.png

check_PROGRAMS += examples/graphs examples/one_process examples/one_process_per_rank
examples_graphs_SOURCES = examples/graphs.c examples/example.h
examples_graphs_LDFLAGS = $(GC_TEST_LINKFLAGS)
examples_graphs_LDADD = libgpucoll.la
examples_one_process_SOURCES = examples/one_process.c examples/example.h
examples_one_process_LDFLAGS = $(GC_TEST_LINKFLAGS)
examples_one_process_LDADD = libgpucoll.la
examples_one_process_per_rank_SOURCES = examples/one_process_per_rank.c examples/example.h
examples_one_process_per_rank_LDFLAGS = $(GC_TEST_LINKFLAGS)
examples_one_process_per_rank_LDADD = libgpucoll.la

check_PROGRAMS += examples/cg
examples_cg_SOURCES = examples/cg.c examples/cg.h examples/cg_device.c examples/example.h examples/example_mpi.h
examples_cg_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
examples_cg_LDFLAGS = $(GC_TEST_LINKFLAGS)
examples_cg_LDADD = libgpucoll-mpi.la libgpucoll.la $(MPI_LIBS) -lm
if HAVE_CUDA
check_LTLIBRARIES += examples/libcg_cuda.la
examples_libcg_cuda_la_SOURCES = examples/cg_cuda.cu
examples_cg_CPPFLAGS += -DCG_CUDA
examples_cg_LDADD += examples/libcg_cuda.la $(CUDA_LIBS) -lstdc++
endif

check_PROGRAMS += examples/heat_2d examples/heat_3d
examples_heat_2d_SOURCES = examples/heat_2d.c $(GC_HEAT_SOURCES)
examples_heat_2d_CPPFLAGS = $(GC_HEAT_CPPFLAGS)
examples_heat_2d_LDFLAGS = $(GC_TEST_LINKFLAGS)
examples_heat_2d_LDADD = $(GC_HEAT_LIBS)
examples_heat_3d_SOURCES = examples/heat_3d.c $(GC_HEAT_SOURCES)
examples_heat_3d_CPPFLAGS = $(GC_HEAT_CPPFLAGS)
examples_heat_3d_LDFLAGS = $(GC_TEST_LINKFLAGS)
examples_heat_3d_LDADD = $(GC_HEAT_LIBS)
GC_HEAT_SOURCES = examples/heat.c examples/heat.h examples/heat_mpi.h examples/example.h examples/example_mpi.h
GC_HEAT_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
GC_HEAT_LIBS = libgpucoll.la $(MPI_LIBS) -lm
if HAVE_CUDA
check_LTLIBRARIES += examples/libheat_cuda.la
examples_libheat_cuda_la_SOURCES = examples/heat_cuda.cu
GC_HEAT_CPPFLAGS += -DHEAT_CUDA
GC_HEAT_LIBS += examples/libheat_cuda.la $(CUDA_LIBS) -lstdc++
endif
