# Tests of label unit: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
gc_test(unit.parameters_tested LABELS unit COMMAND ${GC_SOURCE}/test/unit/parameters_tested.sh ${GC_SOURCE})
gc_test(unit.causes_tested LABELS unit COMMAND ${GC_SOURCE}/test/unit/causes_tested.sh ${GC_SOURCE})
gc_test(unit.rooms LABELS unit COMMAND ${GC_SOURCE}/test/unit/rooms.sh ${GC_SOURCE})
gc_test(unit.documents LABELS unit COMMAND ${GC_SOURCE}/test/unit/documents.sh ${GC_SOURCE})
# First the system's, which has the packages that contrib/check installs.
find_program(GC_PYTHON python3 HINTS /usr/bin)
if(GC_PYTHON)
  gc_test(unit.api_document LABELS unit COMMAND ${GC_PYTHON} ${GC_SOURCE}/contrib/api-reference --check)
  gc_test(unit.troubleshooting LABELS unit COMMAND ${GC_PYTHON} ${GC_SOURCE}/test/unit/troubleshooting.py ${GC_SOURCE})
endif()
gc_test(unit.parameters_document LABELS unit
  COMMAND ${GC_SOURCE}/test/unit/parameters_document.sh ${GC_SOURCE} ${GC_BUILD}/src/base/observe/params_doc)
gc_test(unit.kernel_subset LABELS unit COMMAND ${GC_SOURCE}/test/unit/kernel_subset.sh ${GC_SOURCE} ${GC_BUILD})
gc_test(unit.tarball LABELS unit COMMAND ${GC_SOURCE}/test/unit/tarball.sh ${GC_SOURCE} ${GC_BUILD})
set_tests_properties(unit.tarball PROPERTIES SKIP_RETURN_CODE 77)
gc_test(unit.base LABELS unit COMMAND test/unit/base/base_test)
gc_mutant(120 MUST_PRINT "FAILED.*SharedMemory.SaysWhichLimitToRaise" LABELS unit
  COMMAND test/unit/base/base_test --gtest_filter=SharedMemory.*)
# Where the system knows no pidfds.
gc_mutant(391 MUST_PRINT "PASSED.*1 test" LABELS unit COMMAND test/unit/core/core_test --gtest_filter=Liveness.*)
gc_test(unit.trace LABELS unit COMMAND test/unit/base/trace_test)
gc_mutant(240 MUST_PRINT "FAILED.*Trace.OfAForkedChildIsNone" LABELS unit
  COMMAND test/unit/base/trace_test --gtest_filter=Trace.OfAForkedChildIsNone)
gc_test(unit.traced_calls LABELS unit COMMAND test/unit/coll/traced_calls_test)
gc_test(unit.core LABELS unit COMMAND test/unit/core/core_test)
gc_test(unit.board LABELS unit ENV GPUCOLL_TIMEOUT=1 COMMAND test/unit/mpi/board_test)
gc_mutant(182 MUST_PRINT "FAILED.*RemoteProcess.AnswersAreNotWaitedForWithoutEnd" LABELS unit ENV GPUCOLL_TIMEOUT=1
  COMMAND test/unit/mpi/board_test --gtest_filter=RemoteProcess.AnswersAreNotWaitedForWithoutEnd)
