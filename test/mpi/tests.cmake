# Tests of label mpi: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
#
# op/avx is left out where results are compared with MPI's own: Open MPI 4.1.4's saturates 8- and 16-bit sums.
set(GC_LITERALLY --mca coll gpucoll --mca op ^avx)
# Label asan: what is run under AddressSanitizer. It takes five times as long, and finds nothing new with other numbers of
# ranks.
macro(gc_mpi_labels)
  set(labels mpi)
  if(${ARGN})
    list(APPEND labels asan)
  endif()
endmacro()
foreach(np 1 2 3 4 7)
  gc_mpi_labels(${np} EQUAL 3)
  set(labels_of_calls ${labels})
  if(np EQUAL 7)
    list(APPEND labels long)
  endif()
  gc_mpi_test(mpi.host_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/host)
  gc_mpi_test(mpi.allreduce_${np} LABELS ${labels_of_calls} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/allreduce)
  gc_mpi_test(mpi.collectives_${np} LABELS ${labels_of_calls} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/collectives)
  gc_mpi_test(mpi.neighbors_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/neighbors)
  gc_mpi_test(mpi.derived_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/derived)
  gc_mpi_test(mpi.staged_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/staged)
  gc_mpi_test(mpi.mixed_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/mixed)
  gc_mpi_test(mpi.generated_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/generated --cases 1000)
  gc_mpi_test(mpi.nonblocking_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/nonblocking)
  gc_mpi_test(mpi.persistent_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/persistent)
  gc_mpi_test(mpi.threads_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/threads)
endforeach()

# Whatever the order in which the ranks combine: the same bits.
function(gc_extremes np algorithm)
  gc_mpi_test(mpi.extremes_${np}_${algorithm} LABELS mpi TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    ENV GPUCOLL_ALGORITHM=${algorithm} COMMAND test/mpi/extremes)
endfunction()
foreach(algorithm auto ring tree one_shot all_pairs zero_copy)
  gc_extremes(3 ${algorithm})
endforeach()
gc_extremes(2 auto)
gc_extremes(4 ring)
gc_extremes(4 tree)
gc_mpi_test(mpi.teams_extremes LABELS mpi TIMEOUT 240 NP 5 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/extremes)

# Memory that comes and goes.
foreach(np 1 2 3 4)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.memory_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/memory)
endforeach()
# A call is taken for the one before, though its memory is another.
gc_mpi_mutant(360 MUST_PRINT "is kept for memory that was freed" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/memory 1)
gc_mpi_mutant(485 MUST_PRINT "rank 0 with other counts for some ranks" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/memory 1)
gc_mpi_mutant(482 MUST_PRINT "alltoallv [0-9]+ of [0-9]+ ints each" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/memory 1)
gc_mpi_test(mpi.teams_memory LABELS mpi TIMEOUT 240 NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/memory)

# Calls that come again.
foreach(np 1 2 3 4)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.again_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/again)
endforeach()
gc_mpi_test(mpi.again_threads LABELS mpi asan TIMEOUT 240 NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/again threads)
gc_mpi_test(mpi.teams_again LABELS mpi TIMEOUT 240 NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/again)
# A call is found by the address of a type that was freed, or by its function alone.
gc_mpi_mutant(570 MUST_PRINT "a type of many, call" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/again)
gc_mpi_mutant(571 MUST_PRINT ", call [0-9]+: code" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/again)

# The call of all ranks when one was kept, or when it was last refused, is taken for their call now.
foreach(number 572 573)
  gc_mpi_mutant(${number} MUST_PRINT "calls something else, and nobody says so" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/again)
endforeach()

# What tools read of parameters and counters.
foreach(np 2 3)
  gc_mpi_test(mpi.mpi_t_${np} LABELS mpi NP ${np} MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_timeout 77
    COMMAND test/mpi/mpi_t)
endforeach()
# The component, too, has been there before; what it says must be heard.
gc_mpi_test(mpi.mpi_t_again LABELS mpi NP 2 MUST_PRINT "goes through the host" MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_timeout 77
  --mca coll_gpucoll_verbose 1 COMMAND test/mpi/mpi_t again)

# Communicators of one rank, in the world and on a device that others use.
foreach(np 1 3)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.alone_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/alone)
endforeach()
gc_mpi_test(mpi.teams_alone LABELS mpi NP 3 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/alone)

# Several ranks on one device: one team, teams of one size and not, with members in between those of others, and ranks
# alone beside teams.
foreach(np_on_devices 4_on_1 4_on_2 5_on_2 5_on_3)
  string(REGEX MATCHALL "[0-9]+" numbers ${np_on_devices})
  list(GET numbers 0 np)
  list(GET numbers 1 devices)
  gc_mpi_labels(${np_on_devices} STREQUAL 5_on_2)
  if(np_on_devices STREQUAL 4_on_2)
    list(APPEND labels long)
  endif()
  set(shared ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=${devices})
  foreach(program allreduce collectives mixed staged close_calls threads nonblocking persistent derived)
    gc_mpi_test(mpi.teams_${program}_${np_on_devices} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
      ${shared} COMMAND test/mpi/${program})
  endforeach()
  gc_mpi_test(mpi.teams_generated_${np_on_devices} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    ${shared} COMMAND test/mpi/generated --cases 600)
