# The examples, on the emulated device.
gc_test(examples.one_process LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 4 COMMAND examples/one_process)
gc_test(examples.one_device LABELS examples ENV GPUCOLL_DEVICE=emu COMMAND examples/one_process 1)
gc_test(examples.one_process_per_rank LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 4
  COMMAND ${GC_SOURCE}/examples/run_ranks.sh 4 ${GC_BUILD}/examples/one_process_per_rank)
gc_test(examples.graphs LABELS examples ENV GPUCOLL_DEVICE=emu PROCESSORS 4 COMMAND examples/graphs)
foreach(np 1 2 3)
  gc_mpi_test(examples.cg_${np} LABELS examples mpi NP ${np} MPIRUN ${GC_LITERALLY}
    COMMAND examples/cg --size 23 37 --steps 40)
endforeach()
# The residual is larger after so few steps than at the beginning.
gc_mpi_test(examples.cg_growing LABELS examples mpi NP 2 COMMAND examples/cg --size 128 128 --steps 30)
gc_mpi_test(examples.cg_too_small LABELS examples mpi NP 3 MUST_PRINT "cannot be shared among 3 ranks"
  COMMAND examples/cg --size 2 5)
# Halos of few and of many bytes, in blocks that are not equal.
foreach(np 1 2 4 6)
  foreach(exchange messages neighbors)
    gc_mpi_test(examples.heat_2d_${exchange}_${np} LABELS examples mpi NP ${np} MPIRUN ${GC_LITERALLY}
      COMMAND examples/heat_2d --size 61 47 --steps 40 --exchange ${exchange})
    gc_mpi_test(examples.heat_3d_${exchange}_${np} LABELS examples mpi NP ${np} MPIRUN ${GC_LITERALLY}
      COMMAND examples/heat_3d --size 37 30 41 --steps 10 --exchange ${exchange})
  endforeach()
endforeach()
# Ranks without inner points, and a plate that is too small.
gc_mpi_test(examples.heat_2d_thin LABELS examples mpi NP 4 MPIRUN ${GC_LITERALLY}
  COMMAND examples/heat_2d --size 3 5 --steps 10)
gc_mpi_test(examples.heat_3d_thin LABELS examples mpi NP 6 MPIRUN ${GC_LITERALLY}
  COMMAND examples/heat_3d --size 4 2 1 --steps 10 --exchange neighbors)
gc_mpi_test(examples.heat_2d_too_small LABELS examples mpi NP 4 MUST_PRINT "cannot be shared among 2 ranks"
  MPIRUN ${GC_LITERALLY} COMMAND examples/heat_2d --size 1 5)
gc_mpi_test(examples.heat_3d_one_plane LABELS examples mpi NP 1 MUST_PRINT "one plane is a plate"
  MPIRUN ${GC_LITERALLY} COMMAND examples/heat_3d --size 1 5 6)
# The fifth rank of a node with three GPUs; Slurm's third task.
gc_test(examples.one_gpu LABELS examples ENV CUDA_VISIBLE_DEVICES=7,8,9 OMPI_COMM_WORLD_LOCAL_RANK=4 SLURM_LOCALID=0
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^8$" ${GC_SOURCE}/examples/one_gpu.sh printenv CUDA_VISIBLE_DEVICES)
gc_test(examples.one_gpu_slurm LABELS examples ENV CUDA_VISIBLE_DEVICES=GPU-a,GPU-b,GPU-c SLURM_LOCALID=2
  COMMAND ${GC_SOURCE}/test/tools/expect.sh 0 "^GPU-c$" ${GC_SOURCE}/examples/one_gpu.sh printenv CUDA_VISIBLE_DEVICES)
# Where a compiler is missing the tests are skipped. Sanitizers would have to be linked into the programs.
if(NOT GC_SANITIZERS)
  # In mpi_arrays.rs names of Open MPI's library stand for handles. Without a GPU OpenACC computes on the CPU.
  foreach(source fortran_arrays.f90 fortran_openacc.f90 mpi_arrays.rs)
    string(REGEX REPLACE "[.].*" "" name ${source})
    gc_test(examples.${name} LABELS examples mpi PROCESSORS 6 ENV ${GC_MPI_ENV} OMP_NUM_THREADS=1
      COMMAND ${GC_SOURCE}/examples/compiled.sh ${GC_SOURCE}/examples/${source} ${GC_BUILD}
        ${GC_MPIRUN} --oversubscribe --bind-to none -np 3 ${GC_LITERALLY})
    set_tests_properties(examples.${name} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
  gc_test(examples.rust LABELS examples PROCESSORS 4 ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=3
    COMMAND ${GC_SOURCE}/examples/compiled.sh ${GC_SOURCE}/examples/one_process.rs ${GC_BUILD})
  set_tests_properties(examples.rust PROPERTIES SKIP_RETURN_CODE 77)
endif()
# Python would have to be built with the sanitizer that the component brings.
if(GC_PYTHON AND NOT GC_SANITIZERS)
  gc_test(examples.api_arrays LABELS examples PROCESSORS 4
    ENV GPUCOLL_DEVICE=emu GPUCOLL_EMU_DEVICES=3 LIBGPUCOLL=${GC_BUILD}/.libs/libgpucoll.so.0
    COMMAND ${GC_PYTHON} ${GC_SOURCE}/examples/api_arrays.py)
  gc_mpi_test(examples.mpi4py_arrays LABELS examples mpi NP 3 MPIRUN ${GC_LITERALLY}
    COMMAND ${GC_PYTHON} ${GC_SOURCE}/examples/mpi4py_arrays.py)
  set_tests_properties(examples.mpi4py_arrays PROPERTIES SKIP_RETURN_CODE 77)
  gc_mpi_test(examples.heat_2d_output LABELS examples mpi NP 2 MPIRUN ${GC_LITERALLY}
    COMMAND examples/heat_2d --size 61 47 --steps 40 --output ${GC_BUILD}/examples/heat.npy)
  gc_test(examples.plot_field LABELS examples
    COMMAND ${GC_PYTHON} ${GC_SOURCE}/examples/plot_field.py ${GC_BUILD}/examples/heat.npy)
  set_tests_properties(examples.heat_2d_output PROPERTIES FIXTURES_SETUP heat_field)
  set_tests_properties(examples.plot_field PROPERTIES FIXTURES_REQUIRED heat_field SKIP_RETURN_CODE 77)
endif()
