#include "mca/common/sparse_memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mutant.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Runs that are no further apart are mapped together with the space between them: a system gives a process 65,530
 * mappings, and address space costs nothing. */
static const uintptr_t kMostBetween = (uintptr_t)1 << 30;

/* Whole pages: addresses. */
typedef struct area {
  uintptr_t begin, end;
} area;
typedef struct areas {
  area *area;
  size_t n;
} areas;

static int compare(const void *one, const void *other) {
  const uintptr_t a = ((const area *)one)->begin, b = ((const area *)other)->begin;
  return (a > b) - (a < b);
}

/* Joins those that are not far apart. REQUIRES: they are sorted. */
static void join(areas *all) {
  size_t n = 0;
  for (size_t i = 0; i < all->n; i++) {
    const area next = all->area[i];
    if (n > 0 && next.begin <= all->area[n - 1].end + (gc_mutant(542) ? 0 : kMostBetween)) {
      if (next.end > all->area[n - 1].end) all->area[n - 1].end = next.end;
    } else {
      all->area[n++] = next;
    }
  }
  all->n = n;
}

/* Returns the pages of runs, to be freed; none where there is no memory for them. */
static areas areas_of(const void *buffer, const gc_runs *runs, size_t n) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  areas all = {malloc(n * sizeof *all.area), 0};
  if (all.area == NULL) return all;
  for (size_t i = 0; i < n; i++) {
    const uintptr_t begin = (uintptr_t)buffer + (uintptr_t)runs[i].offset;
    if (runs[i].bytes == 0) continue;
    all.area[all.n++] = (area){begin & -page, (begin + runs[i].bytes + page - 1) & -page};
  }
  qsort(all.area, all.n, sizeof *all.area, compare);
  join(&all);
  return all;
}

static void unmap(const area *a, size_t n, ptrdiff_t shift) {
  for (size_t i = 0; i < n; i++) (void)munmap((void *)(a[i].begin + (uintptr_t)shift), a[i].end - a[i].begin);
}

static bool map(const area *a, ptrdiff_t shift) {
  void *const wanted = (void *)(a->begin + (uintptr_t)shift);
  const size_t bytes = a->end - a->begin;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void *const got = mmap(wanted, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (got == wanted) return true;
  if (got != MAP_FAILED) (void)munmap(got, bytes); /* a kernel before 4.17 takes the address for a wish */
  return false;
}

/* Maps all areas, so far from where they are, or none. */
static bool map_all(const areas *all, ptrdiff_t shift) {
  for (size_t i = 0; i < all->n; i++) {
    if (map(&all->area[i], shift)) continue;
    unmap(all->area, i, shift);
    return false;
  }
  return true;
}

/* Returns a distance at which all areas are free, and maps them; 0: none was found. */
static ptrdiff_t find_room(const areas *all) {
  enum { kTries = 64 };
  static const ptrdiff_t kSteps[] = {-((ptrdiff_t)1 << 36), (ptrdiff_t)1 << 36, -((ptrdiff_t)1 << 30),
                                     (ptrdiff_t)1 << 30};
  for (size_t s = 0; s < sizeof kSteps / sizeof *kSteps; s++)
    for (ptrdiff_t k = 1; k <= kTries; k++)
      if (map_all(all, k * kSteps[s])) return k * kSteps[s];
  return 0;
}

void *gcm_take_sparse_memory(const void *buffer, const gc_runs *runs, size_t n) {
  areas all = areas_of(buffer, runs, n);
  const ptrdiff_t shift = all.n > 0 ? find_room(&all) : 0;
  free(all.area);
  return shift != 0 ? (void *)((uintptr_t)buffer + (uintptr_t)shift) : NULL;
}

void gcm_give_sparse_memory(void *memory, const gc_runs *runs, size_t n) {
  const areas all = areas_of(memory, runs, n);
  unmap(all.area, all.n, 0);
  free(all.area);
}
