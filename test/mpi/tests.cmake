# Tests of label mpi: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
