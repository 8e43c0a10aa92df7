# Tests of label device (they need a GPU): programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/device/tests.cmake test/device/run test/device/bench_primitives.cu test/device/facts.cu \
	test/device/digest.cpp
