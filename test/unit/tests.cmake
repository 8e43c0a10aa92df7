# Tests of label unit: what CTest runs. See test/CTestTestfile.cmake.in for the functions.
gc_test(unit.parameters_document LABELS unit
  COMMAND ${GC_SOURCE}/test/unit/parameters_document.sh ${GC_SOURCE} ${GC_BUILD})
