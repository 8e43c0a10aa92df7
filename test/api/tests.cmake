# Tests of label api: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
foreach(transport p2p shm tcp)
  gc_test(api.all_reduce.${transport} LABELS api TIMEOUT 240
    ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=${transport} COMMAND test/api/all_reduce_test)
endforeach()
if(GC_VERBS)  # on what stands for libibverbs, between threads
  foreach(test all_reduce comm send_recv collectives)
    gc_test(api.${test}.verbs LABELS api TIMEOUT 240
      ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=verbs "GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}"
      COMMAND test/api/${test}_test)
  endforeach()
endif()
gc_test(api.all_reduce.3_threads LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_THREADS=3 GPUCOLL_CHANNELS=3 GPUCOLL_BUFFER_BYTES=4K
  COMMAND test/api/all_reduce_test)
gc_test(api.bad_input LABELS api TIMEOUT 180 ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=6 COMMAND test/api/bad_input_test)
gc_test(api.bad_parameter LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_CHANNELS=abc
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "error: gpucollCommInitAll: .*GPUCOLL_CHANNELS"
    ${GC_BUILD}/test/api/bad_input_test --gtest_filter=BadParameter.* --gtest_also_run_disabled_tests)
gc_test(api.old_parameter LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_KEPT_LAUNCHES=16
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "GPUCOLL_KEPT_LAUNCHES: the parameter kept_launches is named plan_cache now"
    ${GC_BUILD}/test/api/bad_input_test --gtest_filter=OldParameter.* --gtest_also_run_disabled_tests)
gc_test(api.comm LABELS api plain ENV GPUCOLL_DEVICE=emu COMMAND test/api/comm_test)
gc_mutant(427 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=5
  COMMAND test/api/comm_test --gtest_filter=*GroupThatMakesIt)
# An abort of what a group has made waits for all else that the group makes.
gc_mutant(432 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=5
  COMMAND test/api/comm_test --gtest_filter=*NothingElseOfTheGroup)
gc_test(api.meeting LABELS api ENV GPUCOLL_DEVICE=emu
  COMMAND test/api/meeting_test --gtest_filter=-*FewDescriptors*)
if(NOT GC_SANITIZERS MATCHES undefined)  # UBSan takes objects for broken where there are no descriptors
  gc_test(api.meeting.few_descriptors LABELS api plain ENV GPUCOLL_DEVICE=emu
    COMMAND test/api/meeting_test --gtest_filter=*FewDescriptors*)
endif()
gc_mutant(126 MUST_PRINT "FAILED.*AGroupWithFewThreadsSaysWhatToRaise" LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=1
  COMMAND test/api/meeting_test --gtest_filter=Meeting.AGroupWithFewThreadsSaysWhatToRaise)
gc_test(api.comm.shm LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=shm COMMAND test/api/comm_test)
gc_test(api.comm.tcp LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=tcp
  COMMAND test/api/comm_test --gtest_filter=-*CostLittleEach)  # sockets cost descriptors, and half a minute
gc_test(api.comm.16_channels LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_CHANNELS=16 GPUCOLL_ONE_SHOT_BYTES=off
  COMMAND test/api/comm_test)
gc_test(api.communicators_of_mpi LABELS api plain ENV GPUCOLL_DEVICE=emu COMMAND test/api/communicators_of_mpi_test)
set(configuration_env GPUCOLL_DEVICE=emu GPUCOLL_VERBOSE=1 GPUCOLL_CHANNELS=6 GPUCOLL_ALGORITHM=ring)
gc_test(api.configuration LABELS api ENV ${configuration_env} COMMAND test/api/configuration_test)
gc_test(api.configuration.auto LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_REDUCTION_BYTES=1M
  COMMAND test/api/configuration_test --gtest_filter=*OneBlock*)
# Limits count for nobody; and names are not told.
gc_mutant(341 MUST_PRINT "FAILED TEST" LABELS api ENV ${configuration_env}
  COMMAND test/api/configuration_test --gtest_filter=*NarrowestLimit*)
gc_mutant(342 MUST_PRINT "FAILED TEST" LABELS api ENV ${configuration_env}
  COMMAND test/api/configuration_test --gtest_filter=*Errors*)
set(nonblocking_env GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=1)
gc_test(api.nonblocking LABELS api ENV ${nonblocking_env} GPUCOLL_TIMEOUT=20
  COMMAND test/api/nonblocking_test)
