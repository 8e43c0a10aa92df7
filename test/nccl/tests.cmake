# Tests of label nccl: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
set(nccl_library ${GC_BUILD}/src/nccl/.libs/libnccl.so.2)
gc_test(nccl.exports LABELS nccl COMMAND ${GC_SOURCE}/test/nccl/exports.sh ${nccl_library}
  ${GC_SOURCE}/test/nccl/symbols.def)
gc_test(nccl.abi LABELS nccl ENV GPUCOLL_DEVICE=emu COMMAND test/nccl/abi_test ${nccl_library})
gc_test(nccl.program LABELS nccl TIMEOUT 120 PROCESSORS 4 ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=20
  COMMAND test/nccl/program_test)
