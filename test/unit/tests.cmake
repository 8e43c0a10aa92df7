#Tests of label unit : what CTest runs.See test / CTestTestfile.cmake.in for the functions.
gc_test(unit.parameters_document LABELS unit COMMAND ${GC_SOURCE} / test / unit /
        parameters_document.sh ${GC_SOURCE} ${GC_BUILD} / src / base /
        params_doc) gc_test(unit.base LABELS unit COMMAND test / unit /
                            base_test) gc_test(unit.core LABELS unit COMMAND test / unit /
                                               core_test) gc_test(unit.team_call LABELS unit COMMAND test / unit /
                                                                  team_call_test)
    gc_test(unit.tuner LABELS unit COMMAND test / unit /
            tuner_test) gc_test(unit.tuning_file LABELS unit COMMAND test / unit /
                                tuning_file_test) gc_test(unit.bootstrap LABELS unit COMMAND test / unit /
                                                          bootstrap_test) foreach (part graph memory share stream)
        gc_test(unit.emu_${part} LABELS unit COMMAND test / unit / emu_${part} _test) if (GC_TSAN_VARIANTS) gc_test(
            unit.emu_${part}.tsan LABELS unit COMMAND test / unit /
            emu_${part} _test_tsan) endif() endforeach() foreach (device auto cuda emu)
            gc_test(unit.gpu_platform.${device} LABELS unit ENV GPUCOLL_DEVICE = ${device} CUDA_VISIBLE_DEVICES =
                        COMMAND test / unit / gpu_platform_test) endforeach()
#Built with CUDA only; skips itself where there is no GPU.
                if (EXISTS "${GC_BUILD}/test/unit/gpu_cuda_test") gc_test(
                    unit.gpu_cuda LABELS unit device COMMAND test /
                    unit / gpu_cuda_test) endif() gc_test(unit.planner LABELS unit COMMAND test / unit / planner_test)
                    gc_test(unit.copy_reductions LABELS unit COMMAND test / unit / copy_reductions_test)
                        gc_test(unit.copy_path LABELS unit ENV GPUCOLL_DEVICE = emu COMMAND test /
                                                                                unit / copy_path_test)
                            gc_test(unit.retired LABELS unit ENV GPUCOLL_DEVICE =
                                        emu COMMAND test / unit / retired_test)
                                gc_test(unit.flights LABELS unit COMMAND test / unit / flights_test)
                                    gc_test(unit.copy_turns LABELS unit COMMAND test / unit / copy_turns_test)
                                        gc_test(unit.work_fifo LABELS unit COMMAND test / unit / work_fifo_test)
                                            gc_test(unit.lingering LABELS unit COMMAND test / unit / lingering_test)
                                                gc_test(unit.launcher LABELS unit ENV GPUCOLL_KEPT_GRAPHS =
                                                            1 COMMAND test / unit / launcher_test) if (GC_TSAN_VARIANTS)
                                                    gc_test(unit.launcher.tsan LABELS unit ENV GPUCOLL_KEPT_GRAPHS =
                                                                1 COMMAND test / unit / launcher_test_tsan) endif()
                                                        gc_test(unit.scratch LABELS unit ENV GPUCOLL_DEVICE =
                                                                    emu COMMAND test / unit / scratch_test)
                                                            gc_test(unit.piecewise_copy LABELS unit ENV GPUCOLL_DEVICE =
                                                                        emu COMMAND test / unit / piecewise_copy_test)
                                                                gc_test(unit.links LABELS unit COMMAND test / unit /
                                                                        links_test)
                                                                    gc_test(unit.mailbox LABELS unit COMMAND test /
                                                                            unit / mailbox_test)
                                                                        gc_test(unit.registration LABELS unit
                                                                                    TIMEOUT 120 COMMAND test /
                                                                                unit / registration_test)
