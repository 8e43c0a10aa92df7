# Tests of label api: programs. See test/Makefile.mk for the pattern.
EXTRA_DIST += test/api/tests.cmake

GC_API_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/api
check_PROGRAMS += test/api/all_reduce_test test/api/bad_input_test test/api/processes_test
test_api_all_reduce_test_SOURCES = test/api/all_reduce_test.cpp test/api/ranks.h
test_api_all_reduce_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_all_reduce_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_all_reduce_test_LDADD = libgpucoll.la $(GTEST_LIBS)
test_api_bad_input_test_SOURCES = test/api/bad_input_test.cpp test/api/ranks.h
test_api_bad_input_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_bad_input_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_bad_input_test_LDADD = libgpucoll.la $(GTEST_LIBS)
test_api_processes_test_SOURCES = test/api/processes_test.cpp test/api/ranks.h
test_api_processes_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_processes_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_processes_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/comm_test
test_api_comm_test_SOURCES = test/api/comm_test.cpp test/api/ranks.h
test_api_comm_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_comm_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_comm_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/differential_test
GC_CASE_SOURCES = test/api/case_memory.cpp test/api/case_rank.cpp test/api/case_rank.h test/api/case_run.cpp \
	test/api/case_run.h test/api/random_case.cpp test/api/random_case.h test/api/reference.cpp test/api/reference.h
test_api_differential_test_SOURCES = test/api/differential_test.cpp $(GC_CASE_SOURCES)
test_api_differential_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_differential_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_differential_test_LDADD = libgpucoll.la $(GTEST_LIBS)
check_PROGRAMS += test/api/group_test
test_api_group_test_SOURCES = test/api/group_test.cpp test/api/ranks.h
test_api_group_test_CPPFLAGS = $(GC_API_TEST_CPPFLAGS)
test_api_group_test_LDFLAGS = $(GC_TEST_LINKFLAGS)
test_api_group_test_LDADD = libgpucoll.la $(GTEST_LIBS)
