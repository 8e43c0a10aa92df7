# Tests of label fuzz: parsers of what other processes send, and of files, by libFuzzer (test/fuzz/run).
gc_test(fuzz.build LABELS fuzz TIMEOUT 600 PROCESSORS 4 COMMAND ${GC_SOURCE}/test/fuzz/run ${GC_BUILD} build)
set_tests_properties(fuzz.build PROPERTIES SKIP_RETURN_CODE 77 FIXTURES_SETUP fuzzers)
foreach(target channel rendezvous steps tuning_file)
  gc_test(fuzz.${target} LABELS fuzz TIMEOUT 400 PROCESSORS 2
    COMMAND ${GC_SOURCE}/test/fuzz/run ${GC_BUILD} ${target})
  set_tests_properties(fuzz.${target} PROPERTIES SKIP_RETURN_CODE 77 FIXTURES_REQUIRED fuzzers)
endforeach()
