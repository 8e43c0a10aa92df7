# The examples, on the emulated device.
gc_test(examples.one_process LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 4 COMMAND examples/one_process)
gc_test(examples.one_device LABELS examples ENV GPUCOLL_DEVICE=emu COMMAND examples/one_process 1)
gc_test(examples.one_process_per_rank LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 4
  COMMAND ${GC_SOURCE}/examples/run_ranks.sh 4 ${GC_BUILD}/examples/one_process_per_rank)
gc_test(examples.graphs LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 4 COMMAND examples/graphs)
# Python would have to be built with the sanitizer that the component brings.
# First the system's, which has the packages that contrib/check installs.
find_program(GC_PYTHON python3 HINTS /usr/bin)
if(GC_PYTHON AND NOT GC_SANITIZERS)
  gc_mpi_test(examples.mpi4py_arrays LABELS examples mpi NP 3 MPIRUN ${GC_LITERALLY}
    COMMAND ${GC_PYTHON} ${GC_SOURCE}/examples/mpi4py_arrays.py)
  set_tests_properties(examples.mpi4py_arrays PROPERTIES SKIP_RETURN_CODE 77)
endif()