endforeach()
# So many that an allgather goes by the leader's memory.
gc_mpi_test(mpi.teams_generated_7_on_1 LABELS mpi TIMEOUT 240 NP 7 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=1 COMMAND test/mpi/generated --cases 300)
gc_mpi_test(mpi.teams_stress LABELS mpi asan TIMEOUT 240 NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=1 COMMAND test/mpi/stress)
gc_mpi_test(mpi.teams_nonblocking_threads LABELS mpi asan TIMEOUT 240 NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/nonblocking threads)
gc_mpi_test(mpi.teams_persistent_threads LABELS mpi asan TIMEOUT 240 NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/persistent threads)
# Ranks with a device each, which rests before memory goes.
gc_mpi_test(mpi.nonblocking_beside_rest LABELS mpi asan TIMEOUT 240 NP 2 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/nonblocking)
gc_mpi_test(mpi.teams_copies LABELS mpi asan TIMEOUT 240 NP 5 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=3 GPUCOLL_COPY_ENGINE_BYTES=5K GPUCOLL_COPY_REDUCTION_BYTES=3K
      GPUCOLL_COPY_REDUCTION_PIECE=4K
  COMMAND test/mpi/collectives 150)
gc_mpi_test(mpi.teams_are_told LABELS mpi NP 4 MUST_PRINT "ranks 1, 3 of MPI_COMM_WORLD use one device"
  MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_verbose 1 ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2
  COMMAND test/mpi/collectives 20)
# ProgressClient off: through the host.
gc_mpi_test(mpi.teams_off LABELS mpi TIMEOUT 240 NP 4 MUST_PRINT "goes through the host: two of its ranks"
  MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_verbose 1
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 GPUCOLL_SHARED_GPU=off COMMAND test/mpi/staged)

foreach(np 2 3 4 5)
  gc_mpi_labels(${np} EQUAL 4)
  gc_mpi_test(mpi.intercommunicators_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/intercommunicators)
  gc_mpi_test(mpi.teams_intercommunicators_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/intercommunicators)
endforeach()

# What copy engines carry between more than two ranks, in turn.
foreach(np 3 4 5)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.collectives_copies_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    ENV GPUCOLL_COPY_ENGINE_BYTES=5K GPUCOLL_COPY_REDUCTION_BYTES=3K GPUCOLL_COPY_REDUCTION_PIECE=4K
    COMMAND test/mpi/collectives 150)
endforeach()

# Kernels that stay until the next call, and some that leave just before it.
foreach(np 2 3 4)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.close_calls_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/close_calls)
  gc_mpi_test(mpi.close_calls_short_${np} LABELS ${labels} NP ${np}
    MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_resident_us 15 --mca coll_gpucoll_plan_cache_graphs 0
    COMMAND test/mpi/close_calls)
  # Launched as they were kept, with kernels that stay in between and without.
  gc_mpi_test(mpi.kept_calls_${np} LABELS ${labels} NP ${np} MUST_PRINT "[0-9]+ launches were kept"
    MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_verbose 1 COMMAND test/mpi/close_calls)
  gc_mpi_test(mpi.kept_calls_alone_${np} LABELS ${labels} NP ${np} MUST_PRINT "[0-9]+ launches were kept"
    MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_verbose 1 --mca coll_gpucoll_resident_us off
    COMMAND test/mpi/close_calls)
endforeach()
gc_mpi_test(mpi.close_calls_stay LABELS mpi NP 2 MUST_PRINT "[0-9]+ small collectives took no launch"
  MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_verbose 1 COMMAND test/mpi/close_calls)

gc_mpi_test(mpi.nonblocking_without_progress_thread LABELS mpi TIMEOUT 240 NP 3 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_PROGRESS_THREAD=0 COMMAND test/mpi/nonblocking)
gc_mpi_test(mpi.nonblocking_threads LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/nonblocking threads)
gc_mpi_test(mpi.persistent_threads LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/persistent threads)
# Blocks that belong to nobody, and calls that nobody reads.
foreach(np 2 3)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.absent_neighbors_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/absent_neighbors)
endforeach()
foreach(mutant 412 413)
  gc_mpi_mutant(${mutant} MUST_PRINT "signal (11|7)" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/absent_neighbors)
endforeach()
foreach(mutant 443 469)
  gc_mpi_mutant(${mutant} MUST_PRINT "time limit" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --timeout 8
    COMMAND test/mpi/absent_neighbors)
endforeach()
# Counts, displacements and types that are gone when the call returns.
foreach(np 2 3)
  gc_mpi_labels(${np} EQUAL 2)
  gc_mpi_test(mpi.freed_arrays_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/freed_arrays)
endforeach()
gc_mpi_mutant(410 MUST_PRINT "FAIL rank|signal 11|error: |Error in" LABELS mpi NP 2
  MPIRUN ${GC_LITERALLY} COMMAND test/mpi/freed_arrays)
# Host memory of what runs on the device is copied by the caller.
gc_mpi_test(mpi.host_copies LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/host_copies)
gc_mpi_test(mpi.teams_host_copies LABELS mpi NP 3 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/host_copies)
# Buffers that the program fills by calls that return early: on GPUs such copies may be under way when MPI is called.
gc_mpi_test(mpi.program_copies LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/program_copies)
gc_mpi_test(mpi.teams_program_copies LABELS mpi NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/program_copies)
# More communicators at once than devices have room for: the ranks must launch their calls in one order.
foreach(np 2 4)
  gc_mpi_labels(${np} EQUAL 2)
  gc_mpi_test(mpi.threads_crowded_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY}
    ENV GPUCOLL_EMU_BLOCKS=2 COMMAND test/mpi/threads 6)
endforeach()
gc_mpi_test(mpi.stress_2 LABELS mpi TIMEOUT 240 NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/stress)
gc_mpi_test(mpi.stress_3 LABELS mpi asan TIMEOUT 240 NP 3 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/stress)
# What only runs on the engine, as Open MPI's own hang: nonblocking all-to-alls in place.
gc_mpi_test(mpi.generated_all_pairs LABELS mpi asan TIMEOUT 240 NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_ALGORITHM=all_pairs
  COMMAND test/mpi/generated --seed 900 --cases 400)
