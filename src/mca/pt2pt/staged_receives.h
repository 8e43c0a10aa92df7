/* Types by which the PML receives bytes into host memory of ours.
 *
 * ob1 (Open MPI 4.1 and 5.0) lets the sender, or a copy from its memory, write all of a long message to a receive
 * buffer without gaps, also what there is no room for: over tcp, and over vader with CMA. Into a type with gaps it
 * unpacks piece by piece, and no more than there is room for. So ob1 gets bytes without gaps in a type that says it has
 * some. Thread safety: any thread.
 */
#ifndef GPUCOLL_MCA_PT2PT_STAGED_RECEIVES_H
#define GPUCOLL_MCA_PT2PT_STAGED_RECEIVES_H

#include "mca/coll/plan.h"

/* Returns a type of so many bytes, one element of which a receive is to have; NULL where there is no memory. The caller
 * releases it when the PML has it. */
gcm_type *gcm_bounded_type(size_t bytes);
/* Gives back the types that are kept for the next receive. */
void gcm_forget_bounded_types(void);

#endif