gc_test(api.nonblocking.tcp LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=20 GPUCOLL_TRANSPORT=tcp
  COMMAND test/api/nonblocking_test)
gc_test(api.nonblocking_processes LABELS api ENV ${nonblocking_env} GPUCOLL_TIMEOUT=30
  COMMAND test/api/nonblocking_processes_test)
# A process that exits leaves its threads to themselves; connections are waited for; interruptions end no meeting, and no
# split; and nobody sees that something goes on.
gc_mutant(344 MUST_PRINT "FAILED TEST" LABELS api PROCESSORS 1 ENV ${nonblocking_env} GPUCOLL_TIMEOUT=30
  COMMAND test/api/nonblocking_processes_test --gtest_filter=*EndOfAPeer*)
gc_mutant(349 MUST_PRINT "FAILED TEST" LABELS api PROCESSORS 1 ENV ${nonblocking_env} GPUCOLL_TIMEOUT=12
  COMMAND test/api/nonblocking_test --gtest_filter=*AllThatLeftWithIt)
gc_mutant(345 MUST_PRINT "FAILED TEST" LABELS api ENV ${nonblocking_env} GPUCOLL_TIMEOUT=2
  COMMAND test/api/nonblocking_test --gtest_filter=*ConnectionsAreMade*)
gc_mutant(346 MUST_PRINT "FAILED TEST" LABELS api PROCESSORS 1 ENV ${nonblocking_env} GPUCOLL_TIMEOUT=12
  COMMAND test/api/nonblocking_test --gtest_filter=*AnAbortEndsTheMaking)
gc_mutant(347 MUST_PRINT "FAILED TEST" LABELS api ENV ${nonblocking_env} GPUCOLL_TIMEOUT=2
  COMMAND test/api/nonblocking_test --gtest_filter=*MakingGoesOn*)
gc_mutant(348 MUST_PRINT "FAILED TEST" LABELS api PROCESSORS 1 ENV ${nonblocking_env} GPUCOLL_TIMEOUT=12
  COMMAND test/api/nonblocking_test --gtest_filter=*AnAbortEndsASplit*)
gc_test(api.disagree LABELS api TIMEOUT 240 PROCESSORS 2
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=20 COMMAND test/api/disagree_test)
# Nobody compares calls; and destroying does not.
gc_mutant(144 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=2
  COMMAND test/api/disagree_test --gtest_filter=LateCall.*)
gc_mutant(145 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=2
  COMMAND test/api/disagree_test --gtest_filter=LateCall.*)
gc_test(api.device_failure LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=60
  COMMAND test/api/device_failure_test)
# Nobody asks the device.
gc_mutant(420 MUST_PRINT "FAILED TEST" LABELS api PROCESSORS 1 ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=2
  COMMAND test/api/device_failure_test --gtest_filter=*Destroy)
gc_test(api.stuck_stream LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=3
  COMMAND test/api/stuck_stream_test --gtest_filter=*TimesOut)
gc_test(api.stuck_stream.goes_on LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=3
  COMMAND test/api/stuck_stream_test --gtest_filter=*GoOn)
# Nobody asks the event behind launches that tell seldom.
gc_mutant(622 MUST_PRINT "has waited 3 s" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=3
  COMMAND test/api/stuck_stream_test --gtest_filter=*GoOn)
gc_test(api.stuck_stream.abort LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=60
  COMMAND test/api/stuck_stream_test --gtest_filter=*HasNotBegun)
# An operation in which nobody is missing never ends.
gc_mutant(422 MUST_PRINT "FAILED TEST" LABELS api PROCESSORS 1 ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=3
  COMMAND test/api/stuck_stream_test --gtest_filter=*TimesOut)
# Aborts wait as long as for kernels that leave.
gc_mutant(424 MUST_PRINT "FAILED TEST" LABELS api PROCESSORS 1 ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=30
  COMMAND test/api/stuck_stream_test --gtest_filter=*HasNotBegun)
gc_test(api.graph_fault LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=3 COMMAND test/api/graph_fault_test)
# Memory is freed though graphs hold it; destroying does not wait for them; and they wait for ever.
gc_mutant(140 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=8
  COMMAND test/api/graph_fault_test --gtest_filter=*OfThreads/abort_peer_aborts_small)
