# Tests of label install: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
