# Tests of label device: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
