# Tests. One stanza makes a program; one line in test/<directory>/tests.cmake makes CTest run it, and without one
# make check fails.
#
#   check_PROGRAMS += test/unit/gpu/thing_test
#   test_unit_gpu_thing_test_SOURCES = test/unit/gpu/thing_test.cpp
#   test_unit_gpu_thing_test_LDADD = $(GC_GPU_LIBS) $(GTEST_LIBS)    # the rooms it may use, no more
#
# With ThreadSanitizer beside the plain build (test/libemu_tsan.a is base and the emulated device built that way):
#
#   if TSAN_VARIANTS
#   check_PROGRAMS += test/unit/gpu/thing_test_tsan
#   test_unit_gpu_thing_test_tsan_SOURCES = test/unit/gpu/thing_test.cpp
#   test_unit_gpu_thing_test_tsan_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
#   test_unit_gpu_thing_test_tsan_LDFLAGS = $(GC_TSAN_LINKFLAGS)
#   test_unit_gpu_thing_test_tsan_LDADD = $(GC_TSAN_LIBS) $(GTEST_LIBS)
#   endif
#
# and in tests.cmake: if(GC_TSAN_VARIANTS) ... endif(). An MPI program adds
#   test_mpi_thing_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
#   test_mpi_thing_LDFLAGS = $(GC_TEST_LINKFLAGS)
#   test_mpi_thing_LDADD = libgpucoll.la $(MPI_LIBS)
GTEST_LIBS = -lgtest -lgtest_main
# -no-install: a program of the build tree, not a script around it.
GC_TEST_LINKFLAGS = $(AM_LDFLAGS) -no-install
GC_TSAN_CXXFLAGS = $(AM_CXXFLAGS) -fsanitize=thread
GC_TSAN_LINKFLAGS = $(AM_LDFLAGS) -fsanitize=thread
GC_TSAN_LIBS = test/libemu_tsan.a

# What takes long is to compile them, too: those of units have next to nothing to run.
test/unit/%.o: override CXXFLAGS += -O0 $(GC_TEST_CXXFLAGS)
test/api/%.o test/nccl/%.o test/mpi/%.o test/faults/%.o test/vm/%.o: override CXXFLAGS += $(GC_TEST_CXXFLAGS)
test/proto/%.o: override CXXFLAGS += $(GC_PROTO_TEST_CXXFLAGS)

if TSAN_VARIANTS
check_LIBRARIES += test/libemu_tsan.a
test_libemu_tsan_a_SOURCES = $(GC_BASE_SOURCES) $(GC_EMU_SOURCES)
test_libemu_tsan_a_CXXFLAGS = $(GC_TSAN_CXXFLAGS)
endif

include test/unit/Makefile.mk
include test/proto/Makefile.mk
include test/api/Makefile.mk
include test/nccl/Makefile.mk
include test/mpi/Makefile.mk
include test/faults/Makefile.mk
include test/fuzz/Makefile.mk
include test/hosts/Makefile.mk
include test/vm/Makefile.mk
include test/device/Makefile.mk
include test/tools/Makefile.mk
include test/bench/Makefile.mk
include test/install/Makefile.mk

# Everything that the tests run, without running it.
# One after the other: both make the same libraries.
check-programs: all
	@$(MAKE) $(AM_MAKEFLAGS) CXXFLAGS="$(GC_CHECK_CXXFLAGS)" $(check_LIBRARIES) $(check_LTLIBRARIES) $(check_PROGRAMS)
.PHONY: check-programs
# Those in the given directories, to make and run no others:
#   make check check_PROGRAMS="$(make -s list-programs IN='src test/unit')" CTEST_ARGS="-L unit"
list-programs:
	@echo $(foreach directory,$(IN),$(filter $(directory)/%,$(check_PROGRAMS)))
.PHONY: list-programs

# Those that the tests need which have no label that the regular expression matches:
#   make -s list-wanted-programs LEAVE_OUT='^(asan|long|fuzz)$$'
list-wanted-programs: CTestTestfile.cmake
	@GC_CHECK_PROGRAMS="$(check_PROGRAMS)" GC_LEAVE_OUT='$(LEAVE_OUT)' GC_WANTED_FILE=$(abs_top_builddir)/wanted-programs; \
	export GC_CHECK_PROGRAMS GC_LEAVE_OUT GC_WANTED_FILE; $(CTEST) -N >/dev/null || exit 1; \
	echo $$(printf '%s\n' $(check_PROGRAMS) | sed 's,^,$(abs_top_builddir)/,' | grep -Fx -f wanted-programs | \
	  sed 's,^$(abs_top_builddir)/,,')
.PHONY: list-wanted-programs
CLEANFILES += wanted-programs

# make check [CTEST_ARGS="-L proto"]. The tests use the component of this tree, so all is built first.
check-local: CTestTestfile.cmake
if CAN_CHECK
	@GC_CHECK_PROGRAMS="$(check_PROGRAMS)"; export GC_CHECK_PROGRAMS; \
	$(CTEST) --output-on-failure --no-tests=error $(CTEST_ARGS)
else
	@echo "make check needs more packages: apt-get install $(GC_CHECK_MISSING), then configure again" >&2; exit 1
endif
clean-local:
	-rm -rf Testing
EXTRA_DIST += test/CTestTestfile.cmake.in
