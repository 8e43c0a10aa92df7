# Tests of label device: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
# test/device/run starts it.
gc_by_hand(test/device/bench_types)
