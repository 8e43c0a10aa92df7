# Tests of label proto: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/proto/tests.cmake