gc_test(unit.pairs LABELS unit COMMAND test/unit/proto/pairs_test)
gc_test(unit.causes LABELS unit COMMAND test/unit/coll/causes_test)
gc_test(unit.operands LABELS unit COMMAND test/unit/coll/operands_test)
gc_test(unit.merged_call LABELS unit COMMAND test/unit/coll/merged_call_test)
gc_test(unit.background_task LABELS unit tsan asan COMMAND test/unit/coll/background_task_test)
gc_test(unit.request_sequence LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/coll/request_sequence_test)
gc_test(unit.request LABELS unit COMMAND test/unit/coll/request_test)
# In processes of their own, as nodes are known once a process.
gc_test(unit.call_matcher LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/call_matcher_test --gtest_filter=*ACallHas*)
# A peer's line of a later call hides the number that this rank knows.
gc_mutant(333 MUST_PRINT "FAILED.*CallMatcher.ACallHasANumber" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/call_matcher_test --gtest_filter=*ACallHas*)
gc_test(unit.board_bootstrap LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/call_matcher_test --gtest_filter=BoardBootstrap.*)
# It forgets whom it has seen to have ended.
gc_mutant(450 MUST_PRINT "FAILED.*BoardBootstrap.SaysThatARank" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/call_matcher_test --gtest_filter=BoardBootstrap.*)
gc_test(unit.call_matcher.nodes LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/call_matcher_test --gtest_filter=*OfAnotherNode*)
gc_test(unit.remote_boards LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/call_matcher_test --gtest_filter=RemoteBoards.*)
# They try but once.
gc_mutant(454 MUST_PRINT "FAILED.*RemoteBoards.WatchAgain" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/call_matcher_test --gtest_filter=RemoteBoards.*)
# Raises no number of another node's process; asks nobody there who has host memory.
foreach(number 180 181)
  gc_mutant(${number} MUST_PRINT "FAILED.*CallMatcher.ARankOfAnotherNode" LABELS unit ENV GPUCOLL_DEVICE=emu
    COMMAND test/unit/coll/call_matcher_test --gtest_filter=*OfAnotherNode*)
endforeach()
gc_test(unit.kept_calls LABELS unit COMMAND test/unit/coll/kept_calls_test)
# Calls that differ in a few bits alone share a set, and make room for each other.
gc_mutant(592 MUST_PRINT "FAILED.*KeptCalls" LABELS unit COMMAND test/unit/coll/kept_calls_test)
# In processes of their own, which have a board each. UBSan takes objects for broken where there are no descriptors.
gc_test(unit.mpi_runtime LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/mpi_runtime_test --gtest_filter=MpiRuntime.IsNotMadeBehindACallThatIsGone)
gc_test(unit.mpi_runtime.missing LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/coll/mpi_runtime_test --gtest_filter=MpiRuntime.FailsWhereARankDoesNotCome)
if(NOT GC_SANITIZERS MATCHES undefined)
  gc_test(unit.mpi_runtime.failing LABELS unit plain ENV GPUCOLL_DEVICE=emu
    COMMAND test/unit/coll/mpi_runtime_test --gtest_filter=MpiRuntime.StaysWithItsFaultUntilFinish)
endif()
gc_test(unit.launch_order LABELS unit COMMAND test/unit/mpi/launch_order_test)
gc_mutant(160 MUST_PRINT "FAILED.*LaunchOrderTest.NeverHangs" LABELS unit
  COMMAND test/unit/mpi/launch_order_test --gtest_filter=LaunchOrderTest.NeverHangs)
gc_mutant(161 MUST_PRINT "FAILED.*LaunchOrderTest.NeverHangs" LABELS unit
  COMMAND test/unit/mpi/launch_order_test --gtest_filter=LaunchOrderTest.NeverHangs)
gc_test(unit.progress_thread LABELS unit COMMAND test/unit/mpi/progress_thread_test)
gc_mutant(162 MUST_PRINT "FAILED.*WhoComesWhileAnotherThreadIsAtItGoesOn" LABELS unit
  COMMAND test/unit/mpi/progress_thread_test --gtest_filter=*GoesOn)
gc_test(unit.tuner LABELS unit COMMAND test/unit/core/tuner_test)
gc_test(unit.tuning_file LABELS unit COMMAND test/unit/core/tuning_file_test)
gc_test(unit.address LABELS unit COMMAND test/unit/net/address_test)
gc_test(unit.bootstrap LABELS unit COMMAND test/unit/net/bootstrap_test --gtest_filter=-Few*)
if(NOT GC_SANITIZERS MATCHES undefined)  # as above
  gc_test(unit.bootstrap.few_descriptors LABELS unit plain COMMAND test/unit/net/bootstrap_test --gtest_filter=Few*)
endif()
if(GC_TSAN_VARIANTS)  # a child of several threads may start no others there
  # ThreadSanitizer ends a child of a process with threads that starts one.
  gc_test(unit.bootstrap.tsan LABELS unit
    COMMAND test/unit/net/bootstrap_test_tsan --gtest_filter=-Few*:SocketBootstrap.NamesARankThatIsStopped)
