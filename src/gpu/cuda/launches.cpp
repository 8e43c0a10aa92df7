// Launches of kernels on a GPU, made anew or kept as executable graphs.
#include "base/params.h"
#include "gpu/cuda/device.h"

namespace gpucoll::gpu::cuda {
namespace {

// The most blocks of a launch in clusters. Blocks of one launch may wait for each other, and a GPU holds a few less in
// clusters than without: as many multiprocessors as are left over in its parts.
constexpr int kMostInClusters = 64;

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

// A node for the launch behind the last one, which it becomes. cluster: its blocks of a cluster.
cudaError_t add_behind(cudaGraph_t graph, cudaGraphNode_t* last, const Launch& launch,
                       const cudaKernelNodeAttrValue& priority, unsigned cluster) {
  Arguments arguments(*launch.plan);
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(launch.kernel->cuda);
  params.gridDim = dim3(static_cast<unsigned>(launch.blocks));
  params.blockDim = dim3(static_cast<unsigned>(launch.threads));
  params.extra = arguments.list();
  const cudaGraphNode_t before = *last;
  cudaError_t error = cudaGraphAddKernelNode(last, graph, before ? &before : nullptr, before ? 1 : 0, &params);
  if (error == cudaSuccess) error = cudaGraphKernelNodeSetAttribute(*last, cudaKernelNodeAttributePriority, &priority);
  if (error != cudaSuccess || cluster == 1) return error;
  cudaKernelNodeAttrValue shape{};
  shape.clusterDim = {cluster, 1, 1};
  return cudaGraphKernelNodeSetAttribute(*last, cudaKernelNodeAttributeClusterDimension, &shape);
}

}  // namespace

// By MPS several processes share the GPU, whose kernels must fit side by side to the last multiprocessor.
int CudaDevice::cluster_size_for(const Kernel& kernel) const {
  constexpr int kAutoSize = 4;
  if (shares_between_processes()) return 1;
  const int64_t wish = params().cluster_size;
  const int size = wish == kAuto ? kAutoSize : static_cast<int>(wish);
  cudaLaunchAttribute shape{};
  shape.id = cudaLaunchAttributeClusterDimension;
  shape.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((kMostInClusters + size - 1) / size * size));
  config.blockDim = dim3(kGpuDefaults.threads);
  config.attrs = &shape;
  config.numAttrs = 1;
  int clusters = 0;
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, kernel.cuda, &config);
  if (error != cudaSuccess) cudaGetLastError();  // GPUs before compute capability 9.0 have no clusters
  return error == cudaSuccess && clusters * size >= kMostInClusters ? size : 1;
}

unsigned CudaDevice::cluster_of(int blocks) const noexcept {
  const int size = cluster_size_.load(std::memory_order_relaxed);
  return size > 1 && blocks <= kMostInClusters && blocks % size == 0 ? static_cast<unsigned>(size) : 1;
}

Status CudaDevice::launch(const Kernel& kernel, const proto::Plan& plan, int blocks, int threads, Stream stream) {
  if (kernel.cuda == nullptr) return not_built(kernel);
  const Current current(context_);
  cudaFunction_t function = nullptr;
  GC_CUDA(index_, cudaGetFuncBySymbol(&function, kernel.cuda));
  Arguments arguments(plan);
  const unsigned cluster = cluster_of(blocks);
  CUlaunchAttribute shape{};
  shape.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  shape.value.clusterDim = {cluster, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(blocks);
  config.blockDimX = static_cast<unsigned>(threads);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.hStream = native(stream);
  config.attrs = &shape;
  config.numAttrs = cluster > 1 ? 1 : 0;
  const CUresult error = driver()->launch_kernel(&config, function, nullptr, arguments.list());
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
    error = add_behind(graph, &last, launches[i], priority, cluster_of(launches[i].blocks));
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
