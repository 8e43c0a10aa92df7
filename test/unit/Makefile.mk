# Tests of label unit: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/unit/tests.cmake test/unit/parameters_document.sh
