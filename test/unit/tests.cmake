# Tests of label unit: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
gc_test(unit.parameters_document LABELS unit
  COMMAND ${GC_SOURCE}/test/unit/parameters_document.sh ${GC_SOURCE} ${GC_BUILD})
gc_test(unit.base LABELS unit COMMAND test/unit/base_test)
gc_test(unit.core LABELS unit COMMAND test/unit/core_test)
gc_test(unit.tuner LABELS unit COMMAND test/unit/tuner_test)
gc_test(unit.tuning_file LABELS unit COMMAND test/unit/tuning_file_test)
gc_test(unit.bootstrap LABELS unit COMMAND test/unit/bootstrap_test)
foreach(part memory share stream)
  gc_test(unit.emu_${part} LABELS unit COMMAND test/unit/emu_${part}_test)
  if(GC_TSAN_VARIANTS)
    gc_test(unit.emu_${part}.tsan LABELS unit COMMAND test/unit/emu_${part}_test_tsan)
  endif()
endforeach()
foreach(device auto cuda emu)
  gc_test(unit.gpu_platform.${device} LABELS unit ENV GPUCOLL_DEVICE=${device} CUDA_VISIBLE_DEVICES=
          COMMAND test/unit/gpu_platform_test)
endforeach()
# Built with CUDA only; skips itself where there is no GPU.
if(EXISTS "${GC_BUILD}/test/unit/gpu_cuda_test")
  gc_test(unit.gpu_cuda LABELS unit device COMMAND test/unit/gpu_cuda_test)
endif()
gc_test(unit.planner LABELS unit COMMAND test/unit/planner_test)
