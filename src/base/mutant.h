/* Mutants of host code, to prove that the tests bite: each is one mistake, such as a check left out, that a test must
 * catch. In a tree configured with --enable-mutants the environment's GC_MUTANT names the one that a program becomes;
 * in all others gc_mutant() is the constant 0 and nothing of them is in the program. Numbers begin at 101: those below
 * are device code's (kMutant in src/proto/platform.h). gc_mutant in test/CTestTestfile.cmake.in makes a test of one. C
 * and C++. */
#pragma once
#ifdef GC_HOST_MUTANTS
#include <stdlib.h>
static inline int gc_mutant(int number) {
  const char* const chosen = getenv("GC_MUTANT");
  return chosen != NULL && atoi(chosen) == number;
}
#else
#define gc_mutant(number) 0
#endif
