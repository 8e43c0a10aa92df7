# Tests of label hosts: several hosts that this machine plays (test/hosts/run), with sockets between them.
function(gc_hosts_test name n_hosts)
  cmake_parse_arguments(t "" "TIMEOUT" "" ${ARGN})
  gc_test(hosts.${name} LABELS hosts TIMEOUT ${t_TIMEOUT} PROCESSORS 4
    ENV ${GC_MPI_ENV} "GC_BUILD=${GC_BUILD}" "GC_MPIRUN=${GC_MPIRUN}"
    COMMAND ${GC_SOURCE}/test/hosts/run ${n_hosts} ${GC_SOURCE}/test/hosts/${t_UNPARSED_ARGUMENTS})
  set_tests_properties(hosts.${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
gc_hosts_test(functions 2 functions.sh 3 10.77.0.1:2,10.77.0.2:1 TIMEOUT 180)
gc_hosts_test(functions_of_4 4 functions.sh 4 10.77.0.1,10.77.0.2,10.77.0.3,10.77.0.4 TIMEOUT 180)
gc_hosts_test(mpi 2 mpi.sh TIMEOUT 240)
gc_hosts_test(messages 2 messages.sh TIMEOUT 240)
gc_hosts_test(ipv6 2 ipv6.sh TIMEOUT 240)
gc_hosts_test(cut_wire 2 cut_wire.sh TIMEOUT 180)