gc_mpi_test(mpi.generated_on_device LABELS mpi TIMEOUT 240 NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/generated --cases 400 --memory device --form nonblocking)

gc_mpi_test(mpi.spawn LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/spawn)
gc_mpi_test(mpi.fork LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/fork)
gc_mpi_test(mpi.finalize LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/finalize)
gc_mpi_test(mpi.finalize_used LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/finalize used)
# One wait for all.
gc_mpi_test(mpi.finalize_many LABELS mpi asan MUST_PRINT "has closed 16 communicators" NP 3
  MPIRUN ${GC_LITERALLY} ENV GPUCOLL_TRANSPORT=tcp GPUCOLL_VERBOSE=2 COMMAND test/mpi/finalize many)
set_tests_properties(mpi.finalize_many PROPERTIES FAIL_REGULAR_EXPRESSION "FAIL rank")
# Right, and so without a word; wrong, and told.
foreach(np 1 2 3)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.finalize_unstarted_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/finalize unstarted)
  set_tests_properties(mpi.finalize_unstarted_${np} PROPERTIES FAIL_REGULAR_EXPRESSION "gpucoll \\[|error")
endforeach()
gc_mpi_test(mpi.teams_finalize_unstarted LABELS mpi NP 4 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/finalize unstarted)
set_tests_properties(mpi.teams_finalize_unstarted PROPERTIES FAIL_REGULAR_EXPRESSION "gpucoll \\[|error")
gc_mpi_test(mpi.finalize_started LABELS mpi asan
  MUST_PRINT "error: .*(as MPI is being finalized|has called MPI_Finalize)" NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/finalize started)
set_tests_properties(mpi.finalize_started PROPERTIES FAIL_REGULAR_EXPRESSION "FAIL rank")

# One kernel is given memory of two devices.
gc_mpi_mutant(411 MUST_PRINT "bcast on two devices: 200 pieces.*a message on two devices: 200 pieces" LABELS mpi NP 2
  MPIRUN ${GC_LITERALLY} COMMAND test/mpi/staged addresses)

gc_mpi_mutant(542 MUST_PRINT "MPI_ERR_NO_MEM" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/staged addresses)
gc_mpi_mutant(541 MUST_PRINT "MPI_ERR_NO_MEM" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/staged addresses)

# Messages of device memory, under each PML that there is and with one that stands in front of others.
gc_mpi_test(mpi.messages LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/messages)
gc_mpi_test(mpi.messages_threads LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/messages threads)
gc_mpi_test(mpi.messages_monitored LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca pml_monitoring_enable 1
  COMMAND test/mpi/messages)
gc_mpi_test(mpi.buffered_sends LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/buffered_sends)
# One process copies from the other's memory, where the system lets it.
set(cma --mca btl_vader_single_copy_mechanism cma --mca smsc cma)
gc_mpi_test(mpi.messages_cma LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} ${cma} COMMAND test/mpi/messages)
gc_mpi_test(mpi.messages_cma_monitored LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} ${cma} --mca pml_monitoring_enable 1
  COMMAND test/mpi/messages)
# One-sided communication has receives of its own; in Open MPI 4.1 also by osc/pt2pt, which uses the PML.
gc_mpi_test(mpi.one_sided LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} ${cma} COMMAND test/mpi/one_sided)
if(NOT GC_PARTITIONED)
  gc_mpi_test(mpi.one_sided_pt2pt LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY} --mca osc pt2pt COMMAND test/mpi/one_sided)
  gc_mpi_mutant(370 MUST_PRINT "time limit" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca osc pt2pt --timeout 8
    COMMAND test/mpi/one_sided)
endif()
gc_mpi_test(mpi.messages_tcp LABELS mpi NP 4 MPIRUN ${GC_LITERALLY} --mca pml ob1 --mca btl tcp,self
  COMMAND test/mpi/messages)
# Also where no memory of another process can be opened, and all comes by its bounce: in a tree with mutants.
gc_mpi_test(mpi.messages_by_bounce LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} ENV GC_MUTANT=210 COMMAND test/mpi/messages)
gc_mpi_test(mpi.messages_by_host LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_pt2pt_direct_bytes off
  COMMAND test/mpi/messages)
gc_mpi_mutant(211 MUST_PRINT "wrong data" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/messages)
gc_mpi_mutant(212 MUST_PRINT "a probe finds 113 bytes" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/messages)
# Two threads take one note.
gc_mpi_mutant(486 MUST_PRINT "a probe behind threads that receive finds" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/messages notes)
gc_mpi_mutant(213 MUST_PRINT "types of both sides: wrong data" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/messages)
gc_mpi_mutant(414 MUST_PRINT "MPI_Pack of NULL|signal 11" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/messages)
gc_mpi_mutant(110 MUST_PRINT "signal 11" LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/messages)
if(GC_PARTITIONED)
  gc_mpi_test(mpi.partitioned LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/partitioned)
  gc_mpi_test(mpi.partitioned_threads LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/partitioned threads)
  gc_mpi_test(mpi.partitioned_by_host LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_pt2pt_direct_bytes off
    COMMAND test/mpi/partitioned)
endif()
# Turned off, Open MPI crashes.
gc_mpi_test(mpi.messages_off LABELS mpi WILL_FAIL NP 2 MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_pt2pt 0
  COMMAND test/mpi/messages)

# Device memory is attached to no window: an error says so.
gc_mpi_test(mpi.one_sided_devices LABELS mpi asan NP 2
  MUST_PRINT "MPI_Win_attach is given device memory"
  MPIRUN ${GC_LITERALLY} ${cma} COMMAND test/mpi/one_sided_devices)

