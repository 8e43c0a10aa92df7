# Room abi: the boundary between component and library, plain C. Headers only.
noinst_HEADERS += src/abi/abi.h src/abi/meeting.h src/abi/nccl.h src/abi/pt2pt.h
