# Room gpu: the device runtime. The emulated device is always built, the CUDA device where there is nvcc.
GC_GPU_SOURCES = \
	src/gpu/device.h \
	src/gpu/known_memory.h \
	src/gpu/platform.cpp \
	src/gpu/program_copies.h

# Of their own, so that tests can compile the emulated device again with ThreadSanitizer.
GC_EMU_SOURCES = \
	src/gpu/hint.cpp \
	src/gpu/hint.h \
	src/gpu/emu/area.cpp \
	src/gpu/emu/area.h \
	src/gpu/emu/block_limit.h \
	src/gpu/emu/thread_block.h \
	src/gpu/emu/device.cpp \
	src/gpu/emu/device.h \
	src/gpu/emu/failure.h \
	src/gpu/emu/memory.cpp \
	src/gpu/emu/memory.h \
	src/gpu/emu/memory_file.cpp \
	src/gpu/emu/memory_file.h \
	src/gpu/emu/platform.cpp \
	src/gpu/emu/pool.cpp \
	src/gpu/emu/pool.h \
	src/gpu/emu/queue.cpp \
	src/gpu/emu/queue.h \
	src/gpu/emu/ranges.h \
	src/gpu/emu/recording.cpp \
	src/gpu/emu/recording.h \
	src/gpu/emu/streams.cpp \
	src/gpu/emu/streams.h \
	src/gpu/emu/work.h

GC_CUDA_SOURCES = \
	src/gpu/cuda/device.cpp \
	src/gpu/cuda/device.h \
	src/gpu/cuda/driver.cpp \
	src/gpu/cuda/driver.h \
	src/gpu/cuda/handle.h \
	src/gpu/cuda/host_registrations.cpp \
	src/gpu/cuda/host_registrations.h \
	src/gpu/cuda/imports.cpp \
	src/gpu/cuda/imports.h \
	src/gpu/cuda/launches.cpp \
	src/gpu/cuda/platform.cpp \
	src/gpu/cuda/program_copies.cpp \
	src/gpu/cuda/streams.cpp

noinst_LTLIBRARIES += src/gpu/libgpu.la
src_gpu_libgpu_la_SOURCES = $(GC_GPU_SOURCES) $(GC_EMU_SOURCES)
src_gpu_libgpu_la_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_CUDA
src_gpu_libgpu_la_SOURCES += $(GC_CUDA_SOURCES)
src_gpu_libgpu_la_CPPFLAGS += $(CUDA_CPPFLAGS)
endif

GC_GPU_LIBS = src/gpu/libgpu.la $(GC_BASE_LIBS) $(CUDA_LIBS)
