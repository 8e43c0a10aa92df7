# Benchmarks: GPUCOLL_BENCH=1 ./contrib/check -L bench. They count instructions, so sanitizers are no use.
gc_by_hand(test/bench/calls)  # instructions.py starts it
if(DEFINED ENV{GPUCOLL_BENCH} AND NOT GC_SANITIZERS)
  gc_test(bench.instructions LABELS bench TIMEOUT 600
    COMMAND ${GC_SOURCE}/test/bench/instructions.py ${GC_BUILD} ${GC_PLUGIN_PATH})
endif()
