# Tests of label tools: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
gc_test(tools.data LABELS tools COMMAND test/tools/data_test)
gc_test(tools.figures LABELS tools COMMAND test/tools/figures_test)
gc_test(tools.ways LABELS tools COMMAND test/tools/ways_test)
gc_test(tools.options LABELS tools COMMAND test/tools/options_test)

# gc_refuses(NAME "regex" arguments...): gpucoll-perf alone ends with status 2 and says this in one line.
function(gc_refuses name regex)
  gc_test(tools.perf_${name} LABELS tools
    COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^gpucoll-perf: ${regex}" ${GC_BUILD}/tools/gpucoll-perf ${ARGN})
endfunction()
gc_refuses(no_collective "collective is required")
gc_refuses(bad_collective "there is no collective 'foo'" foo)
gc_refuses(bad_type "there is no type 'flaot'" allreduce -d flaot)
gc_refuses(bad_size "'64Q' is not a size" allreduce -e 64Q)
gc_refuses(bad_order "the smallest size .* is larger" allreduce -b 8K -e 4K)
gc_refuses(bad_option ".*--wat" allreduce --wat)
gc_test(tools.perf_help LABELS tools
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "--in-place" ${GC_BUILD}/tools/gpucoll-perf --help)
gc_test(tools.perf_version LABELS tools
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^gpucoll-perf [0-9]+[.]" ${GC_BUILD}/tools/gpucoll-perf --version)

# gc_mpi_expect(NAME status "regex" program arguments... [ENV A=1] [COLL words]): expect.sh around mpirun on two ranks.
function(gc_mpi_expect name status regex)
  cmake_parse_arguments(e "" "COLL" "ENV" ${ARGN})
  if(NOT e_COLL)
    set(e_COLL gpucoll)
  endif()
  list(POP_FRONT e_UNPARSED_ARGUMENTS program)
  gc_test(tools.${name} LABELS tools mpi PROCESSORS 1
    ENV ${GC_MPI_ENV} ${e_ENV}
    COMMAND ${GC_SOURCE}/test/tools/expect.sh ${status} "${regex}" "${GC_MPIRUN}" --oversubscribe --bind-to none -np 2
            --mca coll ${e_COLL} "${GC_BUILD}/${program}" ${e_UNPARSED_ARGUMENTS})
endfunction()
gc_mpi_expect(perf_refuses_once 2 "^gpucoll-perf: there is no operation" tools/gpucoll-perf allreduce -o avg)
gc_mpi_expect(perf_without_component 2 "^gpucoll-perf: .* not loaded the component" tools/gpucoll-perf allreduce
              COLL ^gpucoll)
gc_mpi_expect(perf_nccl_emulated 2 "^gpucoll-perf: --baseline nccl needs GPUs" tools/gpucoll-perf allreduce
              --baseline nccl)
gc_mpi_expect(perf_no_memory 2 "^gpucoll-perf: gpucollMalloc: " tools/gpucoll-perf allreduce -b 64M ENV GPUCOLL_EMU_MEMORY=2M)
gc_mpi_expect(perf_no_file 2 "^gpucoll-perf: cannot write " tools/gpucoll-perf allreduce --json /nonexistent/x)
# Two checked runs, each with one spoilt byte, and once bits that differ: between ranks, or between runs.
gc_mpi_expect(perf_sees_corruption 1 "^# wrong elements: 3$" test/tools/perf_corrupted allreduce -b 4K -e 4K -n 1)
gc_mpi_expect(perf_sees_other_bits 1 "^# wrong elements: 7$" test/tools/perf_corrupted allreduce -b 4K -e 4K -n 1
              --repeat 2 ENV SPOIL=runs)
gc_mpi_expect(perf_sees_no_barrier 1 "^# wrong elements: [12]$" test/tools/perf_corrupted barrier -n 1)
gc_mpi_expect(perf_names_corruption 1 "^gpucoll-perf: wrong: rank 1: element 33 is .* instead of "
              test/tools/perf_corrupted allreduce -b 4K -e 4K -n 1 -w 0 -d int32 -o max --in-place)

gc_mpi_expect(perf_api_scan 2 "^gpucoll-perf: the C API has no scan" tools/gpucoll-perf scan --api)
foreach(collective allreduce bcast reduce allgather reduce_scatter alltoall gather scatter scan exscan
                   allgatherv reduce_scatterv alltoallv gatherv scatterv)
  gc_mpi_test(tools.perf_${collective} NP 3 LABELS tools mpi MPIRUN ${GC_LITERALLY}
    COMMAND tools/gpucoll-perf ${collective} -d all -o all -b 0 -e 20K -f 100 -n 1 -w 0 -r 1)
  gc_mpi_test(tools.perf_${collective}_in_place NP 3 LABELS tools mpi MPIRUN ${GC_LITERALLY}
    COMMAND tools/gpucoll-perf ${collective} -d all -o all -b 0 -e 20K -f 100 -n 1 -w 0 -r 2 --in-place)
  gc_mpi_test(tools.perf_${collective}_nonblocking NP 3 LABELS tools mpi MPIRUN ${GC_LITERALLY}
    COMMAND tools/gpucoll-perf ${collective} -b 0 -e 200K -f 100 -n 2 -w 1 -r 2 --nonblocking)
  gc_mpi_test(tools.perf_${collective}_persistent NP 3 LABELS tools mpi MPIRUN ${GC_LITERALLY}
    COMMAND tools/gpucoll-perf ${collective} -b 0 -e 200K -f 100 -n 2 -w 1 -r 2 --persistent --baseline host)
endforeach()
foreach(messages sendrecv pair)
  gc_mpi_test(tools.perf_${messages} NP 3 LABELS tools mpi MPIRUN ${GC_LITERALLY}
    COMMAND tools/gpucoll-perf ${messages} -d all -b 0 -e 20K -f 100 -n 1 -w 0 --baseline host)
endforeach()
gc_mpi_test(tools.perf_barrier NP 3 LABELS tools mpi MPIRUN --mca coll gpucoll COMMAND tools/gpucoll-perf barrier)
gc_mpi_test(tools.perf_barrier_nonblocking NP 3 LABELS tools mpi MPIRUN --mca coll gpucoll
  COMMAND tools/gpucoll-perf barrier --nonblocking)
gc_mpi_test(tools.perf_barrier_persistent NP 3 LABELS tools mpi MPIRUN --mca coll gpucoll
  COMMAND tools/gpucoll-perf barrier --persistent)
gc_mpi_expect(perf_persistent 0 "^# time of a start of a persistent MPI call until MPI_Wait has returned"
              tools/gpucoll-perf alltoallv --persistent -n 5 -b 1K -e 1K)

set(GC_NUMBER "[0-9.]+")
# Point-to-point tests. A window larger than the buffers' room uses them again.
foreach(test latency bandwidth bibw)
  set(window --window 3)
  if(test STREQUAL latency)
    set(window)
  endif()
  foreach(ranks 2 4)
    gc_mpi_test(tools.perf_${test}_${ranks} NP ${ranks} LABELS tools mpi MPIRUN ${GC_LITERALLY}
      COMMAND tools/gpucoll-perf ${test} -d all -b 0 -e 20K -f 100 -n 5 -w 1 ${window} --baseline host)
  endforeach()
  foreach(memory device,host host,pinned pinned,device)
    string(MAKE_C_IDENTIFIER ${memory} name)
    gc_mpi_test(tools.perf_${test}_${name} NP 4 LABELS tools mpi MPIRUN ${GC_LITERALLY}
      COMMAND tools/gpucoll-perf ${test} --memory ${memory} -b 0 -e 20K -f 100 -n 5 -w 1 --baseline host)
  endforeach()
  gc_mpi_test(tools.perf_${test}_shapes NP 4 LABELS tools mpi MPIRUN ${GC_LITERALLY}
    COMMAND tools/gpucoll-perf ${test} ${window} -n 5 -w 1 -b 0 -e 64 -f 4 -d all
            --type-shape contiguous,vector:5:3:7,face:9:x,face:9:y,face:9:z,indexed:50,struct:20)
  gc_mpi_test(tools.perf_${test}_shapes_to_host NP 2 LABELS tools mpi MPIRUN ${GC_LITERALLY}
    COMMAND tools/gpucoll-perf ${test} ${window} -n 5 -w 1 --memory device,host --baseline host
            --type-shape vector:500:3:7,face:30:x,face:30:y,indexed:5000,struct:2000)
  gc_mpi_test(tools.perf_${test}_staged NP 2 LABELS tools mpi MPIRUN --mca coll gpucoll
    COMMAND tools/gpucoll-perf ${test} -b 0 -e 20K -f 100 -n 5 -w 1 --baseline staged)
  gc_mpi_expect(perf_${test}_sees_corruption 1 "^# wrong elements: 2$" test/tools/perf_corrupted ${test} -b 256K -e 256K
                -n 1)
endforeach()
# Element 16 of rank 1: of the message, and between its elements.
foreach(stride 4 5)
  gc_mpi_expect(perf_sees_corruption_${stride} 1 "^# wrong elements: 20$" test/tools/perf_corrupted latency -n 1
                --type-shape vector:40:1:${stride})
endforeach()
gc_mpi_test(tools.perf_bandwidth_large NP 2 LABELS tools mpi MPIRUN --mca coll gpucoll
  COMMAND tools/gpucoll-perf bandwidth -b 6M -e 6M -n 1 -w 0 --window 3)
gc_mpi_test(tools.perf_odd_ranks NP 3 LABELS tools mpi MUST_PRINT "gpucoll-perf: latency needs an even number of ranks"
  MPIRUN --mca coll gpucoll
  COMMAND tools/gpucoll-perf latency)
gc_mpi_expect(perf_messages 0
              "^# time of a window of 5 messages by MPI_Isend and MPI_Irecv each way, divided by its messages, 7 exchanges"
              tools/gpucoll-perf bibw --window 5 -n 7 -b 1K -e 1K)
gc_mpi_expect(perf_message_memory 0 "; host memory on the ranks that begin, device memory on their partners, 7 exchanges"
              tools/gpucoll-perf latency --memory host,device -n 7 -b 1K -e 1K)
gc_mpi_expect(perf_message_shape 0 "^ +7200 +900 +double  - +face:30:y( +${GC_NUMBER}){5} +- +0( +${GC_NUMBER}){3}$"
              tools/gpucoll-perf latency --type-shape face:30:y -n 7)
gc_refuses(bad_shape "--type-shape cube:3: is no shape. there are contiguous, vector:COUNT:BLOCK:STRIDE, " latency
           --type-shape cube:3)
gc_refuses(shape_of_collective "--type-shape is for latency, .*: leave it out with bcast" bcast --type-shape struct:3)
gc_refuses(shape_size "-b, -e and -f are for contiguous messages, .*: leave them out" latency --type-shape struct:3 -e 8)
gc_refuses(staged_shape "--baseline staged copies contiguous messages: leave out --type-shape, or take --baseline cont"
           bibw --type-shape struct:3 --baseline staged)
gc_refuses(no_shape "--baseline contiguous is for messages with gaps: add --type-shape" bibw --baseline contiguous)
gc_refuses(one_memory "--memory takes two of device, host and pinned, .* not 'host'" latency --memory host)
gc_refuses(memory_of_collective "--memory is for latency, bandwidth and bibw: bcast is on devices" bcast --memory host,host)
gc_refuses(window_of_latency "--window is for bandwidth and bibw: leave it out with latency" latency --window 3)
gc_refuses(staged_collective "--baseline staged is for latency, .*: take --baseline host" allreduce --baseline staged)
gc_refuses(staged_host_memory "--baseline staged has nothing to copy .*: take --baseline host" latency --memory host,host
           --baseline staged)
gc_refuses(nccl_host_memory "--baseline nccl needs device memory .*: leave out --memory, or take --baseline host" latency
           --memory device,host --baseline nccl)

# What the table shows.
set(number "[0-9.]+")
gc_mpi_expect(perf_latency 0 "^ +1024 +256 +float sum( +${number}){5} +[0-9a-f]{8} +0 +${number} +${number} +${number}$"
              tools/gpucoll-perf allreduce --latency -n 50 -b 1K -e 1K --baseline host)
gc_mpi_expect(perf_repeat 0 "^ +1024 +256 +float sum( +${number}){5} +[0-9a-f]{8} +0( +${number}){5}$"
              tools/gpucoll-perf allreduce --repeat 3 -b 1K -e 1K --baseline host)
gc_mpi_expect(perf_overlap 0 "^ +1024 +256 +float +-( +${number}){4} +[0-9a-f]{8} +0( +${number}){2}$"
              tools/gpucoll-perf bcast --overlap host -n 5 -b 1K -e 1K --baseline host)
gc_mpi_expect(perf_api_overlap 0 "^ +1024 +256 +float sum( +${number}){4} +[0-9a-f]{8} +0$"
              tools/gpucoll-perf allreduce --api --overlap host -n 5 -b 1K -e 1K)
gc_mpi_expect(perf_overlap_emulated 2 "^gpucoll-perf: --overlap kernel needs GPUs" tools/gpucoll-perf bcast --overlap kernel)
gc_mpi_expect(perf_slower 3 "^ +1024 .* 0.0 +0.00 slower other bits$" tools/gpucoll-perf allreduce -b 1K -e 4K -f 4
              --compare ${GC_SOURCE}/test/tools/impossible.json)
gc_mpi_expect(perf_other_work 2 "^gpucoll-perf: --compare .*: is of other work: its collective is" tools/gpucoll-perf
              bcast --compare ${GC_SOURCE}/test/tools/impossible.json)

# --explain knows GPUs where there are none; the chosen candidate comes first.
function(gc_explains name status regex)
  cmake_parse_arguments(e "" "" "ENV" ${ARGN})
  gc_test(tools.explain_${name} LABELS tools ENV GPUCOLL_DEVICE=emu ${e_ENV}
    COMMAND ${GC_SOURCE}/test/tools/expect.sh ${status} "${regex}" ${GC_BUILD}/tools/gpucoll-info --explain
            ${e_UNPARSED_ARGUMENTS})
endfunction()

# The same through the C API, with and without the parameters that force a way.
foreach(collective allreduce bcast reduce allgather reduce_scatter alltoall gather scatter sendrecv pair
                   alltoallv gatherv scatterv barrier)
  gc_mpi_test(tools.perf_api_${collective} NP 3 LABELS tools MPIRUN --mca coll ^gpucoll
    COMMAND tools/gpucoll-perf ${collective} --api -d all -o all -b 0 -e 20K -f 100 -n 1 -w 0 -r 1)
endforeach()
foreach(collective allreduce reduce allgather reduce_scatter gather scatter gatherv scatterv)
  gc_mpi_test(tools.perf_api_${collective}_in_place NP 3 LABELS tools MPIRUN --mca coll ^gpucoll
    COMMAND tools/gpucoll-perf ${collective} --api -b 0 -e 200K -f 100 -n 1 -w 0 -r 2 --in-place)
endforeach()
gc_mpi_test(tools.perf_api_pipelined NP 2 LABELS tools MPIRUN --mca coll ^gpucoll
  COMMAND tools/gpucoll-perf allreduce --api --pipelined -b 8 -e 64K -f 16 -n 50)
gc_mpi_test(tools.perf_api_registered NP 3 LABELS tools MPIRUN --mca coll ^gpucoll
  COMMAND tools/gpucoll-perf allgather --api --registered -b 64K -e 1M -f 4 -n 10)
foreach(protocol simple ll ll128)
  foreach(algorithm ring tree)
    gc_mpi_test(tools.perf_api_${algorithm}_${protocol} NP 4 LABELS tools MPIRUN --mca coll ^gpucoll
      ENV GPUCOLL_ALGORITHM=${algorithm} GPUCOLL_PROTOCOL=${protocol}
      COMMAND tools/gpucoll-perf allreduce --api -b 4 -e 400K -f 60 -n 1 -w 0)
  endforeach()
endforeach()
foreach(protocol ll ll128)
  foreach(collective bcast reduce allgather reduce_scatter)
    gc_mpi_test(tools.perf_api_${collective}_${protocol} NP 3 LABELS tools MPIRUN --mca coll ^gpucoll
      ENV GPUCOLL_PROTOCOL=${protocol} COMMAND tools/gpucoll-perf ${collective} --api -b 4 -e 400K -f 60 -n 1 -w 0)
  endforeach()
endforeach()

# gpucoll-tune writes what is then loaded; a file with a mistake is told of with the line.
gc_test(tools.tune LABELS tools PROCESSORS 4 ENV GPUCOLL_DEVICE=emu
  COMMAND ${GC_BUILD}/tools/gpucoll-tune -n 2,3 -e 64K -f 16 -i 2 -w 1 -o tuned.txt)
# What it measures is the whole of what can be chosen: of each function all ways, and all limits.
foreach(function broadcast allgather reduce reduce_scatter alltoall gather scatter)
  # An exchange may have been faster as messages.
  gc_explains(tuned_${function} 0 "^[*] .* measured, chosen$|^as messages:$" ${function} 500 -n 3 --emu ENV GPUCOLL_TUNING_FILE=tuned.txt)
  list(APPEND gc_tuned tools.explain_tuned_${function})
endforeach()
foreach(limit zero_copy copy_engine copy_reduction)
  gc_test(tools.tuned_${limit} LABELS tools
    COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^2$" grep -c "^limit ${limit}_bytes [0-9]*$" tuned.txt)
  list(APPEND gc_tuned tools.tuned_${limit})
endforeach()
gc_test(tools.tuned_messages LABELS tools
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^8$" grep -cE "^(sendrecv|alltoall|scatter) pairwise (ll|simple) [48] "
          tuned.txt)
gc_explains(tuned_limit 0 "by size, from [0-9]+ bytes on .the tuning file's copy_engine_bytes.:" broadcast 1M -n 2 --emu
            ENV GPUCOLL_TUNING_FILE=tuned.txt)
# The same by processes; with the component scans as well.
gc_mpi_test(tools.tune_processes NP 3 LABELS tools mpi MPIRUN --mca coll gpucoll
  COMMAND tools/gpucoll-tune -e 4K -f 16 -i 2 -w 1 -o tuned_processes.txt)
gc_explains(tuned_scan 0 "^[*] .* measured, chosen$" scan 500 -n 3 --emu ENV GPUCOLL_TUNING_FILE=tuned_processes.txt)
gc_mpi_test(tools.perf_tuned_processes NP 3 LABELS tools mpi MPIRUN --mca coll gpucoll
  ENV GPUCOLL_TUNING_FILE=tuned_processes.txt COMMAND tools/gpucoll-perf alltoall -b 8 -e 8K -f 4 -n 2)
set_tests_properties(tools.tune_processes PROPERTIES FIXTURES_SETUP tuned_processes)
set_tests_properties(tools.explain_tuned_scan tools.perf_tuned_processes PROPERTIES FIXTURES_REQUIRED tuned_processes)
gc_mpi_expect(tune_bad_processes 2 "^gpucoll-tune: -n 3 is not from 2 to the 2 processes here$" tools/gpucoll-tune -n 3)
gc_mpi_expect(tune_no_scans 2 "^gpucoll-tune: --functions takes .*[^a-z] scan and exscan under mpirun with the component"
              tools/gpucoll-tune --functions scan COLL ^gpucoll)
gc_explains(tuned 0 "^[*] .* measured, chosen$" allreduce 2K -n 3 --emu ENV GPUCOLL_TUNING_FILE=tuned.txt)
gc_mpi_test(tools.perf_tuned NP 3 LABELS tools MPIRUN --mca coll ^gpucoll ENV GPUCOLL_TUNING_FILE=tuned.txt
  COMMAND tools/gpucoll-perf allreduce --api -b 8 -e 8K -f 4 -n 2)
set_tests_properties(tools.tune PROPERTIES FIXTURES_SETUP tuned)
set_tests_properties(tools.explain_tuned tools.perf_tuned ${gc_tuned} tools.tuned_messages tools.explain_tuned_limit
                     PROPERTIES FIXTURES_REQUIRED tuned)
gc_test(tools.tune_bad_ranks LABELS tools ENV GPUCOLL_DEVICE=emu
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^gpucoll-tune: -n 99 is not from 2" ${GC_BUILD}/tools/gpucoll-tune -n 99)
gc_test(tools.tune_bad_function LABELS tools ENV GPUCOLL_DEVICE=emu
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^gpucoll-tune: --functions takes" ${GC_BUILD}/tools/gpucoll-tune
          --functions allreduce,pair)
gc_mpi_expect(perf_bad_tuning_file 2 "^gpucoll-perf: .*tests.cmake: line 2: this is not the heading"
              tools/gpucoll-perf allreduce --api COLL ^gpucoll
              ENV GPUCOLL_TUNING_FILE=${GC_SOURCE}/test/tools/tests.cmake)

gc_mpi_test(tools.perf_files NP 2 LABELS tools mpi MPIRUN --mca coll gpucoll
  COMMAND tools/gpucoll-perf allreduce -b 1K -e 64K -f 8 -n 3 --repeat 3 --baseline host --json perf.json --csv perf.csv)
gc_test(tools.perf_files_read LABELS tools mpi COMMAND test/tools/read_json perf.json perf.csv)
gc_mpi_expect(perf_files_compared 0 "^# against perf.json: 0 rows slower, 0 with other bits$" tools/gpucoll-perf allreduce
              -b 1K -e 64K -f 8 -n 3 --compare perf.json --tolerance 1e9)
set_tests_properties(tools.perf_files PROPERTIES FIXTURES_SETUP perf_files)
set_tests_properties(tools.perf_files_read tools.perf_files_compared PROPERTIES FIXTURES_REQUIRED perf_files)

# Pictures, where there is something to draw with; what is said where there is not.
gc_test(tools.plot LABELS tools TIMEOUT 200
  COMMAND ${GC_SOURCE}/test/tools/with_python.sh ${GC_SOURCE}/test/tools/plot_test.py ${GC_SOURCE}/contrib/plot)
gc_test(tools.performance LABELS tools
  COMMAND ${GC_SOURCE}/test/tools/with_python.sh ${GC_SOURCE}/test/tools/performance_test.py ${GC_SOURCE}/contrib/performance)
gc_test(tools.trace LABELS tools PROCESSORS 4 ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/tools/with_python.sh ${GC_SOURCE}/test/tools/trace_test.py ${GC_SOURCE}/contrib/trace-report
          ${GC_BUILD}/test/mpi/late ${GC_MPIRUN} --oversubscribe --bind-to none)
gc_test(tools.nvtx LABELS tools PROCESSORS 2 ENV ${GC_MPI_ENV} "GC_NVTX_TOOL=${GC_NVTX_TOOL}"
  COMMAND ${GC_SOURCE}/test/tools/with_python.sh ${GC_SOURCE}/test/tools/nvtx_test.py
          ${GC_BUILD}/test/mpi/late ${GC_MPIRUN} --oversubscribe --bind-to none)
gc_test(tools.plot_without_matplotlib LABELS tools ENV PYTHONPATH=${GC_SOURCE}/test/tools/no_matplotlib
        PYTHONDONTWRITEBYTECODE=1
  COMMAND ${GC_SOURCE}/test/tools/with_python.sh ${GC_SOURCE}/test/tools/expect.sh 2
          "^contrib/plot: matplotlib is missing: apt-get install python3-matplotlib$" ${GC_SOURCE}/contrib/plot perf.json)
set_tests_properties(tools.plot tools.performance tools.trace tools.nvtx tools.plot_without_matplotlib PROPERTIES SKIP_RETURN_CODE 77)
gc_test(tools.skips LABELS tools COMMAND ${GC_SOURCE}/test/tools/skips.sh ${GC_SOURCE})

gc_test(tools.info LABELS tools ENV GPUCOLL_DEVICE=emu
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^  p2p +usable$" ${GC_BUILD}/tools/gpucoll-info)
# Whatever else the machine lacks; also where whoever starts it ignores the ends of children.
gc_test(tools.info_check LABELS tools ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^ok +Open MPI finds the plugin coll/gpucoll$" env --ignore-signal=CHLD
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_locked LABELS tools ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/tools/expect.sh any "ulimit -l .locked memory. is (unlimited|[0-9]+ KiB)$"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_reason LABELS tools ENV ${GC_MPI_ENV} OMPI_MCA_coll=gpucoll OMPI_MCA_coll_gpucoll_channels=many
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^fault +Open MPI does not find the plugin coll/gpucoll: .*channels"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_plugin LABELS tools
  ENV GPUCOLL_DEVICE=emu OMPI_MCA_mca_base_component_path=${GC_SOURCE}/test PMIX_MCA_mca_base_component_show_load_errors=none
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^fault +Open MPI does not find the plugin coll/gpucoll(:|$)"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_cure LABELS tools
  ENV GPUCOLL_DEVICE=emu OMPI_MCA_mca_base_component_path=${GC_SOURCE}/test PMIX_MCA_mca_base_component_show_load_errors=none
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2
          "to fix it: (install gpucoll .*or, if .*|unset OMPI.*|export OMPI_MCA_mca_base_component_path=)"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_version LABELS tools ENV GPUCOLL_DEVICE=emu
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2
          "^fault +Open MPI does not find the plugin coll/gpucoll. this is Open MPI 9.8.7, and gpucoll was built for [45]"
          sh -c "PATH=${GC_SOURCE}/test/tools/other_open_mpi:$PATH exec ${GC_BUILD}/tools/gpucoll-info --check")
gc_test(tools.info_check_launcher LABELS tools ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^warning +mpirun is not Open MPI's: it says 'HYDRA build details:'$"
          sh -c "PATH=${GC_SOURCE}/test/tools/other_mpi:$PATH exec ${GC_BUILD}/tools/gpucoll-info --check")
gc_test(tools.info_check_two_open_mpis LABELS tools ENV GPUCOLL_DEVICE=emu
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^warning +.mpirun .Open MPI. .* comes with another Open MPI than ompi_info 9.8.7$"
          sh -c "PATH=${GC_SOURCE}/test/tools/other_open_mpi:$PATH exec ${GC_BUILD}/tools/gpucoll-info --check")
# Open MPI loads the plugin, but its parameters keep it from using it.
foreach(coll ^gpucoll ^tuned,gpucoll basic,tuned)
  gc_test(tools.info_check_unused_${coll} LABELS tools ENV ${GC_MPI_ENV} OMPI_MCA_coll=${coll}
    COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^warning +Open MPI finds .* but does not use it: its parameter coll is "
            ${GC_BUILD}/tools/gpucoll-info --check)
endforeach()
foreach(coll ^tuned gpucoll basic,gpucoll)
  gc_test(tools.info_check_used_${coll} LABELS tools ENV ${GC_MPI_ENV} OMPI_MCA_coll=${coll}
    COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^ok +Open MPI finds the plugin coll/gpucoll$"
            ${GC_BUILD}/tools/gpucoll-info --check)
endforeach()
gc_test(tools.info_check_priority LABELS tools ENV ${GC_MPI_ENV} GPUCOLL_PRIORITY=-1
  COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^warning +Open MPI finds .* use it: the parameter coll_gpucoll_priority is -1$"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_files LABELS tools ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^warning +ulimit -n .open files. is 200. 1024 or more are needed$"
          sh -c "ulimit -n 200 && exec ${GC_BUILD}/tools/gpucoll-info --check")
gc_test(tools.check LABELS tools COMMAND test/tools/check_test)
gc_test(tools.info_check_parameter LABELS tools ENV ${GC_MPI_ENV} OMPI_MCA_coll_gpucoll_channels=many
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^fault +.*channels" ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_network LABELS tools ENV ${GC_MPI_ENV} GPUCOLL_SOCKET_IFNAME=127.0.0.0/8
  COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^note +no other node reaches this one: it listens at the loopback alone, 127.0.0.1"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_interface LABELS tools ENV ${GC_MPI_ENV} GPUCOLL_SOCKET_IFNAME=no_such_one
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^fault +parameter socket_ifname: 'no_such_one' fits no .*lo .127.0.0.1"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_check_interfaces LABELS tools ENV ${GC_MPI_ENV} GPUCOLL_SOCKET_IFNAME=no_such_one,lo
  COMMAND ${GC_SOURCE}/test/tools/expect.sh any "^note +parameter socket_ifname: 'no_such_one' fits no network"
          ${GC_BUILD}/tools/gpucoll-info --check)
gc_test(tools.info_hosts LABELS tools ENV ${GC_MPI_ENV} GPUCOLL_EMU_DEVICES=2
  COMMAND ${GC_SOURCE}/test/tools/with_python.sh ${GC_SOURCE}/test/tools/hosts_test.py ${GC_BUILD}/tools/gpucoll-info
          ${GC_MPIRUN} --oversubscribe)
gc_test(tools.info_network LABELS tools ENV GPUCOLL_DEVICE=emu GPUCOLL_SOCKET_IFNAME==lo GPUCOLL_SOCKET_FAMILY=ipv4
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^  listens at 127.0.0.1 of lo$" ${GC_BUILD}/tools/gpucoll-info)
gc_test(tools.info_links LABELS tools ENV GPUCOLL_DEVICE=emu
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^ +links: emulated with LL128 to 1, 2, 3, 4, 5, 6, 7$"
          ${GC_BUILD}/tools/gpucoll-info)
gc_test(tools.info_json LABELS tools ENV GPUCOLL_DEVICE=emu GPUCOLL_CHANNELS=3 GPUCOLL_EMU_DEVICES=1
  COMMAND ${GC_SOURCE}/test/tools/info_json.sh ${GC_BUILD})
gc_test(tools.info_mca LABELS tools ENV GPUCOLL_DEVICE=emu OMPI_MCA_coll_gpucoll_transport=shm
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^  transport +shm +mca +user$" ${GC_BUILD}/tools/gpucoll-info)
gc_explains(small 0 "^[*] one_shot +ll +1 +32 .* predicted, chosen$" allreduce 8 -np 4 --gpu)
gc_explains(large 0 "^[*] ring +simple +32 +512 .*, chosen$" allreduce 1G -np 8 --gpu
            ENV GPUCOLL_COPY_REDUCTION_BYTES=off)
gc_explains(emulated 0 "^[*] .*, chosen$" reduce_scatter 64K -n 3)
gc_explains(copy_reduction 0 "^carried by copy engines" reduce_scatter 64M -np 2 --gpu
            ENV GPUCOLL_COPY_REDUCTION_BYTES=32M)
gc_explains(copies_by_size 0 "^  by size, from 268435456 bytes on .the default copy_reduction_bytes.: its time is not pred"
            allreduce 256M -np 2 --gpu)
gc_explains(zero_copy_by_size 0 "^  by size, from 1048576 bytes on .the parameter zero_copy_bytes, environment.:"
            allreduce 1M -np 4 --gpu ENV GPUCOLL_ZERO_COPY_BYTES=1M)
gc_explains(not_yet_copies 0 "^- copies +any +by size, from 268435456 bytes on .the default copy_reduction_bytes.:"
            reduce_scatter 64M -np 2 --gpu)
gc_explains(copies_of_more 0 "^  by size, from 268435456 bytes on .the default copy_reduction_bytes.: its time is not pred"
            allreduce 256M -np 8 --gpu)
gc_explains(no_copies 0 "^- copies +any +never between so many ranks, or off .the default copy_reduction_bytes.$"
            reduce 64M -np 8 --gpu)
gc_explains(copied_message 0 "^[*] by a copy engine, in CUDA graphs and in the C API by kernels. by size, from 33554432 bytes on .the default copy_engine_bytes.:"
            sendrecv 64M -np 2 --gpu)
gc_explains(send_recv_channels 0 "^[*] simple in 8 parts," sendrecv 1M -np 2 --gpu ENV GPUCOLL_SEND_RECV_CHANNELS=12)
gc_explains(copy_exchange 0 "^  by size, from 1048576 bytes on .the parameter copy_exchange_bytes, environment.:"
            allgather 1M -np 4 --gpu ENV GPUCOLL_COPY_EXCHANGE_BYTES=1M)
gc_explains(copied_alltoall 0 "^[*] by a copy engine, in CUDA graphs and in the C API by kernels. by size, from 134217728 bytes on .the default copy_exchange_bytes.:"
            alltoall 128M -np 4 --gpu)
gc_explains(kernel_alltoall 0 "^[*] simple in 16 parts," alltoall 64M -np 4 --gpu)
gc_explains(kernel_allgather 0 "^- copies +any +never between so many ranks, or off .the default copy_exchange_bytes.$"
            allgather 256M -np 4 --gpu)
gc_explains(all_pairs 0 "^- all_pairs +ll128 +more than all_pairs_bytes$" allreduce 64K -np 2 --gpu
            ENV GPUCOLL_ALL_PAIRS_BYTES=16K)
gc_explains(scan 0 "^[*] ring +simple .*, chosen$" scan 256M -np 8 --gpu)
gc_explains(why_not 0 "^- one_shot +ll +more than one_shot_bytes / ranks$" allreduce 1M -np 8 --gpu)
gc_explains(forced 0 "^[*] tree +simple .*, chosen$" allreduce 8 --gpu
            ENV GPUCOLL_ALGORITHM=tree GPUCOLL_PROTOCOL=simple)
gc_explains(messages 0 "^[*] ll in 1 part," sendrecv 64 -np 2 --gpu)
gc_explains(bad_function 2 "^gpucoll-info: there is no function 'allreduc'" allreduc 8)
gc_explains(bad_size 2 "^gpucoll-info: '8X' is not a size" allreduce 8X)
gc_explains(bad_ranks 2 "^gpucoll-info: -np 0" allreduce 8 -np 0)
gc_explains(no_tuning_file 2 "^gpucoll-info: tuning file /nonexistent/x: " allreduce 8
            ENV GPUCOLL_TUNING_FILE=/nonexistent/x)

# What cannot be written ends a program with a sentence.
foreach(call "info" "info --json" "info --help" "tune --help" "perf --help" "perf allreduce --api -b 4 -e 4 -n 1")
  string(REGEX REPLACE " .*" "" program "${call}")
  string(MAKE_C_IDENTIFIER "${call}" name)
  gc_test(tools.no_output_${name} LABELS tools ENV ${GC_MPI_ENV}
    COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^gpucoll-${program}: .*cannot write to " sh -c
            "${GC_BUILD}/tools/gpucoll-${call} >/dev/full")
endforeach()

gc_test(tools.info_bad_option LABELS tools
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^gpucoll-info: .*--wat" ${GC_BUILD}/tools/gpucoll-info --wat)
gc_test(tools.info_old_parameter LABELS tools ENV GPUCOLL_DEVICE=emu OMPI_MCA_coll_gpucoll_teams=1
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^gpucoll-info: the parameter teams is named shared_gpu now"
          ${GC_BUILD}/tools/gpucoll-info)
gc_test(tools.info_bad_parameter LABELS tools ENV GPUCOLL_DEVICE=emu GPUCOLL_CHANNELS=many
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 2 "^gpucoll-info: environment variable GPUCOLL_CHANNELS"
          ${GC_BUILD}/tools/gpucoll-info)