endif()
gc_test(unit.mesh_lines LABELS unit COMMAND test/unit/net/mesh_lines_test)
if(GC_TSAN_VARIANTS)
  gc_test(unit.mesh_lines.tsan LABELS unit TIMEOUT 240 COMMAND test/unit/net/mesh_lines_test_tsan)
endif()
gc_mutant(605 MUST_PRINT "FAILED.*MeshLines.AreTakenOnceAllAreThere" LABELS unit
  COMMAND test/unit/net/mesh_lines_test --gtest_filter=MeshLines.AreTaken*)  # packs are taken that are not there
gc_mutant(606 MUST_PRINT "FAILED.*MeshLines.RefuseWhatIsNoOperation" LABELS unit
  COMMAND test/unit/net/mesh_lines_test --gtest_filter=MeshLines.Refuse*)  # an operation is taken out of turn
gc_test(unit.tcp LABELS unit COMMAND test/unit/net/tcp_test)
gc_mutant(490 MUST_PRINT "FAILED.*TcpLink.AnOrderlyEnd" LABELS unit
  COMMAND test/unit/net/tcp_test --gtest_filter=TcpLink.AnOrderlyEnd*)  # the mark is never sent
gc_mutant(491 MUST_PRINT "FAILED.*TcpLink.AnEndWithoutAMark" LABELS unit
  COMMAND test/unit/net/tcp_test --gtest_filter=TcpLink.AnEndWithoutAMark*)  # and is taken for granted
gc_mutant(497 MUST_PRINT "FAILED.*TcpLink.SaysWhatIsNot" LABELS unit
  COMMAND test/unit/net/tcp_test --gtest_filter=TcpLink.SaysWhatIsNot*)  # what the system has not sent counts as sent
gc_mutant(505 MUST_PRINT "FAILED.*FrameWriter.AHostThatIsOutOfReach" LABELS unit
  COMMAND test/unit/net/tcp_test --gtest_filter=FrameWriter.AHostThatIsOutOfReach*)  # counts as this host's own failure
gc_mutant(498 MUST_PRINT "FAILED.*TcpLink.AHostThatDoesNotSend" LABELS unit
  COMMAND test/unit/net/tcp_test --gtest_filter=TcpLink.AHostThatDoesNotSend*)  # a host that refuses goes unnoticed
gc_mutant(613 MUST_PRINT "FAILED  . TcpLink" LABELS unit
  COMMAND test/unit/net/tcp_test --gtest_filter=TcpLink.ManyOpenFiles)  # a host that cannot accept is waited for
gc_mutant(616 MUST_PRINT "FAILED  . TcpLink" LABELS unit  # nobody hears that no descriptor is left
  COMMAND test/unit/net/tcp_test --gtest_filter=TcpLink.ManyOpenFiles)
gc_mutant(624 MUST_PRINT "FAILED.*Channel.CarriesMessagesWhere" LABELS unit  # the last one is given up in each turn
  COMMAND test/unit/net/tcp_test --gtest_filter=Channel.CarriesMessagesWhere*)
gc_test(unit.tcp.ipv6 LABELS unit
  COMMAND ${GC_SOURCE}/test/unit/over_ipv6.sh ${GC_BUILD}/test/unit/net/tcp_test)
set_tests_properties(unit.tcp.ipv6 PROPERTIES SKIP_RETURN_CODE 77)
if(GC_TSAN_VARIANTS)
  gc_test(unit.tcp.tsan LABELS unit TIMEOUT 240 COMMAND test/unit/net/tcp_test_tsan)
