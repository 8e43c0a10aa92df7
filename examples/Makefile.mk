# Examples: compiled and run by the tests, installed as documentation.
GC_EXAMPLES = \
	examples/README.md \
	examples/example.h \
	examples/graphs.c \
	examples/mpi4py_arrays.py \
	examples/one_process.c \
	examples/one_process_per_rank.c
examplesdir = $(docdir)/examples
dist_examples_DATA = $(GC_EXAMPLES)
dist_examples_SCRIPTS = examples/run_ranks.sh
EXTRA_DIST += examples/tests.cmake

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
