# Ranks that are killed, stopped and continued: test/faults/faults.py says what is expected. Two rounds at a time, mostly
# waiting; the slack is for machines that have more to do.
gc_by_hand(test/faults/api_worker test/faults/mpi_worker)  # faults.py starts them
gc_test(faults.rounds LABELS faults TIMEOUT 300 PROCESSORS 4 ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/faults/faults.py ${GC_BUILD} --mpirun ${GC_MPIRUN} --rounds 60 --seed 1 --slack 3 --verbose)
gc_test(faults.rounds.nodes LABELS faults TIMEOUT 300 PROCESSORS 4 ENV ${GC_MPI_ENV}
  COMMAND ${GC_SOURCE}/test/faults/faults.py ${GC_BUILD} --mpirun ${GC_MPIRUN} --nodes 2,3 --rounds 24 --seed 1 --slack 3
    --verbose)
gc_test(faults.rounds.cut LABELS faults TIMEOUT 300 PROCESSORS 4
  COMMAND ${GC_SOURCE}/test/faults/faults.py ${GC_BUILD} --api C --faults cut --nodes 2,3 --rounds 21 --seed 1 --slack 3)
