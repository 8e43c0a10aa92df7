# Tests of label api: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
