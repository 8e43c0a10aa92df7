# The component that Open MPI loads: thin C files, the only ones that include Open MPI's internal headers.