endif()
if(GC_VERBS)
  gc_test(unit.verbs LABELS unit ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS} COMMAND test/unit/net/verbs_test)
  gc_test(unit.verbs_devices LABELS unit ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}
    COMMAND test/unit/net/verbs_devices_test)
  gc_mutant(538 MUST_PRINT "FAILED.*VerbsDevicesTest.AreThoseNearestToTheGpu" LABELS unit
    ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}
    COMMAND test/unit/net/verbs_devices_test --gtest_filter=*.AreThoseNearestToTheGpu)
  gc_mutant(539 MUST_PRINT "FAILED.*VerbsDevicesTest.LanesTakeTheRailsInTurn" LABELS unit
    ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}
    COMMAND test/unit/net/verbs_devices_test --gtest_filter=*.LanesTakeTheRailsInTurn)
  gc_mutant(540 MUST_PRINT "FAILED.*VerbsDevicesTest.AreAllTried" LABELS unit
    ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS} COMMAND test/unit/net/verbs_devices_test --gtest_filter=*.AreAllTried)
  gc_mutant(190 MUST_PRINT "FAILED.*Verbs.CarrySlicesOfAnySize" LABELS unit ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}
    COMMAND test/unit/net/verbs_test --gtest_filter=Verbs.CarrySlicesOfAnySize*)
  gc_mutant(192 MUST_PRINT "FAILED.*Verbs.ALinkThatGoesDown" LABELS unit ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}
    COMMAND test/unit/net/verbs_test --gtest_filter=Verbs.ALinkThatGoesDown*)
  gc_test(unit.verbs_failover LABELS unit ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}
    COMMAND test/unit/net/verbs_failover_test)
  function(gc_failover_mutant number test)
    gc_mutant(${number} MUST_PRINT "FAILED.*VerbsFailover.${test}" LABELS unit ENV GPUCOLL_VERBS_LIBRARY=${GC_FAKE_VERBS}
      COMMAND test/unit/net/verbs_failover_test --gtest_filter=*.${test})
  endfunction()
  # A rail that is given up still takes what comes.
  gc_failover_mutant(560 NothingLateComesIntoASlot)
  # Slices are sent again by what the sending end knows; notes are not; a side alone allows it.
  gc_failover_mutant(561 AMessageFailsAtAnyPlace)
  gc_failover_mutant(562 AMessageFailsAtAnyPlace)
  gc_failover_mutant(563 BothEndsMustAllowIt)
  # The sending end gives up one of the devices that the other side has given up.
  gc_failover_mutant(564 NoNoticeIsTakenBehindALaterOne)
  # The notes of slices that were lost twice are not sent again.
  gc_failover_mutant(565 NotesAreSentAgainOfALaneThatMovesTwice)
  # A queue pair that the device keeps counts as destroyed.
  gc_failover_mutant(566 AQueuePairThatStaysEndsTheLink)
  # A link that has failed goes on.
  gc_failover_mutant(567 AFailureOfTheLastDeviceStays)
  # Heads are not told again.
  gc_failover_mutant(568 AHeadThatWasLostIsToldAgain)
  gc_test(unit.verbs.missing LABELS unit ENV GPUCOLL_VERBS_LIBRARY=/nowhere.so
    COMMAND test/unit/net/verbs_test --gtest_filter=NoVerbs.* --gtest_also_run_disabled_tests)
  if(GC_TSAN_VARIANTS)
    gc_test(unit.verbs.tsan LABELS unit TIMEOUT 240
      ENV GPUCOLL_VERBS_LIBRARY=${GC_BUILD}/test/unit/net/.libs/fake_verbs_tsan.so COMMAND test/unit/net/verbs_test_tsan)
    gc_test(unit.verbs_failover.tsan LABELS unit TIMEOUT 240 ENV
      GPUCOLL_VERBS_LIBRARY=${GC_BUILD}/test/unit/net/.libs/fake_verbs_tsan.so
      COMMAND test/unit/net/verbs_failover_test_tsan)
  endif()
endif()
function(gc_bootstrap_mutant number test)
  gc_mutant(${number} MUST_PRINT "FAILED.*${test}" LABELS unit
    COMMAND test/unit/net/bootstrap_test --gtest_filter=*.${test})