gc_mutant(141 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=1
  COMMAND test/api/graph_fault_test --gtest_filter=*OfThreads/destroy_peer_is_late_registered)
gc_mutant(142 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=1 GC_TEST_BOUND=3
  COMMAND test/api/graph_fault_test --gtest_filter=*OfThreads/destroy_peer_is_late_small)
gc_test(api.repeat LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 COMMAND test/api/repeat_test)
gc_test(api.repeat.3_threads LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_PLAN_CACHE=4 GPUCOLL_THREADS=3 GPUCOLL_CHANNELS=3
  COMMAND test/api/repeat_test)
# Operations that come again, and what they must be checked for: memory that was freed, operations that were destroyed,
# another communicator, a group; and each of them is written down for the other ranks.
set(kept_env GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=5 GPUCOLL_COPY_ENGINE_BYTES=50K)
function(gc_kept_mutant number test)
  gc_mutant(${number} MUST_PRINT "FAILED TEST" LABELS api ENV ${kept_env}
    COMMAND test/api/kept_operations_test --gtest_filter=*${test}*)
endfunction()
gc_test(api.kept_operations LABELS api ENV ${kept_env} COMMAND test/api/kept_operations_test)
foreach(plans 1 128)
  gc_test(api.kept_operations.${plans}_plans LABELS api ENV ${kept_env} GPUCOLL_PLAN_CACHE=${plans}
    COMMAND test/api/kept_operations_test --gtest_filter=KeptMessages.*)
endforeach()
gc_mutant(395 MUST_PRINT "exit status [1-9][0-9]* instead of 0" LABELS api ENV ${kept_env}
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "  PASSED  "
    ${GC_BUILD}/test/api/kept_operations_test --gtest_filter=*BuffersThatWereFreed*)
gc_kept_mutant(396 AnOpThatWasDestroyed)
gc_mutant(397 MUST_PRINT "exit status [1-9][0-9]* instead of 0" LABELS api ENV ${kept_env}
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "  PASSED  "
    ${GC_BUILD}/test/api/kept_operations_test --gtest_filter=*ANewCommunicator*)
gc_kept_mutant(398 InAGroup)
gc_kept_mutant(399 CallDifferently)
gc_kept_mutant(480 AreCounted)
gc_kept_mutant(481 ListsThatSaySomethingElse)
gc_kept_mutant(483 EachRoot)
gc_kept_mutant(495 OneRankMayCapture)
gc_kept_mutant(484 WithoutBytes)
gc_test(api.in_place LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 COMMAND test/api/in_place_test)
gc_test(api.in_place.copy LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_COPY_ENGINE_BYTES=50K COMMAND test/api/in_place_test)
# All calls of a group are put aside at one place; and memory is given back though graphs have it.
gc_mutant(220 MUST_PRINT "FAILED TEST" LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=5
  COMMAND test/api/in_place_test --gtest_filter=InPlace.CallsOfAGroupArePutAsideApart)
gc_mutant(221 MUST_PRINT "exit status [1-9][0-9]* instead of 0" LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=5
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "  PASSED  "
    ${GC_BUILD}/test/api/in_place_test --gtest_filter=InPlace.GraphsKeepTheirPlace)
gc_test(api.share LABELS api plain ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 COMMAND test/api/share_test)
gc_test(api.share.copy LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_COPY_ENGINE_BYTES=1K COMMAND test/api/share_test)
# Children of ranks; and with what they may not do: use the device, wait for peers.
gc_test(api.fork LABELS api ENV GPUCOLL_DEVICE=emu COMMAND test/api/fork_test)
gc_mutant(150 MUST_PRINT "a child ended with status" LABELS api ENV GPUCOLL_DEVICE=emu COMMAND test/api/fork_test)
gc_mutant(151 MUST_PRINT "a child has not ended by exit" LABELS api ENV GPUCOLL_DEVICE=emu COMMAND test/api/fork_test)
gc_test(api.processes LABELS api PROCESSORS 2 ENV GPUCOLL_DEVICE=emu COMMAND test/api/processes_test)
# Ranks are on nodes of their own here: two on each of two, and all apart.
foreach(nodes 2 4)
  gc_test(api.processes.${nodes}_nodes LABELS api PROCESSORS 2 ENV GPUCOLL_DEVICE=emu GC_TEST_NODES=${nodes}
    COMMAND test/api/processes_test)
