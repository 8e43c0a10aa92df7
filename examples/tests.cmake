# The examples, on the emulated device.
gc_test(examples.one_process LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 2 COMMAND examples/one_process)
gc_test(examples.one_device LABELS examples ENV GPUCOLL_DEVICE=emu COMMAND examples/one_process 1)
gc_test(examples.one_process_per_rank LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 2
  COMMAND ${GC_SOURCE}/examples/run_ranks.sh 4 ${GC_BUILD}/examples/one_process_per_rank)
gc_test(examples.graphs LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 2 COMMAND examples/graphs)
