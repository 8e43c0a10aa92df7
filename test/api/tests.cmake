# Tests of label api: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
foreach(transport p2p shm)
  gc_test(api.all_reduce.${transport} LABELS api TIMEOUT 240
    ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=${transport} COMMAND test/api/all_reduce_test)
endforeach()
gc_test(api.all_reduce.3_threads LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_THREADS=3 GPUCOLL_CHANNELS=3 GPUCOLL_BUFFER_BYTES=4K
  COMMAND test/api/all_reduce_test)
gc_test(api.bad_input LABELS api TIMEOUT 120 ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=2 COMMAND test/api/bad_input_test)
gc_test(api.comm LABELS api TIMEOUT 120 ENV GPUCOLL_DEVICE=emu COMMAND test/api/comm_test)
gc_test(api.comm.shm LABELS api TIMEOUT 120 ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=shm COMMAND test/api/comm_test)
gc_test(api.processes LABELS api TIMEOUT 120 ENV GPUCOLL_DEVICE=emu COMMAND test/api/processes_test)
gc_test(api.all_reduce.one_shot LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_ONE_SHOT_BYTES=8M COMMAND test/api/all_reduce_test)
gc_test(api.group LABELS api TIMEOUT 120 ENV GPUCOLL_DEVICE=emu COMMAND test/api/group_test)
