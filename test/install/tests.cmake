gc_test(install.exports LABELS install COMMAND ${GC_SOURCE}/test/install/exports.sh ${GC_BUILD} ${GC_SOURCE})
gc_test(install.modulefiles LABELS install
  COMMAND ${GC_SOURCE}/test/install/modulefiles.sh ${GC_SOURCE} ${GC_BUILD} ${GC_PREFIX})
set_tests_properties(install.modulefiles PROPERTIES SKIP_RETURN_CODE 77)
gc_test(install.use LABELS install TIMEOUT 180
  ENV GPUCOLL_DEVICE=emu OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
      OMPI_MCA_btl_vader_single_copy_mechanism=none
  COMMAND ${GC_SOURCE}/test/install/install.sh ${GC_SOURCE} ${GC_BUILD})
# While libtool links the component for its new place, it is not in the build tree.
set_tests_properties(install.use PROPERTIES RUN_SERIAL TRUE)