endfunction()
gc_bootstrap_mutant(121 ARankThatCannotComeTellsTheOthersWhy)  # the first failure is told to nobody
gc_bootstrap_mutant(122 OfThemOnlySoManyAreKept)
gc_bootstrap_mutant(455 HaveAQuarterOfTheDescriptors)  # have all
gc_bootstrap_mutant(452 DialsAgainWhereItWasTakenForAStranger)  # gives up instead
gc_bootstrap_mutant(453 ComesAgainAfterAPauseInWhichItReturnsAtOnce)  # without a pause
gc_bootstrap_mutant(123 MeetsOverTheInterfaceThatIsNamed)  # the maker listens everywhere
gc_bootstrap_mutant(124 ListensOnlyWhereTheRanksMeet)      # and so do ranks
gc_bootstrap_mutant(125 NamesARankThatIsStopped)           # nobody looks for ranks that are stopped
gc_bootstrap_mutant(640 ASpareOneIsForWhoSpendsIt)         # others take it meanwhile
gc_bootstrap_mutant(127 TakesNoProcessOfThisHostForAMakerElsewhere)
foreach(part graph memory share stream)
  gc_test(unit.emu_${part} LABELS unit COMMAND test/unit/gpu/emu_${part}_test)
  if(GC_TSAN_VARIANTS)
    gc_test(unit.emu_${part}.tsan LABELS unit COMMAND test/unit/gpu/emu_${part}_test_tsan)
  endif()
endforeach()
gc_test(unit.emu_blocks LABELS unit ENV GPUCOLL_EMU_BLOCKS=4 COMMAND test/unit/gpu/emu_blocks_test)
foreach(device auto cuda emu)
  gc_test(unit.gpu_platform.${device} LABELS unit ENV GPUCOLL_DEVICE=${device} CUDA_VISIBLE_DEVICES=
          COMMAND test/unit/gpu/gpu_platform_test)
endforeach()
# Built with CUDA only; skips itself where there is no GPU.
if(EXISTS "${GC_BUILD}/test/unit/gpu/gpu_cuda_test")
  gc_test(unit.gpu_cuda LABELS unit plain device COMMAND test/unit/gpu/gpu_cuda_test)
endif()
gc_test(unit.planner LABELS unit COMMAND test/unit/core/plan/planner_test)
gc_mutant(343 MUST_PRINT "FAILED TEST" LABELS unit COMMAND test/unit/core/plan/planner_test --gtest_filter=*GivesAllBlocks*)
gc_test(unit.copy_engine_reduction LABELS unit COMMAND test/unit/core/copy_engine_reduction_test)
gc_test(unit.copy_reduction LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/copy_reduction_test)
gc_mutant(170 MUST_PRINT "FAILED.*CopyReductionPlan.AreRightInAnyOrderOfEvents" LABELS unit
  COMMAND test/unit/core/copy_engine_reduction_test)
gc_mutant(171 MUST_PRINT "FAILED.*CopyReduction.GetsOn" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/copy_reduction_test --gtest_filter=*GetsOnWithSeveralCalls*)
gc_test(unit.copy_messages LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/copy_messages_test)
gc_test(unit.reclaim LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/reclaim_test)
gc_test(unit.closing LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/closing_test)
if(GC_TSAN_VARIANTS)
  gc_test(unit.closing.tsan LABELS unit TIMEOUT 240 ENV GPUCOLL_DEVICE=emu
    COMMAND test/unit/core/closing_test_tsan --gtest_filter=*WhateverOrder*)
endif()
# Each communicator is waited for alone; each that has failed gets a time of its own; peers' calls are waited for.
gc_mutant(508 MUST_PRINT "FAILED.*Closing.WaitsOnce" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/closing_test --gtest_filter=*WaitsOnce*)
gc_mutant(509 MUST_PRINT "FAILED.*Closing.GivesAll" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/closing_test --gtest_filter=*GivesAll*)
gc_mutant(529 MUST_PRINT "FAILED.*the ranks wait for each other" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/closing_test --gtest_filter=*WhateverOrder*)
gc_test(unit.quiescence LABELS unit COMMAND test/unit/core/quiescence_test)
if(GC_TSAN_VARIANTS)
  gc_test(unit.quiescence.tsan LABELS unit COMMAND test/unit/core/quiescence_test_tsan)