endforeach()
# A rank at rest receives nothing.
gc_mutant(496 MUST_PRINT "FAILED.*Processes.WhatARank" LABELS api
  ENV GPUCOLL_DEVICE=emu GC_TEST_NODES=2 GPUCOLL_TIMEOUT=5
  COMMAND test/api/processes_test --gtest_filter=Processes.WhatARank*)
# Nobody looks whether a rank that has closed has made the calls of this one.
gc_mutant(494 MUST_PRINT "FAILED.*Processes.ACollectiveThat" LABELS api
  ENV GPUCOLL_DEVICE=emu GC_TEST_NODES=2 GPUCOLL_TIMEOUT=5
  COMMAND test/api/processes_test --gtest_filter=Processes.ACollectiveThat*)
# A rank that settles does not wait for the calls of others.
gc_mutant(615 MUST_PRINT "FAILED.*Processes.ACallThatDiffers" LABELS api
  ENV GPUCOLL_DEVICE=emu GC_TEST_NODES=2 COMMAND test/api/processes_test --gtest_filter=Processes.ACallThatDiffers*)
# It waits from the time on when it began to settle.
gc_mutant(625 MUST_PRINT "FAILED.*Processes.ACallThatDiffersFailsWhere" LABELS api
  ENV GPUCOLL_DEVICE=emu GC_TEST_NODES=2 COMMAND test/api/processes_test --gtest_filter=Processes.ACallThatDiffersFailsWhere*)
# A rank that has closed logs the errors of the others.
gc_mutant(614 MUST_PRINT "FAILED.*Processes.ARankThatHasClosed" LABELS api
  ENV GPUCOLL_DEVICE=emu COMMAND test/api/processes_test --gtest_filter=Processes.ARankThatHasClosed*)
# A rank tells those of other nodes of its fault once its watchdog looks again.
gc_mutant(612 MUST_PRINT "FAILED.*Processes.ARankThatEnds" LABELS api
  ENV GPUCOLL_DEVICE=emu GC_TEST_NODES=4 COMMAND test/api/processes_test --gtest_filter=Processes.ARankThatEnds*)
gc_test(api.all_reduce.one_shot LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_ONE_SHOT_BYTES=8M COMMAND test/api/all_reduce_test)
# Up to the most that a mesh over a network carries: on the emulated device, one_shot_bytes is less by default.
gc_test(api.all_reduce.network_mesh LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=tcp GPUCOLL_ONE_SHOT_BYTES=8M COMMAND test/api/all_reduce_test)
gc_test(api.differential.network_mesh LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=8000 GPUCOLL_TEST_ROUNDS=8 GPUCOLL_TEST_BYTES=40000
      GPUCOLL_TRANSPORT=tcp GPUCOLL_ONE_SHOT_BYTES=8M
  COMMAND test/api/differential_test)
gc_test(api.group LABELS api ENV GPUCOLL_DEVICE=emu COMMAND test/api/group_test)
gc_test(api.send_recv LABELS api ENV GPUCOLL_DEVICE=emu COMMAND test/api/send_recv_test)
gc_test(api.group.tcp LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=tcp COMMAND test/api/group_test)
gc_test(api.send_recv.tcp LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TRANSPORT=tcp GPUCOLL_TCP_SOCKETS=3 COMMAND test/api/send_recv_test)
gc_test(api.collectives LABELS api TIMEOUT 240 ENV GPUCOLL_DEVICE=emu COMMAND test/api/collectives_test)
# A build without the kernel of a barrier.
gc_mutant(465 MUST_PRINT "a barrier.*is left out of this build" LABELS api ENV GPUCOLL_DEVICE=emu
  COMMAND test/api/collectives_test --gtest_filter=*ABarrier*)
foreach(protocol simple ll ll128)
  gc_test(api.collectives.${protocol} LABELS api TIMEOUT 240
    ENV GPUCOLL_DEVICE=emu GPUCOLL_PROTOCOL=${protocol} GPUCOLL_ONE_SHOT_BYTES=auto GPUCOLL_CHANNELS=3
        GPUCOLL_BUFFER_BYTES=4K
    COMMAND test/api/collectives_test --gtest_filter=Ranks/*/1:Ranks/*/2)
endforeach()
gc_test(api.collectives.all_pairs LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_ALGORITHM=all_pairs GPUCOLL_CHANNELS=3
  COMMAND test/api/collectives_test --gtest_filter=Ranks/*/1:Ranks/*/2)
