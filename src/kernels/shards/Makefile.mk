# Room kernels/shards: the kernels in parts that compile side by side, for the emulated device and for GPUs.
GC_KERNEL_SHARDS = \
	src/kernels/shards/kernels_complex.cpp \
	src/kernels/shards/kernels_f16.cpp \
	src/kernels/shards/kernels_f32.cpp \
	src/kernels/shards/kernels_f64.cpp \
	src/kernels/shards/kernels_f8.cpp \
	src/kernels/shards/kernels_i16.cpp \
	src/kernels/shards/kernels_i32.cpp \
	src/kernels/shards/kernels_i64.cpp \
	src/kernels/shards/kernels_i8.cpp \
	src/kernels/shards/kernels_move.cpp \
	src/kernels/shards/kernels_pairs.cpp
GC_KERNEL_CUDA_SOURCES = \
	src/kernels/shards/kernels_complex_cuda.cu \
	src/kernels/shards/kernels_f16_cuda.cu \
	src/kernels/shards/kernels_f32_cuda.cu \
	src/kernels/shards/kernels_f64_cuda.cu \
	src/kernels/shards/kernels_f8_cuda.cu \
	src/kernels/shards/kernels_i16_cuda.cu \
	src/kernels/shards/kernels_i32_cuda.cu \
	src/kernels/shards/kernels_i64_cuda.cu \
	src/kernels/shards/kernels_i8_cuda.cu \
	src/kernels/shards/kernels_move_cuda.cu \
	src/kernels/shards/kernels_pairs_cuda.cu