endif()
gc_test(unit.send_order LABELS unit COMMAND test/unit/core/send_order_test)
gc_test(unit.work_fifo LABELS unit COMMAND test/unit/core/work_fifo_test)
gc_test(unit.resident_kernel LABELS unit COMMAND test/unit/core/resident_kernel_test)
gc_test(unit.launcher LABELS unit COMMAND test/unit/core/launcher_test)
if(GC_TSAN_VARIANTS)
  gc_test(unit.launcher.tsan LABELS unit COMMAND test/unit/core/launcher_test_tsan)
endif()
gc_test(unit.copy_queue LABELS unit tsan asan ENV GPUCOLL_DEVICE=emu GPUCOLL_RESIDENT_US=10000
  COMMAND test/unit/mpi/copy_queue_test)
gc_test(unit.copy_queue_leaving LABELS unit ENV GPUCOLL_DEVICE=emu GPUCOLL_RESIDENT_US=20
  COMMAND test/unit/mpi/copy_queue_test --gtest_filter=-*NeedsNoLaunch*)
gc_test(unit.messages LABELS unit tsan asan ENV GPUCOLL_DEVICE=emu COMMAND test/unit/pt2pt/messages_test)
# A message is ended by a name that was another one's before.
gc_mutant(511 MUST_PRINT "FAILED.*Messages.ThatAreCutOff" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/pt2pt/messages_test --gtest_filter=*CutOff*)
gc_mutant(215 MUST_PRINT "FAILED.*OfPageableMemoryShareTheSlots" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/pt2pt/messages_test --gtest_filter=*Slots)
gc_mutant(214 MUST_PRINT "FAILED.*SenderFailsBesideItsList" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/pt2pt/messages_test --gtest_filter=*BesideItsList)
gc_test(unit.mpi_process LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/mpi/mpi_process_test)
gc_mutant(416 MUST_PRINT "FAILED.*MpiProcess.EntersCollectivesAgain" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/mpi/mpi_process_test)
gc_test(unit.program_memory LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/mpi/program_memory_test)
gc_mutant(440 MUST_PRINT "FAILED.*IsOfOneDeviceUnlessManaged" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/mpi/program_memory_test)
gc_mutant(441 MUST_PRINT "FAILED.*IsPinnedPieceByPiece" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/mpi/program_memory_test)
gc_test(unit.scratch LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/mpi/scratch_test)
gc_test(unit.pinned_pool LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/mpi/pinned_pool_test)
gc_test(unit.pipelined_copy LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/mpi/pipelined_copy_test)
gc_test(unit.links LABELS unit COMMAND test/unit/core/links_test)
# A rank whose communicator has failed waits for peers' hosts.
gc_mutant(510 MUST_PRINT "FAILED.*Links.WaitForNoEnd" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=Links.WaitForNoEnd*)
gc_mutant(492 MUST_PRINT "FAILED.*LinkProgress.ComparesMessages" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkProgress.ComparesMessages*)
gc_mutant(504 MUST_PRINT "FAILED.*LinkProgress.APeerThatTakesNothing" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkProgress.APeerThatTakesNothing*)  # keeps the mark from all
gc_mutant(502 MUST_PRINT "FAILED.*LinkProgress.ARankThatHasFinished" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkProgress.ARankThatHasFinished*)  # waits for others' marks
gc_mutant(503 MUST_PRINT "FAILED.*LinkProgress.LooksAtRest" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkProgress.LooksAtRest*)  # looks all the time for a mark
gc_mutant(512 MUST_PRINT "FAILED.*LinkProgress.LooksAtEachLook" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkProgress.LooksAtEachLook*)  # looks all the time at who takes nothing
gc_mutant(528 MUST_PRINT "FAILED.*LinkProgress.ARoundThatComesLate" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkProgress.ARoundThatComesLate*)  # looks again
gc_mutant(493 MUST_PRINT "FAILED.*LinkProgress.DataThatThePeerHasNotTaken" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkProgress.DataThatThePeerHasNotTaken*)
# Over verbs, launches that are made or end do not begin the time anew.
gc_mutant(499 MUST_PRINT "FAILED.*LinkBreaks.ThatAreUncertain" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=LinkBreaks.*)
gc_mutant(191 MUST_PRINT "FAILED.*Wireup.ATrialThatFailsOnOneSide" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=Wireup.ATrialThatFailsOnOneSide*)
# Rings in the order of ranks; rings that all cross the network by the same ranks.
gc_mutant(332 MUST_PRINT "FAILED.*Rings.EnterEachNodeOnce" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=Rings.EnterEachNodeOnce*)
gc_mutant(331 MUST_PRINT "FAILED.*Rings.EnterEachNodeOnce" LABELS unit
  COMMAND test/unit/core/links_test --gtest_filter=Rings.EnterEachNodeOnce*)
