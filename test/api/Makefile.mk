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
