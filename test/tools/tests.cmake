# Tests of label tools: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
