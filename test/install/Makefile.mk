# Tests of label install: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/install/tests.cmake
