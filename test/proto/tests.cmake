# Tests of label proto: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
