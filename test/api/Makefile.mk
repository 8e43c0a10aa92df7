# Tests of label api: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/api/tests.cmake