# One-sided operations with device memory at their origin, over each component that Open MPI has. osc/sm has windows that it
# allocates; osc/rdma needs a transport that reaches other processes' memory.
set(sm_windows ${GC_LITERALLY} --mca osc sm)
set(rdma_windows ${GC_LITERALLY} ${cma} --mca osc rdma)
set(origins COMMAND test/mpi/one_sided_origins)
foreach(np 2 3)
  gc_mpi_labels(${np} EQUAL 2)
  gc_mpi_test(mpi.one_sided_origins_sm_${np} LABELS ${labels} NP ${np} MPIRUN ${sm_windows} ${origins} sm shared)
  gc_mpi_test(mpi.one_sided_origins_rdma_${np} LABELS ${labels} TIMEOUT 240 NP ${np} MPIRUN ${rdma_windows}
    ${origins} rdma create)
endforeach()
gc_mpi_test(mpi.one_sided_origins_allocated LABELS mpi NP 2 MPIRUN ${sm_windows} ${origins} sm allocate)
gc_mpi_test(mpi.one_sided_origins_dynamic LABELS mpi TIMEOUT 240 NP 2 MPIRUN ${rdma_windows} ${origins} rdma dynamic)
gc_mpi_test(mpi.one_sided_origins_monitored LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca pml_monitoring_enable 1
  ${origins} sm shared)
gc_mpi_test(mpi.one_sided_origins_threads LABELS mpi asan NP 2 MPIRUN ${sm_windows} ${origins} threads sm shared)
gc_mpi_test(mpi.one_sided_origins_rdma_threads LABELS mpi TIMEOUT 240 NP 2 MPIRUN ${rdma_windows}
  ${origins} threads rdma create)
if(NOT GC_PARTITIONED)
  set(pt2pt_windows ${GC_LITERALLY} --mca osc pt2pt)
  gc_mpi_test(mpi.one_sided_origins_pt2pt_2 LABELS mpi asan TIMEOUT 240 NP 2 MPIRUN ${pt2pt_windows}
    ${origins} pt2pt create)
  gc_mpi_test(mpi.one_sided_origins_pt2pt_dynamic LABELS mpi TIMEOUT 240 NP 2 MPIRUN ${pt2pt_windows}
    ${origins} pt2pt dynamic)
endif()
# Device memory goes to Open MPI's CPU; turned off, gpucoll leaves it to that as well.
gc_mpi_mutant(501 MUST_PRINT "signal 11|Segmentation fault" LABELS mpi NP 2 MPIRUN ${sm_windows} ${origins} sm shared)
gc_mpi_test(mpi.one_sided_origins_off LABELS mpi WILL_FAIL NP 2 MPIRUN ${sm_windows} --mca coll_gpucoll_pt2pt 0
  ${origins} sm shared)
# Results are not stored by what completes an operation; host memory is given back before; what a target does not fill is
# not loaded; host memory is given back before the request stores the result.
foreach(mutant_and_sign "513:MPI_Get on .*after the fence: wrong byte" "514:wrong byte"
        "515:MPI_Get on .*after the fence: wrong byte" "516:MPI_Rget on .*after its request: wrong byte")
  string(REGEX REPLACE ":.*" "" mutant "${mutant_and_sign}")
  string(REGEX REPLACE "^[0-9]*:" "" sign "${mutant_and_sign}")
  gc_mpi_mutant(${mutant} MUST_PRINT "${sign}" LABELS mpi asan NP 2 MPIRUN ${sm_windows} ${origins} sm shared)
endforeach()

# Windows of device memory.
foreach(np 1 2 3 4)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.device_windows_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY} COMMAND test/mpi/device_windows)
endforeach()
foreach(np 1 2 3 4)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.device_windows_together_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/device_windows_together)
endforeach()
gc_mpi_test(mpi.device_windows_threads LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/device_windows_together threads)
# The program ends without MPI_Win_free.
gc_mpi_test(mpi.device_windows_left LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} COMMAND test/mpi/device_windows_together left)
gc_mpi_test(mpi.device_windows_without_plugin LABELS mpi NP 2
  MUST_PRINT "MPI_Win_create is given device memory .*but rank 1 of its communicator runs without this version of gpucoll"
  MPIRUN ${cma}
  COMMAND ${GC_SOURCE}/test/mpi/on_rank.sh 1 OMPI_MCA_coll=^gpucoll ${GC_BUILD}/test/mpi/device_windows_together left)
# Rank 1 has gpucoll, but leaves windows to Open MPI.
gc_mpi_test(mpi.device_windows_beside_pt2pt_off LABELS mpi NP 2
  MUST_PRINT "MPI_Win_create is given device memory .*but another rank of its communicator leaves windows to Open MPI"
  MPIRUN ${GC_LITERALLY} ${cma}
  COMMAND ${GC_SOURCE}/test/mpi/on_rank.sh 1 OMPI_MCA_coll_gpucoll_pt2pt=0 ${GC_BUILD}/test/mpi/device_windows_together left)
gc_mpi_test(mpi.device_windows_of_host_beside_pt2pt_off LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} ${cma}
  COMMAND ${GC_SOURCE}/test/mpi/on_rank.sh 1 OMPI_MCA_coll_gpucoll_pt2pt=0 ${GC_BUILD}/test/mpi/device_windows_together host)
gc_mpi_test(mpi.device_windows_by_host LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_pt2pt_direct_bytes off
  COMMAND test/mpi/device_windows)
gc_mpi_test(mpi.device_windows_monitored LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca pml_monitoring_enable 1
  COMMAND test/mpi/device_windows)
