# Room kernels: device code of the collectives, kernel tables. A .cu file needs another basename than every .cpp file
# beside it.
GC_KERNEL_SOURCES = \
	src/kernels/all_pairs.h \
	src/kernels/all_pairs_blocks.h \
	src/kernels/all_pairs_lines.h \
	src/kernels/dispatch.h \
	src/kernels/kernel_list.h \
	src/kernels/kernels.cpp \
	src/kernels/kernels.h \
	src/kernels/local_reduce.h \
	src/kernels/one_shot.h \
	src/kernels/packing.h \
	src/kernels/ring.h \
	src/kernels/ring_all_gather.h \
	src/kernels/ring_all_reduce.h \
	src/kernels/ring_broadcast.h \
	src/kernels/ring_reduce.h \
	src/kernels/ring_reduce_scatter.h \
	src/kernels/ring_scan.h \
	src/kernels/run_plan.h \
	src/kernels/send_recv.h \
	src/kernels/send_recv_line.h \
	src/kernels/shard.h \
	src/kernels/split.h \
	src/kernels/tree_all_reduce.h \
	src/kernels/work.h \
	src/kernels/zero_copy.h
include src/kernels/shards/Makefile.mk

# A developer's short build: make GPUCOLL_KERNEL_SUBSET="f32 i32" has the kernels of these shards only. What depends on
# it is compiled anew when another make is told otherwise: the stamp is written only then.
GC_KERNEL_SUBSET = $(sort $(GPUCOLL_KERNEL_SUBSET))
GC_KERNEL_SUBSET_STAMP = src/kernels/kernel_subset.stamp
GC_KERNEL_SUBSET_OBJECTS = \
	src/kernels/libkernels_la-kernels.lo \
	$(patsubst src/kernels/shards/%.cpp,src/kernels/shards/libkernels_la-%.lo,$(filter %.cpp,$(GC_KERNEL_SHARDS))) \
	$(GC_KERNEL_CUDA_SOURCES:.cu=.lo)
$(GC_KERNEL_SUBSET_OBJECTS): $(GC_KERNEL_SUBSET_STAMP)
$(GC_KERNEL_SUBSET_OBJECTS): override CPPFLAGS += $(if $(GC_KERNEL_SUBSET),-DGC_KERNEL_SUBSET \
	$(addprefix -DGC_KERNEL_SHARD_,$(GC_KERNEL_SUBSET)))
GC_KERNEL_SUBSET_BEFORE = $(shell cat $(GC_KERNEL_SUBSET_STAMP) 2>/dev/null)
$(GC_KERNEL_SUBSET_STAMP): $(if $(subst "$(GC_KERNEL_SUBSET)",,"$(GC_KERNEL_SUBSET_BEFORE)"),other-kernel-subset)
	@$(MKDIR_P) $(@D) && echo '$(GC_KERNEL_SUBSET)' > $@
.PHONY: other-kernel-subset
CLEANFILES += $(GC_KERNEL_SUBSET_STAMP)

# Of all code the emulated device's kernels take longest to compile, and speed is not what they are for.
src/kernels/shards/libkernels_la-kernels_%.lo: override CXXFLAGS += $(GC_EMU_KERNEL_CXXFLAGS)

noinst_LTLIBRARIES += src/kernels/libkernels.la
src_kernels_libkernels_la_SOURCES = $(GC_KERNEL_SOURCES) $(GC_KERNEL_SHARDS)
src_kernels_libkernels_la_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_CUDA
src_kernels_libkernels_la_SOURCES += $(GC_KERNEL_CUDA_SOURCES)
src_kernels_libkernels_la_CPPFLAGS += $(CUDA_CPPFLAGS)
endif
