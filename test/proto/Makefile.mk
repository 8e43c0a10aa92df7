# Tests of label proto: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/proto/tests.cmake docs/formats/connection.md docs/formats/copy.md docs/formats/direct.md docs/formats/line_mesh.md docs/formats/mesh.md \
	docs/formats/zero_copy.md \
	docs/primitives.md

# These are headers compiled into the test: they link nothing of ours, and so cannot reach up.
GC_PROTO_TEST_FILES = test/proto/thread_block.h test/proto/each_case.h test/proto/looks.h test/proto/world.h

check_PROGRAMS += test/proto/reduction_test test/proto/reduce_copy_test test/proto/reduce_copy_warp_test \
	test/proto/primitives_test test/proto/direct_test test/proto/collectives_test test/proto/run_plan_test \
	test/proto/one_shot_test test/proto/all_pairs_test \
	test/proto/formats_test
test_proto_formats_test_SOURCES = test/proto/formats_test.cpp
test_proto_formats_test_LDADD = $(GTEST_LIBS)
test_proto_reduction_test_SOURCES = test/proto/reduction_test.cpp
test_proto_reduction_test_LDADD = $(GTEST_LIBS)
test_proto_reduce_copy_test_SOURCES = test/proto/reduce_copy_test.cpp $(GC_PROTO_TEST_FILES)
test_proto_reduce_copy_test_LDADD = $(GTEST_LIBS)
# As on a GPU, several threads side by side in a row; with one that is left over.
test_proto_reduce_copy_warp_test_SOURCES = test/proto/reduce_copy_test.cpp $(GC_PROTO_TEST_FILES)
test_proto_reduce_copy_warp_test_CPPFLAGS = $(AM_CPPFLAGS) -DGC_CPU_WARP=2
test_proto_reduce_copy_warp_test_LDADD = $(GTEST_LIBS)
test_proto_primitives_test_SOURCES = test/proto/primitives_test.cpp $(GC_PROTO_TEST_FILES)
test_proto_primitives_test_LDADD = $(GTEST_LIBS)
test_proto_direct_test_SOURCES = test/proto/direct_test.cpp $(GC_PROTO_TEST_FILES)
test_proto_direct_test_LDADD = $(GTEST_LIBS)
test_proto_collectives_test_SOURCES = test/proto/collectives_test.cpp test/proto/collective_case.h \
	test/proto/plan_runner.h $(GC_PROTO_TEST_FILES)
test_proto_collectives_test_LDADD = $(GTEST_LIBS)
test_proto_run_plan_test_SOURCES = test/proto/run_plan_test.cpp test/proto/collective_case.h \
	test/proto/plan_runner.h $(GC_PROTO_TEST_FILES)
test_proto_run_plan_test_LDADD = $(GTEST_LIBS)
test_proto_one_shot_test_SOURCES = test/proto/one_shot_test.cpp test/proto/mesh_program.h test/proto/plan_runner.h \
	$(GC_PROTO_TEST_FILES)
test_proto_one_shot_test_LDADD = $(GTEST_LIBS)
test_proto_all_pairs_test_SOURCES = test/proto/all_pairs_test.cpp test/proto/mesh_program.h \
	test/proto/plan_runner.h $(GC_PROTO_TEST_FILES)
test_proto_all_pairs_test_LDADD = $(GTEST_LIBS)
# With sanitizers it takes minutes and gigabytes to compile; the MPI tests run these kernels under them.
if TSAN_VARIANTS
check_PROGRAMS += test/proto/kernels_test
endif
test_proto_kernels_test_SOURCES = test/proto/kernels_test.cpp test/proto/collective_case.h \
	test/proto/local_reduce_case.h test/proto/plan_runner.h $(GC_PROTO_TEST_FILES)
test_proto_kernels_test_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_CUDA
test_proto_kernels_test_CPPFLAGS += $(CUDA_CPPFLAGS)
endif
test_proto_kernels_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/proto/local_reduce_test
test_proto_local_reduce_test_SOURCES = test/proto/local_reduce_test.cpp test/proto/local_reduce_case.h \
	test/proto/plan_runner.h $(GC_PROTO_TEST_FILES)
test_proto_local_reduce_test_LDADD = $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/proto/local_reduce_test_tsan
test_proto_local_reduce_test_tsan_SOURCES = test/proto/local_reduce_test.cpp
test_proto_local_reduce_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_local_reduce_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_local_reduce_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_local_reduce_test_tsan_LDADD = $(GTEST_LIBS)
endif