# Waits do not wait for answers; accumulates are out of order; a put fills the gaps of its type; a lock is held twice;
# fetches return new values; the origin's unit counts; MPI_Win_wait does not wait; pairs with gaps are reduced as they
# are packed.
foreach(mutant_and_sign "517:MPI_Put of" "518:behind accumulates" "519:MPI_Put of .* vector" "520:numbers under locks"
        "521:a counter in" "522:MPI_Put of" "523:between post" "524:place of .* and int")
  string(REGEX REPLACE ":.*" "" mutant "${mutant_and_sign}")
  string(REGEX REPLACE "^[0-9]*:" "" sign "${mutant_and_sign}")
  gc_mpi_mutant(${mutant} MUST_PRINT "FAIL .*${sign}" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --timeout 20
    COMMAND test/mpi/device_windows)
endforeach()

# MPI-IO, over OMPIO, and over ROMIO where Open MPI has it.
foreach(np 1 2 3)
  gc_mpi_labels(${np} EQUAL 2)
  gc_mpi_test(mpi.files_${np} LABELS ${labels} NP ${np} MPIRUN ${GC_LITERALLY} --mca io ompio COMMAND test/mpi/files)
endforeach()
gc_mpi_test(mpi.files_threads LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} --mca io ompio COMMAND test/mpi/files threads)
gc_mpi_test(mpi.files_without_memory LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --mca io ompio
  COMMAND test/mpi/files memory)
if(GC_ROMIO)
  gc_mpi_test(mpi.files_romio LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} --mca io ^ompio COMMAND test/mpi/files romio)
  gc_mpi_test(mpi.files_romio_threads LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca io ^ompio
    COMMAND test/mpi/files threads romio)
  gc_mpi_test(mpi.files_romio_without_memory LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --mca io ^ompio
    COMMAND test/mpi/files memory romio)
endif()
# Turned off, Open MPI writes nothing.
gc_mpi_test(mpi.files_off LABELS mpi MUST_PRINT "FAIL .*MPI_File_write_at of 37 bytes in device memory" NP 2
  MPIRUN ${GC_LITERALLY} --mca io ompio --mca coll_gpucoll_pt2pt 0 COMMAND test/mpi/files one)
# A read does not load its buffer; what a nonblocking call has read is not stored; a type ends before the request; the
# split collective of a closed file is that of the next one; a rank without memory has the component move its data.
gc_mpi_mutant(506 MUST_PRINT "short MPI_File_read.*another image" LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY}
  --mca io ompio COMMAND test/mpi/files)
gc_mpi_mutant(507 MUST_PRINT "MPI_File_iread.*wrong byte at 0" LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY} --mca io ompio
  COMMAND test/mpi/files)
gc_mpi_mutant(527 MUST_PRINT "the type of a request ends before that" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  --mca io ompio COMMAND test/mpi/files)
gc_mpi_mutant(525 MUST_PRINT "a closed file" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} --mca io ompio
  COMMAND test/mpi/files)
gc_mpi_mutant(526 MUST_PRINT "signal 11" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --mca io ompio
  COMMAND test/mpi/files memory)

# Against a reference of MPI's matching, over each way that messages can go.
function(gc_matching name)
  cmake_parse_arguments(t "" "NP;MESSAGES;SEED" "LABELS;MPIRUN;WORDS" ${ARGN})
  math(EXPR timeout "240 + ${t_MESSAGES} / 100")
  gc_mpi_test(mpi.matching_${name} LABELS mpi ${t_LABELS} TIMEOUT ${timeout} NP ${t_NP} MPIRUN ${GC_LITERALLY} ${t_MPIRUN}
    COMMAND test/mpi/matching --messages ${t_MESSAGES} --seed ${t_SEED} ${t_WORDS})
endfunction()
gc_matching(1 NP 1 MESSAGES 2000 SEED 100000)
gc_matching(2 NP 2 MESSAGES 10000 SEED 200000 LABELS asan)
gc_matching(3 NP 3 MESSAGES 10000 SEED 300000)
gc_matching(tcp NP 3 MESSAGES 10000 SEED 400000 MPIRUN --mca pml ob1 --mca btl tcp,self)
gc_matching(monitored NP 2 MESSAGES 5000 SEED 500000 MPIRUN --mca pml_monitoring_enable 1)
gc_matching(threads NP 2 MESSAGES 10000 SEED 600000 WORDS --threads 3)
# 100,000 messages with those above, half a millisecond each on 2 cores that do nothing else.
gc_matching(long NP 4 MESSAGES 35000 SEED 800000 LABELS long)
gc_matching(long_threads NP 2 MESSAGES 20000 SEED 900000 LABELS long WORDS --threads 3)
if(GC_PML_UCX)
  set(ucx --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any)
  gc_mpi_test(mpi.messages_ucx LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} ${ucx} COMMAND test/mpi/messages)
  # The message goes by another tag, and matches nothing.
  gc_mpi_mutant(415 MUST_PRINT "time limit" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} ${ucx} --timeout 8
    COMMAND test/mpi/messages)
  gc_mpi_test(mpi.device_windows_ucx LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} ${ucx} COMMAND test/mpi/device_windows)
  gc_matching(ucx NP 3 MESSAGES 10000 SEED 700000 MPIRUN ${ucx})
endif()
# More is stored than came; the status names no source; synchronous sends are standard ones; a second start sends the
# first one's data; truncation is not told.
foreach(mutant_and_sign "200:wrong at" "201:says source" "202:complete before its receive begins"
        "203:turn 1 of 2.*wrong at" "204:error 0")
  string(REGEX REPLACE ":.*" "" mutant "${mutant_and_sign}")
  string(REGEX REPLACE "^[0-9]*:" "" sign "${mutant_and_sign}")
  gc_mpi_mutant(${mutant} MUST_PRINT "${sign}" LABELS mpi asan NP 2 MPIRUN ${GC_LITERALLY}
    COMMAND test/mpi/matching --messages 500)
endforeach()