# Random calls: fixed seeds, the same ones over other ways.
gc_test(api.differential LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_ROUNDS=15 COMMAND test/api/differential_test)
gc_test(api.differential.small_buffers LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=1000 GPUCOLL_TEST_ROUNDS=8 GPUCOLL_TEST_BYTES=100000
      GPUCOLL_THREADS=3 GPUCOLL_CHANNELS=3 GPUCOLL_BUFFER_BYTES=4K GPUCOLL_SEND_RECV_BUFFER_BYTES=2K GPUCOLL_ALGORITHM=tree
  COMMAND test/api/differential_test)
gc_test(api.differential.shm LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=2000 GPUCOLL_TEST_ROUNDS=8 GPUCOLL_TEST_BYTES=100000
      GPUCOLL_TRANSPORT=shm GPUCOLL_EMU_DEVICES=1
  COMMAND test/api/differential_test)
gc_test(api.differential.tcp LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=6000 GPUCOLL_TEST_ROUNDS=8 GPUCOLL_TEST_BYTES=100000
      GPUCOLL_TRANSPORT=tcp GPUCOLL_TCP_SOCKETS=2 GPUCOLL_CHANNELS=3 GPUCOLL_SEND_RECV_BUFFER_BYTES=2K
  COMMAND test/api/differential_test)
# A process for each rank, on nodes of one rank and of several: the cases have up to 8 ranks.
foreach(nodes abbb aab abaccbca)
  gc_test(api.differential.nodes.${nodes} LABELS api TIMEOUT 240
    ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=7000 GPUCOLL_TEST_ROUNDS=8 GC_TEST_NODES=${nodes}
    COMMAND test/api/differential_test --gtest_filter=*AProcess*)
endforeach()
gc_test(api.differential.share LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=3000 GPUCOLL_TEST_ROUNDS=12 GPUCOLL_TEST_BYTES=100000
      GPUCOLL_SPLIT_SHARE=1
  COMMAND test/api/differential_test)
gc_test(api.differential.all_pairs LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=5000 GPUCOLL_TEST_ROUNDS=12 GPUCOLL_TEST_BYTES=100000
      GPUCOLL_ALGORITHM=all_pairs GPUCOLL_THREADS=3 GPUCOLL_CHANNELS=3
  COMMAND test/api/differential_test)
# Messages by copy engine; and the same calls with kernels alone.
gc_test(api.copy LABELS api PROCESSORS 2
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_ENGINE_BYTES=50K GPUCOLL_TIMEOUT=3 COMMAND test/api/copy_test)
gc_test(api.copy.processes LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_ENGINE_BYTES=50K GPUCOLL_COPY_REDUCTION_BYTES=50K GPUCOLL_COPY_REDUCTION_PIECE=4K
  COMMAND test/api/copy_processes_test)
# As nobody has asked for copy engines, nothing waits for copies that the host starts.
set(freeing COMMAND test/api/copy_processes_test --gtest_filter=*LetMemoryBeFreed*)
gc_test(api.copy.freeing LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=20 ${freeing})
gc_mutant(620 MUST_PRINT "cannot start[a-z ]*: another thread of its process is in a function of CUDA" LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=5 ${freeing})
gc_test(api.copy.kept_out LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=3 GPUCOLL_COPY_ENGINE_BYTES=50K
  COMMAND test/api/copy_processes_test --gtest_filter=*EndWhereAFree*)
gc_test(api.copy.off LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_ENGINE_BYTES=off GPUCOLL_TIMEOUT=20
  COMMAND test/api/copy_test
    --gtest_filter=-CopyFault.OneSideInAGraphEndsInTime:CopyFault.BuffersMayBeFreedRightAfterAnAbort)
gc_test(api.send_recv.copy LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_ENGINE_BYTES=500 COMMAND test/api/send_recv_test)
# Large reductions by copy engines, in many pieces and in few, and random calls.
gc_test(api.copy_reduction LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_REDUCTION_BYTES=12K GPUCOLL_COPY_REDUCTION_PIECE=4K GPUCOLL_TIMEOUT=20
  COMMAND test/api/copy_reduction_test)
gc_test(api.copy_reduction.few_pieces LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_REDUCTION_BYTES=12K GPUCOLL_COPY_REDUCTION_PIECE=1M GPUCOLL_TIMEOUT=20
  COMMAND test/api/copy_reduction_test --gtest_filter=-*Fault*)
