# The programs that are installed. gpucoll-perf is an MPI program over libgpucoll; gpucoll-info links the rooms.
