/* Conjugate gradients for Poisson's equation on a plate: what cg.c (MPI), cg_device.c (the emulated device) and
 * cg_cuda.cu (GPUs) share. Each rank has a part of the rows; all of its vectors, and all numbers, are in device memory.
 */
#ifndef GPUCOLL_CG_H
#define GPUCOLL_CG_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cg_part {
  int rows, columns; /* of this rank */
  double *x, *r, *q; /* rows * columns: the solution so far, its residual, A p */
  double *p;         /* the direction, with a row more before and behind: those of the neighbours, or zeros */
  double *rr, *pq;   /* for each step: r * r before it, and p * A p; each rank adds up its own part, from 0 on */
} cg_part;

/* Each of these puts a kernel into the stream. */
/* q = A p; pq[step] += p * q of this rank. */
void cg_multiply(const cg_part *part, int step, void *stream);
/* x += a p; r -= a q, with a = rr[step] / pq[step] of all ranks; rr[step + 1] += r * r of this rank. */
void cg_advance(const cg_part *part, int step, void *stream);
/* p = r + b p, with b = rr[step + 1] / rr[step] of all ranks. */
void cg_turn(const cg_part *part, int step, void *stream);

/* In cg_cuda.cu. */
void cg_multiply_cuda(const cg_part *part, int step, void *stream);
void cg_advance_cuda(const cg_part *part, int step, void *stream);
void cg_turn_cuda(const cg_part *part, int step, void *stream);

/* Returns row `row` of p, which may be -1 or `rows`. */
static inline double *cg_row(const cg_part *part, int row) { return part->p + ((size_t)row + 1) * part->columns; }

#ifdef __cplusplus
}
#endif
#endif