gc_test(api.differential.copy_reduction LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_SEED=4000 GPUCOLL_TEST_ROUNDS=12 GPUCOLL_TEST_BYTES=200000
      GPUCOLL_COPY_REDUCTION_BYTES=1K GPUCOLL_COPY_REDUCTION_PIECE=1K
  COMMAND test/api/differential_test)
# Straight into registered memory: all of it, and what is left where messages go by copy engines.
gc_test(api.direct.processes LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_ENGINE_BYTES=off GPUCOLL_PROTOCOL=simple GPUCOLL_ALGORITHM=ring GPUCOLL_TIMEOUT=20
    GPUCOLL_VERBOSE=2
  COMMAND test/api/direct_processes_test)
gc_test(api.direct.small_steps LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_DIRECT_BYTES=2 GPUCOLL_BUFFER_BYTES=4K GPUCOLL_PROTOCOL=simple GPUCOLL_ALGORITHM=ring
    GPUCOLL_THREADS=3 GPUCOLL_TIMEOUT=20 COMMAND test/api/collectives_test --gtest_filter=*Large*/2:*Move*/3)
gc_test(api.register LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_COPY_ENGINE_BYTES=50K GPUCOLL_TIMEOUT=20 COMMAND test/api/register_test)
gc_test(api.zero_copy_processes LABELS api ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=20 GPUCOLL_VERBOSE=2
  COMMAND test/api/zero_copy_processes_test)
# The device has room for what is in use only.
gc_test(api.leak_processes LABELS api plain TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_VERBOSE=2 GPUCOLL_EMU_MEMORY=64M GPUCOLL_COPY_ENGINE_BYTES=50K
      GPUCOLL_COPY_REDUCTION_BYTES=200K GPUCOLL_COPY_REDUCTION_PIECE=64K
  COMMAND test/api/leak_processes_test)
gc_test(api.zero_copy_processes.rings LABELS api
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=20 GPUCOLL_VERBOSE=2 GPUCOLL_ALL_PAIRS_BYTES=off
  COMMAND test/api/zero_copy_processes_test)
gc_test(api.differential.zero_copy LABELS api TIMEOUT 240
  ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=30 GPUCOLL_TEST_ROUNDS=15 GPUCOLL_ALGORITHM=zero_copy
  COMMAND test/api/differential_test)
# Few random calls with ThreadSanitizer, over all that is below the C API.
if(GC_TSAN_VARIANTS)
  gc_test(api.nonblocking.tsan LABELS api tsan TIMEOUT 240 PROCESSORS 2 ENV ${nonblocking_env} GPUCOLL_TIMEOUT=60
    COMMAND test/api/nonblocking_test_tsan)
  gc_test(api.kept_operations.tsan LABELS api tsan TIMEOUT 240 PROCESSORS 2
    ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=60 COMMAND test/api/kept_operations_test_tsan)
  gc_test(api.differential.tsan LABELS api tsan TIMEOUT 240 PROCESSORS 2
    ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=60 GPUCOLL_TEST_ROUNDS=8 GPUCOLL_TEST_BYTES=60000
    COMMAND test/api/differential_test_tsan)
  gc_test(api.differential.tsan_copies LABELS api tsan TIMEOUT 240
    ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=60 GPUCOLL_TEST_SEED=4000 GPUCOLL_TEST_ROUNDS=8 GPUCOLL_TEST_BYTES=60000
        GPUCOLL_COPY_ENGINE_BYTES=1K GPUCOLL_COPY_REDUCTION_BYTES=1K GPUCOLL_COPY_REDUCTION_PIECE=1K
        GPUCOLL_SPLIT_SHARE=1
    COMMAND test/api/differential_test_tsan --gtest_filter=-*AProcess*)
  gc_test(api.differential.tsan_zero_copy LABELS api tsan TIMEOUT 240
    ENV GPUCOLL_DEVICE=emu GPUCOLL_TIMEOUT=60 GPUCOLL_TEST_SEED=5000 GPUCOLL_TEST_ROUNDS=6 GPUCOLL_TEST_BYTES=60000
        GPUCOLL_ALGORITHM=zero_copy GPUCOLL_THREADS=3 GPUCOLL_CHANNELS=3
    COMMAND test/api/differential_test_tsan --gtest_filter=*AThread*)
endif()
