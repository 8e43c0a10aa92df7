# Tests of label vm: verbs between hosts that a virtual machine plays, with Soft-RoCE devices (test/vm/run). They have
# all processors: QEMU emulates, and takes both.
function(gc_vm_test name n_hosts)
  cmake_parse_arguments(v "" "" "COMMAND" ${ARGN})
  set(passed)
  foreach(variable ${GC_MPI_ENV} "GC_BUILD=${GC_BUILD}" "GC_MPIRUN=${GC_MPIRUN}" GPUCOLL_VERBOSE=1)
    string(REGEX REPLACE "=.*" "" variable_name "${variable}")
    list(APPEND passed --env "${variable_name}")
  endforeach()
  gc_test(vm.${name} LABELS vm TIMEOUT 600 PROCESSORS 4
    ENV ${GC_MPI_ENV} "GC_BUILD=${GC_BUILD}" "GC_MPIRUN=${GC_MPIRUN}" GPUCOLL_VERBOSE=1
    COMMAND ${GC_SOURCE}/test/vm/run --merge --share none --timeout 500 --hosts ${n_hosts} ${passed} -- ${v_COMMAND})
  set_tests_properties(vm.${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
if(GC_VERBS AND NOT GC_SANITIZERS)
  gc_vm_test(functions 2 COMMAND ${GC_SOURCE}/test/vm/functions.sh h1 h2)
  gc_vm_test(functions_of_4 3 COMMAND ${GC_SOURCE}/test/vm/functions.sh h1 h2 h3 h3)
  gc_vm_test(rails 4 COMMAND ${GC_SOURCE}/test/vm/rails.sh)
  gc_vm_test(failover 4 COMMAND ${GC_SOURCE}/test/vm/failover.sh)
  gc_vm_test(mpi 2 COMMAND ${GC_SOURCE}/test/vm/mpi.sh)
  gc_vm_test(faults 2 COMMAND ${GC_SOURCE}/test/vm/faults.sh)
  # The classes alone, from one end to the other of one device.
  gc_vm_test(link 2 COMMAND onhost h1 ${GC_BUILD}/test/unit/net/verbs_test --gtest_filter=OneDevice.*
    --gtest_also_run_disabled_tests)
endif()
# The scripts start it.
gc_by_hand(test/vm/functions)
