// Launches of kernels on a GPU, made anew or kept as executable graphs.
#include "gpu/cuda/device.h"

namespace gpucoll::gpu::cuda {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaGraphExec_t native_launch(CachedLaunch launch) { return static_cast<cudaGraphExec_t>(launch); }

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

// A node for the launch behind the last one, which it becomes.
cudaError_t add_behind(cudaGraph_t graph, cudaGraphNode_t* last, const Launch& launch,
                       const cudaKernelNodeAttrValue& priority) {
  Arguments arguments(*launch.plan);
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(launch.kernel->cuda);
  params.gridDim = dim3(static_cast<unsigned>(launch.blocks));
  params.blockDim = dim3(static_cast<unsigned>(launch.threads));
  params.extra = arguments.list();
  const cudaGraphNode_t before = *last;
  const cudaError_t error = cudaGraphAddKernelNode(last, graph, before ? &before : nullptr, before ? 1 : 0, &params);
  return error != cudaSuccess ? error
                              : cudaGraphKernelNodeSetAttribute(*last, cudaKernelNodeAttributePriority, &priority);
}

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

Result<CachedLaunch> CudaDevice::keep_launches(std::span<const Launch> launches, Stream stream) {
  for (const Launch& launch : launches)
    if (launch.kernel->cuda == nullptr) return not_built(*launch.kernel);
  const Unrestricted current(context_);
  cudaKernelNodeAttrValue priority{};  // a graph does not take that of the stream it is launched in
  GC_CUDA(index_, cudaStreamGetPriority(native(stream), &priority.priority));
  cudaGraph_t graph = nullptr;
  GC_CUDA(index_, cudaGraphCreate(&graph, 0));
  cudaGraphNode_t last = nullptr;
  cudaError_t error = cudaSuccess;
  for (size_t i = 0; i < launches.size() && error == cudaSuccess; ++i)
    error = add_behind(graph, &last, launches[i], priority);
  cudaGraphExec_t executable = nullptr;
  if (error == cudaSuccess) error = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (error != cudaSuccess) return failure(error, index_, launches.front().kernel->name);
  error = cudaGraphUpload(executable, native(stream));  // now: else its first launch would do that
  if (error == cudaSuccess) return static_cast<CachedLaunch>(executable);
  cudaGraphExecDestroy(executable);
  return failure(error, index_, "cudaGraphUpload");
}

Status CudaDevice::launch_kept(CachedLaunch launch, Stream stream) {
  const Current current(context_);
  GC_CUDA(index_, cudaGraphLaunch(native_launch(launch), native(stream)));
  return {};
}

void CudaDevice::drop_launch(CachedLaunch launch) noexcept {
  const Unrestricted current(context_);
  if (cudaGraphExecDestroy(native_launch(launch)) != cudaSuccess) cudaGetLastError();
}

}  // namespace gpucoll::gpu::cuda
