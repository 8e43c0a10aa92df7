# Tests of label tools: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/tools/tests.cmake