check_PROGRAMS += test/proto/resident_kernel_test
test_proto_resident_kernel_test_SOURCES = test/proto/resident_kernel_test.cpp test/proto/plan_runner.h $(GC_PROTO_TEST_FILES)
test_proto_resident_kernel_test_LDADD = $(GTEST_LIBS)
check_PROGRAMS += test/proto/zero_copy_test
test_proto_zero_copy_test_SOURCES = test/proto/zero_copy_test.cpp test/proto/mesh_program.h \
	test/proto/plan_runner.h $(GC_PROTO_TEST_FILES)
test_proto_zero_copy_test_LDADD = $(GTEST_LIBS)
if TSAN_VARIANTS
check_PROGRAMS += test/proto/zero_copy_test_tsan
test_proto_zero_copy_test_tsan_SOURCES = $(test_proto_zero_copy_test_SOURCES)
test_proto_zero_copy_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_zero_copy_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_zero_copy_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_zero_copy_test_tsan_LDADD = $(GTEST_LIBS)
endif

if TSAN_VARIANTS
check_PROGRAMS += test/proto/resident_kernel_test_tsan
test_proto_resident_kernel_test_tsan_SOURCES = $(test_proto_resident_kernel_test_SOURCES)
test_proto_resident_kernel_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_resident_kernel_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_resident_kernel_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_resident_kernel_test_tsan_LDADD = $(GTEST_LIBS)
endif

check_PROGRAMS += test/proto/packing_test
test_proto_packing_test_SOURCES = test/proto/packing_test.cpp $(GC_PROTO_TEST_FILES)
test_proto_packing_test_LDADD = $(GC_COLL_LIBS) $(GTEST_LIBS)

check_PROGRAMS += test/proto/ll_test test/proto/ll128_test
test_proto_ll_test_SOURCES = test/proto/ll_test.cpp test/proto/lines_test.h $(GC_PROTO_TEST_FILES)
test_proto_ll_test_LDADD = $(GTEST_LIBS)
test_proto_ll128_test_SOURCES = test/proto/ll128_test.cpp test/proto/lines_test.h $(GC_PROTO_TEST_FILES)
test_proto_ll128_test_LDADD = $(GTEST_LIBS)

# Under ThreadSanitizer as they are, and as mutants: see kMutant in platform.h.
if TSAN_VARIANTS
check_PROGRAMS += test/proto/primitives_test_tsan test/proto/collectives_test_tsan test/proto/run_plan_test_tsan \
	test/proto/one_shot_test_tsan
test_proto_primitives_test_tsan_SOURCES = $(test_proto_primitives_test_SOURCES)
test_proto_primitives_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_primitives_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_primitives_test_tsan_LDADD = $(GTEST_LIBS)
test_proto_collectives_test_tsan_SOURCES = $(test_proto_collectives_test_SOURCES)
test_proto_collectives_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_collectives_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_collectives_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_collectives_test_tsan_LDADD = $(GTEST_LIBS)
test_proto_run_plan_test_tsan_SOURCES = $(test_proto_run_plan_test_SOURCES)
test_proto_run_plan_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_run_plan_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_run_plan_test_tsan_LDADD = $(GTEST_LIBS)
test_proto_one_shot_test_tsan_SOURCES = $(test_proto_one_shot_test_SOURCES)
test_proto_one_shot_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_one_shot_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_one_shot_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_one_shot_test_tsan_LDADD = $(GTEST_LIBS)
check_PROGRAMS += test/proto/all_pairs_test_tsan
test_proto_all_pairs_test_tsan_SOURCES = $(test_proto_all_pairs_test_SOURCES)
test_proto_all_pairs_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_all_pairs_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_all_pairs_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_all_pairs_test_tsan_LDADD = $(GTEST_LIBS)
check_PROGRAMS += test/proto/direct_test_tsan
test_proto_direct_test_tsan_SOURCES = $(test_proto_direct_test_SOURCES)
test_proto_direct_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_direct_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_direct_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_direct_test_tsan_LDADD = $(GTEST_LIBS)
check_PROGRAMS += test/proto/ll_test_tsan test/proto/ll128_test_tsan
test_proto_ll_test_tsan_SOURCES = $(test_proto_ll_test_SOURCES)
test_proto_ll_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_ll_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_ll_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_ll_test_tsan_LDADD = $(GTEST_LIBS)
test_proto_ll128_test_tsan_SOURCES = $(test_proto_ll128_test_SOURCES)
test_proto_ll128_test_tsan_CPPFLAGS = $(AM_CPPFLAGS) -DGC_MUTANTS
test_proto_ll128_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
test_proto_ll128_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
test_proto_ll128_test_tsan_LDADD = $(GTEST_LIBS)
endif