# Host memory on some ranks: it is never given to the engine, or counts as device memory there.
gc_mpi_mutant(111 MUST_PRINT "nonblocking calls with host memory at the root ran" LABELS mpi asan NP 2
  MPIRUN ${GC_LITERALLY} COMMAND test/mpi/mixed)
gc_mpi_mutant(112 MUST_PRINT "persistent host memory alone ran on the device" LABELS mpi asan NP 2
  MPIRUN ${GC_LITERALLY} COMMAND test/mpi/mixed)

# As installed, without any --mca.
gc_mpi_test(mpi.host_by_default LABELS mpi NP 3 COMMAND test/mpi/host)
# Where all is well nothing is said, whatever Open MPI has and has not.
set_tests_properties(mpi.host_by_default PROPERTIES FAIL_REGULAR_EXPRESSION "error|gpucoll \\[")
gc_mpi_test(mpi.mixed_by_default LABELS mpi TIMEOUT 240 NP 3 COMMAND test/mpi/mixed)
gc_mpi_test(mpi.staged_by_default LABELS mpi TIMEOUT 240 NP 3 COMMAND test/mpi/staged)
# Host memory of what runs on the device has a pool of its own.
gc_mpi_test(mpi.alone_beside_staging LABELS mpi NP 1 MPIRUN ${GC_LITERALLY} ENV GPUCOLL_STAGING_BYTES=64K
  COMMAND test/mpi/alone)
# Ranks that reach each other through host memory only.
gc_mpi_test(mpi.mixed_shm LABELS mpi TIMEOUT 240 NP 3 MPIRUN ${GC_LITERALLY} --mca coll_gpucoll_transport shm
  COMMAND test/mpi/mixed)
# Without the component device memory must fault: otherwise the tests above would show nothing.
gc_mpi_test(mpi.without_component LABELS mpi WILL_FAIL NP 2 MPIRUN --mca coll ^gpucoll COMMAND test/mpi/staged)

gc_test(mpi.bad_parameter LABELS mpi TIMEOUT 240 PROCESSORS 2 ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/mpi/bad_parameter.sh ${GC_MPIRUN} ${GC_BUILD}/test/mpi/host)

# Mutant: persistent requests of the engine let go of types and operations.
gc_mpi_mutant(101 LABELS mpi asan MUST_PRINT "lets its type go early|Segmentation fault|heap-use-after-free" NP 2
  MPIRUN ${GC_LITERALLY} COMMAND test/mpi/persistent)
# At the end of MPI, what was never started is taken for under way: on the rank that comes to it, and on the others.
gc_mpi_mutant(104 LABELS mpi asan MUST_PRINT "finalized while it is under way" NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/finalize unstarted)
gc_mpi_mutant(105 LABELS mpi asan MUST_PRINT "error: MPI_Allreduce_init" NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/finalize unstarted)
# Calls without bytes are counted.
gc_mpi_mutant(103 LABELS mpi asan MUST_PRINT "calls MPI_" NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/collectives 1)

# A communicator is freed while others have yet to read its lines.
gc_mpi_mutant(330 LABELS mpi MUST_PRINT "freed while others read" NP 3 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_PROGRESS_THREAD=0 COMMAND test/mpi/faults freed_early)

# Mostly waiting.
foreach(group mismatches resources lateness deaths teams refusals departures reports through_host)
  gc_test(mpi.faults.${group} LABELS mpi asan TIMEOUT 480 PROCESSORS 1 ENV ${GC_MPI_ENV} "GC_SANITIZERS=${GC_SANITIZERS}"
    COMMAND ${GC_SOURCE}/test/mpi/faults.sh ${GC_MPIRUN} ${GC_BUILD}/test/mpi/faults ${group})
endforeach()
gc_mpi_mutant(580 MUST_PRINT "signal 11" LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/faults freed_messages)
gc_mpi_mutant(597 MUST_PRINT "time limit" LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY} --timeout 15
  COMMAND test/mpi/faults forms)
# The others wait in Open MPI.
gc_mpi_mutant(596 MUST_PRINT "time limit" LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY} --timeout 15
  COMMAND test/mpi/faults own_lengths)
gc_mpi_mutant(595 MUST_PRINT "signal 11" LABELS mpi asan NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/faults freed_started)
# Nobody had looked at a process before it ended.
gc_mpi_mutant(530 MUST_PRINT "time limit" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --enable-recovery --timeout 15
  COMMAND test/mpi/faults killed_before_access)
# The lock of rank 0 stays held.
gc_mpi_mutant(532 MUST_PRINT "FAIL .*a lock of rank 0 ends with class" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY}
  --enable-recovery --timeout 15 COMMAND test/mpi/faults killed_before_locks)
gc_mpi_mutant(531 MUST_PRINT "time limit" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} --enable-recovery --timeout 15
  COMMAND test/mpi/faults killed_before_answer)

gc_test(mpi.causes LABELS mpi TIMEOUT 240 PROCESSORS 4 ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/mpi/causes.sh ${GC_MPIRUN} ${GC_BUILD}/test/mpi/causes)
gc_mpi_mutant(468 MUST_PRINT "cut_off_messages.*message_many" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/causes plain)

gc_mutant(114 LABELS mpi asan MUST_PRINT "is not told once" ENV ${GC_MPI_ENV} "GC_SANITIZERS=${GC_SANITIZERS}"
  COMMAND ${GC_SOURCE}/test/mpi/faults.sh ${GC_MPIRUN} ${GC_BUILD}/test/mpi/faults through_host)

