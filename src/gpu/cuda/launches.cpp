// Launches of kernels on a GPU, made anew or kept as executable graphs.
#include "gpu/cuda/device.h"

namespace gpucoll::gpu::cuda {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaGraphExec_t native_launch(KeptLaunch launch) { return static_cast<cudaGraphExec_t>(launch); }

Status not_built(const Kernel& kernel) {
  return Status::error(Code::unsupported, "the kernel %s was not built for GPUs", kernel.name);
}

// The arguments of a launch as one buffer: what a plan does not use is not sent along.
class Arguments {
 public:
  explicit Arguments(const proto::Plan& plan)
      : bytes_(proto::used_bytes(plan)),
        list_{CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<proto::Plan*>(&plan),  // only read
              CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes_, CU_LAUNCH_PARAM_END} {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  void** list() { return list_; }

 private:
  size_t bytes_;
  void* list_[5];
};

}  // namespace

Status CudaDevice::launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) {
  if (kernel.cuda == nullptr) return not_built(kernel);
  const Current current(context_);
  cudaFunction_t function = nullptr;
  GC_CUDA(index_, cudaGetFuncBySymbol(&function, kernel.cuda));
  Arguments arguments(plan);
  const CUresult error =
      driver()->launch_kernel(function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
                              native(stream), nullptr, arguments.list());
  if (error != CUDA_SUCCESS) return failure(error, index_, kernel.name);
  return {};
}

Result<KeptLaunch> CudaDevice::keep_launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads,
                                           Stream stream) {
  if (kernel.cuda == nullptr) return not_built(kernel);
  const Unrestricted current(context_);
  Arguments arguments(plan);
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(kernel.cuda);
  params.gridDim = dim3(static_cast<unsigned>(blocks));
  params.blockDim = dim3(static_cast<unsigned>(threads));
  params.extra = arguments.list();
  cudaKernelNodeAttrValue priority{};  // a graph does not take that of the stream it is launched in
  GC_CUDA(index_, cudaStreamGetPriority(native(stream), &priority.priority));
  cudaGraph_t graph = nullptr;
  GC_CUDA(index_, cudaGraphCreate(&graph, 0));
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaError_t error = cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params);
  if (error == cudaSuccess) error = cudaGraphKernelNodeSetAttribute(node, cudaKernelNodeAttributePriority, &priority);
  if (error == cudaSuccess) error = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (error != cudaSuccess) return failure(error, index_, kernel.name);
  error = cudaGraphUpload(executable, native(stream));  // now: else its first launch would do that
  if (error == cudaSuccess) return static_cast<KeptLaunch>(executable);
  cudaGraphExecDestroy(executable);
  return failure(error, index_, kernel.name);
}

Status CudaDevice::launch_kept(KeptLaunch launch, Stream stream) {
  const Current current(context_);
  GC_CUDA(index_, cudaGraphLaunch(native_launch(launch), native(stream)));
  return {};
}

void CudaDevice::drop_launch(KeptLaunch launch) noexcept {
  const Unrestricted current(context_);
  if (cudaGraphExecDestroy(native_launch(launch)) != cudaSuccess) cudaGetLastError();
}

}  // namespace gpucoll::gpu::cuda
