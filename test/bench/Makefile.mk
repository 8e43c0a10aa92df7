# Benchmarks of label bench: not part of a plain check. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/bench/tests.cmake test/bench/instructions.py test/bench/instructions.txt

if TOOLS
check_PROGRAMS += test/bench/calls
test_bench_calls_SOURCES = test/bench/calls.cpp
test_bench_calls_CPPFLAGS = $(GC_PERF_CPPFLAGS)
test_bench_calls_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_bench_calls_LDADD = $(GC_PERF_LIBS)
endif