# The program frees memory while calls that go by copy engine are under way: as on GPUs, that waits until the device rests, and
# what would start the copies waits for it.
set(copies ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=3 GPUCOLL_COPY_ENGINE_BYTES=64)
gc_mpi_test(mpi.nonblocking_freeing LABELS mpi TIMEOUT 240 NP 3 MPIRUN ${GC_LITERALLY} ${copies} COMMAND test/mpi/nonblocking)
gc_mpi_test(mpi.threads_freeing LABELS mpi TIMEOUT 240 NP 2 MPIRUN ${GC_LITERALLY} ${copies} COMMAND test/mpi/threads)
gc_mpi_test(mpi.threads_that_free LABELS mpi TIMEOUT 240 NP 2 MPIRUN ${GC_LITERALLY} ${copies} COMMAND test/mpi/threads freeing)
gc_mpi_mutant(621 MUST_PRINT "cannot start[a-z ]*: another thread of its process is in a function of CUDA" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY} ${copies} GPUCOLL_TIMEOUT=5
  COMMAND test/mpi/threads freeing)
gc_mpi_mutant(611 MUST_PRINT "parameter timeout" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY} ${copies} GPUCOLL_TIMEOUT=10
  COMMAND test/mpi/nonblocking)

# Several nodes, all of them on this machine: which ranks are on one, by letters.
function(gc_nodes_test name nodes)
  cmake_parse_arguments(n "" "" "COMMAND;ENV;LABELS;MPIRUN" ${ARGN})
  string(LENGTH "${nodes}" np)
  list(POP_FRONT n_COMMAND program)
  gc_mpi_test(mpi.nodes.${name} LABELS mpi ${n_LABELS} TIMEOUT 240 NP ${np} MPIRUN ${GC_LITERALLY} ${n_MPIRUN} ENV ${n_ENV}
    COMMAND ${GC_SOURCE}/test/mpi/as_nodes.sh ${nodes} ${GC_BUILD}/${program} ${n_COMMAND})
endfunction()
gc_nodes_test(collectives aab COMMAND test/mpi/collectives 20)
# Small allreduces are exchanged between all ranks.
gc_nodes_test(exchanges abc LABELS asan COMMAND test/mpi/collectives 20)
gc_nodes_test(exchanges_up_to_100_bytes abcd ENV GPUCOLL_EXCHANGE_BYTES=100 COMMAND test/mpi/collectives 10)
gc_nodes_test(exchanges_in_order abcd LABELS asan COMMAND test/mpi/sum_order)
# Ranks of one node store into each other's buffers.
gc_nodes_test(exchanges_in_order_on_nodes abab LABELS asan COMMAND test/mpi/sum_order)
gc_nodes_test(exchanges_on_uneven_nodes abb LABELS asan COMMAND test/mpi/collectives 10)
gc_nodes_test(exchanges_without_shared_memory aab ENV GPUCOLL_TRANSPORT=tcp COMMAND test/mpi/collectives 10)
# Without a mesh, as over verbs.
gc_nodes_test(exchanges_as_messages abc ENV GPUCOLL_ONE_SHOT_BYTES=off COMMAND test/mpi/collectives 10)
gc_nodes_test(exchanges_as_messages_in_order abcd ENV GPUCOLL_ONE_SHOT_BYTES=off COMMAND test/mpi/sum_order)
gc_mpi_mutant(598 MUST_PRINT "is not in the order of the ranks" LABELS mpi NP 3 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_ONE_SHOT_BYTES=off COMMAND ${GC_SOURCE}/test/mpi/as_nodes.sh abc ${GC_BUILD}/test/mpi/sum_order)
gc_nodes_test(exchanges_off abc ENV GPUCOLL_EXCHANGE_BYTES=off COMMAND test/mpi/collectives 10)
gc_nodes_test(round_robin ababab COMMAND test/mpi/collectives 10)
gc_nodes_test(round_robin_rings abab ENV GPUCOLL_ALGORITHM=ring COMMAND test/mpi/generated --cases 150)
gc_nodes_test(nonblocking_rings abab ENV GPUCOLL_ALGORITHM=ring COMMAND test/mpi/nonblocking)
gc_nodes_test(uneven abbb ENV GPUCOLL_ALGORITHM=tree COMMAND test/mpi/collectives 10)
gc_nodes_test(nonblocking ab COMMAND test/mpi/nonblocking)
# The program frees memory while calls are under way: as on GPUs, that waits until the device rests, and launches wait for it.
gc_nodes_test(nonblocking_freeing ab ENV GPUCOLL_EMU_EXCLUSIVE=1 COMMAND test/mpi/nonblocking)
gc_mpi_mutant(610 MUST_PRINT "parameter timeout" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_TIMEOUT=10
  COMMAND ${GC_SOURCE}/test/mpi/as_nodes.sh ab ${GC_BUILD}/test/mpi/nonblocking)
