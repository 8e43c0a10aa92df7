# Tests of label mpi: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/mpi/tests.cmake