gc_test(unit.peers LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/peers_test)
gc_mutant(113 MUST_PRINT "FAILED.*Peers.SayWhichParameterDiffers" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/peers_test)
gc_mutant(134 MUST_PRINT "FAILED.*Peers.HearWhyARankDidNotComeAlong" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/peers_test)
gc_mutant(451 MUST_PRINT "FAILED.*PeersOfNodes.EndTheDialing" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/peers_test --gtest_filter=PeersOfNodes.EndTheDialing*)
gc_test(unit.device_link LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/device_link_test)
gc_mutant(152 MUST_PRINT "FAILED.*DeviceLink.OfOnePairKeepsAllRanksFromLl128" LABELS unit ENV GPUCOLL_DEVICE=emu
  COMMAND test/unit/core/device_link_test)
gc_test(unit.mailbox LABELS unit COMMAND test/unit/core/mailbox_test)
gc_test(unit.registration LABELS unit plain COMMAND test/unit/core/registration_test)
# A rank that passes another's fault on as its own; that takes nobody for stopped; that blames others for its own pause;
# that ends kernels before its program can learn why.
gc_mutant(130 MUST_PRINT "FAILED  . Fault" LABELS unit
  COMMAND test/unit/core/core_test --gtest_filter=Fault.TellsPeersOfTheFirstCause)
gc_mutant(131 MUST_PRINT "FAILED  . Heart" LABELS unit
  COMMAND test/unit/core/core_test --gtest_filter=Heart.ShowsThatAProcessDoesNotRun)
gc_mutant(132 MUST_PRINT "FAILED  . Heart" LABELS unit
  COMMAND test/unit/core/core_test --gtest_filter=Heart.ClockStandsStillWhileItDoesNotBeat)
gc_mutant(133 MUST_PRINT "FAILED  . Fault" LABELS unit
  COMMAND test/unit/core/core_test --gtest_filter=Fault.TellsTheHostBeforeItEndsKernels)
# A short pause hides a longer one.
gc_mutant(139 MUST_PRINT "FAILED  . Heart" LABELS unit
  COMMAND test/unit/core/core_test --gtest_filter=Heart.ShowsTheLongerPause)
# Matching: a message that has not come is taken, and so is one for another purpose.
gc_mutant(300 MUST_PRINT "FAILED  . Mailbox" LABELS unit
  COMMAND test/unit/core/mailbox_test --gtest_filter=Mailbox.CarriesLettersOfEachLaneInOrder)
gc_mutant(301 MUST_PRINT "FAILED  . Mailbox" LABELS unit
  COMMAND test/unit/core/mailbox_test --gtest_filter=Mailbox.GathersNothingAmongRanksThatCameForDifferentThings)
# Order: a copy out of turn waits for nothing, and the last one that is ready goes first.
gc_mutant(302 MUST_PRINT "FAILED  . SendOrder" LABELS unit COMMAND test/unit/core/send_order_test)
gc_mutant(303 MUST_PRINT "FAILED  . SendOrder" LABELS unit COMMAND test/unit/core/send_order_test)
# Progress: what must wait for quiescence does not, a doorbell that nobody heard counts as heard, and items are reused
# under a launch that reads them.
gc_mutant(423 MUST_PRINT "FAILED TEST" LABELS unit COMMAND test/unit/core/launcher_test
  --gtest_filter=*WhileNothingFlies)