gc_nodes_test(persistent aba COMMAND test/mpi/persistent)
gc_nodes_test(generated abb COMMAND test/mpi/generated --cases 300)
gc_nodes_test(neighbors aba COMMAND test/mpi/neighbors)
gc_nodes_test(intercommunicators aabb COMMAND test/mpi/intercommunicators)
gc_nodes_test(close_calls ab COMMAND test/mpi/close_calls)
gc_nodes_test(threads abc COMMAND test/mpi/threads)
gc_nodes_test(host aab COMMAND test/mpi/host)
# Ranks 0 and 2 share a device of one node, 1 and 3 one of the other.
gc_nodes_test(teams abab ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 COMMAND test/mpi/collectives 20)
# Messages that go in pieces. With pieces for small ones as well, the tests of messages are tests of pieces.
set(small_pieces ENV GPUCOLL_PT2PT_DIRECT_BYTES=113)
set(tcp MPIRUN --mca pml ob1 --mca btl tcp,self)
gc_nodes_test(pieces ab LABELS asan COMMAND test/mpi/pieces)
gc_nodes_test(device_windows aab LABELS asan COMMAND test/mpi/device_windows)
gc_nodes_test(device_windows_tcp abab ${tcp} COMMAND test/mpi/device_windows)
gc_nodes_test(device_windows_threads abb COMMAND test/mpi/device_windows_together threads)
gc_nodes_test(device_windows_pieces ab ${small_pieces} COMMAND test/mpi/device_windows)
gc_nodes_test(pieces_from_70001 ab ENV GPUCOLL_PT2PT_DIRECT_BYTES=70001 COMMAND test/mpi/pieces)
gc_nodes_test(pieces_threads abab LABELS asan COMMAND test/mpi/pieces threads)
gc_nodes_test(pieces_tcp ab ${tcp} COMMAND test/mpi/pieces)
gc_nodes_test(messages ab LABELS asan ${small_pieces} COMMAND test/mpi/messages)
gc_nodes_test(messages_threads ab ${small_pieces} COMMAND test/mpi/messages threads)
gc_mpi_mutant(487 MUST_PRINT "a probe behind threads that receive finds" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
  ${small_pieces} COMMAND ${GC_SOURCE}/test/mpi/as_nodes.sh ab ${GC_BUILD}/test/mpi/messages notes)
gc_nodes_test(messages_monitored ab ${small_pieces} MPIRUN --mca pml_monitoring_enable 1 COMMAND test/mpi/messages)
gc_nodes_test(matching aba LABELS asan ${small_pieces} COMMAND test/mpi/matching --messages 6000 --seed 1100000)
gc_nodes_test(matching_tcp abc ${small_pieces} ${tcp} COMMAND test/mpi/matching --messages 4000 --seed 1200000)
gc_nodes_test(matching_threads ab ${small_pieces} COMMAND test/mpi/matching --messages 6000 --seed 1300000 --threads 3)
if(GC_PML_UCX)
  gc_nodes_test(pieces_ucx ab MPIRUN ${ucx} COMMAND test/mpi/pieces)
  gc_nodes_test(messages_ucx ab ${small_pieces} MPIRUN ${ucx} COMMAND test/mpi/messages)
  gc_nodes_test(matching_ucx aba ${small_pieces} MPIRUN ${ucx} COMMAND test/mpi/matching --messages 4000 --seed 1400000)
endif()
# A piece is copied short; messages of the size of an envelope are not noted; a probe tells the size of an envelope;
# pieces of a later message go before those of an earlier one.
foreach(mutant_and_sign "381:device to device: wrong data" "383:bytes of 113" "384:a probe finds 113 bytes"
        "385:the sender could not send it")
  string(REGEX REPLACE ":.*" "" mutant "${mutant_and_sign}")
  string(REGEX REPLACE "^[0-9]*:" "" sign "${mutant_and_sign}")
  gc_mpi_mutant(${mutant} MUST_PRINT "${sign}" LABELS mpi NP 2 MPIRUN ${GC_LITERALLY}
    COMMAND ${GC_SOURCE}/test/mpi/as_nodes.sh ab ${GC_BUILD}/test/mpi/pieces)
endforeach()
foreach(group lateness deaths departures)
  gc_test(mpi.nodes.faults.${group} LABELS mpi TIMEOUT 480 PROCESSORS 1
    ENV ${GC_MPI_ENV} GC_NODES=abca "GC_SANITIZERS=${GC_SANITIZERS}"
    COMMAND ${GC_SOURCE}/test/mpi/faults.sh ${GC_MPIRUN} ${GC_BUILD}/test/mpi/faults ${group})
endforeach()

# Two nodes, as far as processes can see.
gc_test(mpi.nodes LABELS mpi TIMEOUT 240 PROCESSORS 8 ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/mpi/nodes.sh ${GC_MPIRUN} ${GC_BUILD}/test/mpi/nodes)
set_tests_properties(mpi.nodes PROPERTIES SKIP_RETURN_CODE 77)

gc_test(openmpi5.mpi LABELS openmpi5 PROCESSORS 4 TIMEOUT 3600 COMMAND ${GC_SOURCE}/test/mpi/openmpi5.sh ${GC_SOURCE})
set_tests_properties(openmpi5.mpi PROPERTIES SKIP_RETURN_CODE 77)

# Stream-ordered calls (gpucoll/mpi.h); without the component, as over any MPI, and with it.
foreach(np 1 2 3 4 7)
  gc_mpi_labels(${np} EQUAL 3)
  gc_mpi_test(mpi.stream_ordered_${np} LABELS ${labels} TIMEOUT 240 NP ${np} COMMAND test/mpi/stream_ordered)
endforeach()
gc_mpi_test(mpi.stream_ordered_beside_component LABELS mpi TIMEOUT 240 NP 3 MPIRUN ${GC_LITERALLY}
  COMMAND test/mpi/stream_ordered)
gc_mpi_test(mpi.stream_ordered_threads LABELS mpi asan TIMEOUT 240 NP 3 COMMAND test/mpi/stream_ordered threads)
gc_nodes_test(stream_ordered aab COMMAND test/mpi/stream_ordered)
gc_mpi_test(mpi.stream_ordered_late LABELS mpi NP 3 ENV GPUCOLL_TIMEOUT=5 COMMAND test/mpi/stream_ordered late)
gc_mpi_test(mpi.stream_ordered_freeing LABELS mpi NP 2 ENV GPUCOLL_EMU_EXCLUSIVE=1 GPUCOLL_EMU_DEVICES=2 GPUCOLL_TIMEOUT=10
  COMMAND test/mpi/stream_ordered freeing)
gc_mpi_test(mpi.stream_ordered_outside_of_mpi LABELS mpi NP 2 COMMAND test/mpi/stream_ordered unknown)
# The test tools.trace starts it, where the tools are built.
gc_by_hand(test/mpi/late)
