# Tests of label nccl: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
set(nccl_library ${GC_BUILD}/src/nccl/.libs/libnccl.so.2)
gc_test(nccl.exports LABELS nccl COMMAND ${GC_SOURCE}/test/nccl/exports.sh ${nccl_library}
  ${GC_SOURCE}/test/nccl/symbols.def)
gc_test(nccl.abi LABELS nccl ENV GPUCOLL_DEVICE=emu COMMAND test/nccl/abi_test ${nccl_library})
gc_test(nccl.program LABELS nccl PROCESSORS 2 ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=20
  COMMAND test/nccl/program_test --gtest_filter=-ShortTimeout.*)
# Ranks 0 and 2 are on one node, rank 1 on another one.
gc_test(nccl.program.nodes LABELS nccl PROCESSORS 2 TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=20 GC_TEST_NODES=ab COMMAND test/nccl/program_test --gtest_filter=Processes.*)
gc_test(nccl.timeout LABELS nccl ENV GPUCOLL_DEVICE=emu
  COMMAND test/nccl/program_test --gtest_filter=Timeout.IsOffUnlessItIsSet)
# The library ignores what libnccl asks for.
gc_mutant(421 MUST_PRINT "FAILED TEST" LABELS nccl ENV GPUCOLL_DEVICE=emu
  COMMAND test/nccl/program_test --gtest_filter=Timeout.IsOffUnlessItIsSet)
gc_test(nccl.short_timeout LABELS nccl TIMEOUT 180 ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=4
  COMMAND test/nccl/program_test --gtest_filter=ShortTimeout.*)
# Aborts end no shrink, nor do faults, nor deaths; what was revoked is told as the failure before; and the first letter
# of survivors counts.
gc_mutant(222 MUST_PRINT "FAILED TEST" LABELS nccl ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=15
  COMMAND test/nccl/program_test --gtest_filter=*AnAbortEndsAShrink)
gc_mutant(223 MUST_PRINT "FAILED TEST" LABELS nccl ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=15
  COMMAND test/nccl/program_test --gtest_filter=*WhenTheCommunicatorFails)
gc_mutant(224 MUST_PRINT "FAILED TEST" LABELS nccl ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=15
  COMMAND test/nccl/program_test --gtest_filter=*WhenARemainingRankDies)
gc_mutant(225 MUST_PRINT "FAILED TEST" LABELS nccl ENV GPUCOLL_DEVICE=emu
  COMMAND test/nccl/program_test --gtest_filter=*RevokedIsWhatItSays)
# A rank leaves its meeting for the next one.
gc_mutant(227 MUST_PRINT "FAILED TEST" LABELS nccl ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=15
  COMMAND test/nccl/program_test --gtest_filter=*ShrinksFollowEachOther)
gc_mutant(226 MUST_PRINT "FAILED TEST" LABELS nccl TIMEOUT 180 ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=4
  COMMAND test/nccl/program_test --gtest_filter=ShortTimeout.*)