foreach(mutant 433 460 461)
  gc_mutant(${mutant} MUST_PRINT "FAILED TEST" LABELS unit COMMAND test/unit/core/launcher_test
    --gtest_filter=LauncherGraphMemoryTest.*)
endforeach()
foreach(mutant 466 593)
  gc_mutant(${mutant} MUST_PRINT "FAILED TEST" LABELS unit COMMAND test/unit/core/launcher_test
    --gtest_filter=*AnotherOneWithItsHandle)
endforeach()
# A graph does not wait for launches before the first capture.
gc_mutant(623 MUST_PRINT "FAILED TEST" LABELS unit COMMAND test/unit/core/launcher_test --gtest_filter=SeldomTest.*)
foreach(mutant 462 463)
  gc_mutant(${mutant} MUST_PRINT "FAILED TEST" LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/reclaim_test
    --gtest_filter=Reclaim.*)
endforeach()
gc_mutant(464 MUST_PRINT "Failure" LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/copy_messages_test
  --gtest_filter=*DeviceThatHasFailed)
gc_mutant(467 MUST_PRINT "FAILED TEST" LABELS unit COMMAND test/unit/core/quiescence_test)
gc_mutant(425 MUST_PRINT "FAILED TEST" LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/reclaim_test
  --gtest_filter=Finish.*)
gc_mutant(426 MUST_PRINT "FAILED TEST" LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/reclaim_test
  --gtest_filter=*Proxy*)
gc_mutant(430 MUST_PRINT "FAILED TEST" LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/reclaim_test
  --gtest_filter=*AtExit)
gc_mutant(431 MUST_PRINT "FAILED TEST" LABELS unit ENV GPUCOLL_DEVICE=emu COMMAND test/unit/core/reclaim_test
  --gtest_filter=*BeingDestroyed)
gc_mutant(429 MUST_PRINT "FAILED TEST" LABELS unit COMMAND test/unit/core/launcher_test
  --gtest_filter=*InFlight*)
# Quiescence runs its work though launches fly, or are inside; a launch enters a closed gate.
foreach(mutant 304 590 591)
  gc_mutant(${mutant} MUST_PRINT "FAILED  . Quiescence" LABELS unit COMMAND test/unit/core/quiescence_test)
endforeach()
gc_mutant(305 MUST_PRINT "FAILED  . ResidentKernelTest" LABELS unit
  COMMAND test/unit/core/resident_kernel_test --gtest_filter=*.MissesWhatNobodyAccepts)
gc_mutant(306 MUST_PRINT "FAILED  . WorkFifo" LABELS unit COMMAND test/unit/core/work_fifo_test)
# Caches: plans of another shape, of an entry that another group has by now, and the entry used last makes room; an
# allocation for one that was freed, and the same of another rank's.
gc_mutant(307 MUST_PRINT "FAILED  . KeptTest" LABELS unit
  COMMAND test/unit/core/launcher_test --gtest_filter=KeptTest.WhatDiffersIsNotTakenForTheSame)
gc_mutant(308 MUST_PRINT "FAILED  . KeptTest" LABELS unit
  COMMAND test/unit/core/launcher_test --gtest_filter=KeptTest.BeginsWhatItFoundUnlessThatHasMadeRoom)
gc_mutant(309 MUST_PRINT "FAILED  . KeptTest" LABELS unit
  COMMAND test/unit/core/launcher_test --gtest_filter=KeptTest.TheLongestUnusedMakesRoom)
# The mutant still finds what was found for another shape.
gc_mutant(361 MUST_PRINT "FAILED  . KeptTest" LABELS unit
  COMMAND test/unit/core/launcher_test --gtest_filter=KeptTest.KnowsWhetherItWouldFindTheSameAgain)
gc_mutant(310 MUST_PRINT "FAILED  . Registration" LABELS unit
  COMMAND test/unit/core/registration_test --gtest_filter=Registration.NoticesMemoryThatWasFreedOrAllocatedAnew)
gc_mutant(311 MUST_PRINT "FAILED  . Registration" LABELS unit
  COMMAND test/unit/core/registration_test --gtest_filter=Registration.OpeningClosesNothing)
