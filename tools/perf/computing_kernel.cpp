// A kernel without a CUDA compiler: its text is given to the driver, whose few functions are found by name.
#include <chrono>

#include "perf/computing.h"
#include "perf/cuda_driver.h"

namespace gpucoll::perf {
namespace {

// Each round depends on the one before. x stays above 0, so the store, which keeps the rounds alive, never happens.
constexpr char kText[] = R"(
.version 6.0
.target sm_60
.address_size 64
.visible .entry gpucoll_perf_compute(.param .u64 rounds, .param .u64 sink)
{
  .reg .pred %p<3>;
  .reg .f32 %x;
  .reg .b32 %t;
  .reg .b64 %left, %to;
  ld.param.u64 %left, [rounds];
  mov.u32 %t, %tid.x;
  cvt.rn.f32.u32 %x, %t;
next:
  setp.eq.u64 %p1, %left, 0;
  @%p1 bra done;
  fma.rn.f32 %x, %x, 0f3F7FFFEF, 0f358637BD;
  sub.u64 %left, %left, 1;
  bra next;
done:
  setp.geu.f32 %p2, %x, 0f00000000;
  @%p2 bra end;
  ld.param.u64 %to, [sink];
  cvta.to.global.u64 %to, %to;
  st.global.f32 [%to], %x;
end:
  ret;
}
)";

constexpr const char* kWho = "--overlap kernel";
constexpr unsigned kThreads = 256, kNonBlocking = 1;

// The driver's stable ABI.
struct Driver {
  int (*load_module)(void**, const void*);
  int (*get_function)(void**, void*, const char*);
  int (*create_stream)(void**, unsigned);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*synchronize)(void*);
};

Result<Driver> load_driver(int gpu) {
  GC_TRY_AS(void* library, open_cuda_driver(gpu, kWho));
  Driver d{};
  GC_TRY(find_in_driver(library, "cuModuleLoadData", kWho, &d.load_module));
  GC_TRY(find_in_driver(library, "cuModuleGetFunction", kWho, &d.get_function));
  GC_TRY(find_in_driver(library, "cuStreamCreate", kWho, &d.create_stream));
  GC_TRY(find_in_driver(library, "cuLaunchKernel", kWho, &d.launch));
  GC_TRY(find_in_driver(library, "cuStreamSynchronize", kWho, &d.synchronize));
  return d;
}

Status check(int result, const char* call) { return check_cuda(result, kWho, call); }

// Module and stream live until the process ends.
class KernelComputation final : public Computation {
 public:
  KernelComputation(const Driver& driver, int blocks) : driver_(driver), blocks_(static_cast<unsigned>(blocks)) {}

  Status open() {
    void* module = nullptr;
    GC_TRY(check(driver_.load_module(&module, kText), "cuModuleLoadData"));
    GC_TRY(check(driver_.get_function(&function_, module, "gpucoll_perf_compute"), "cuModuleGetFunction"));
    GC_TRY(check(driver_.create_stream(&stream_, kNonBlocking), "cuStreamCreate"));
    return calibrate();
  }

  const char* description() const override { return "a kernel on the GPU"; }
  Status start(double length_us) override { return launch(static_cast<uint64_t>(length_us * rounds_per_us_)); }
  Status finish() override { return check(driver_.synchronize(stream_), "cuStreamSynchronize"); }

 private:
  Status launch(uint64_t rounds) {
    void* sink = nullptr;
    void* arguments[] = {&rounds, &sink};
    return check(driver_.launch(function_, blocks_, 1, 1, kThreads, 1, 1, 0, stream_, arguments, nullptr),
                 "cuLaunchKernel");
  }

  Result<double> time_us(uint64_t rounds) {
    const auto start = std::chrono::steady_clock::now();
    GC_TRY(launch(rounds));
    GC_TRY(finish());
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }

  // By the difference of two lengths: the launch is in both.
  Status calibrate() {
    constexpr uint64_t kShort = 10000, kLong = 1000000;
    GC_TRY_AS(double short_us, time_us(kLong));  // the first one is slow
    GC_TRY_AS(short_us, time_us(kShort));
    GC_TRY_AS(const double long_us, time_us(kLong));
    if (long_us <= short_us) return Status(Code::device, "--overlap kernel: a longer kernel took no longer");
    rounds_per_us_ = static_cast<double>(kLong - kShort) / (long_us - short_us);
    return {};
  }

  Driver driver_;
  unsigned blocks_;
  void *function_ = nullptr, *stream_ = nullptr;
  double rounds_per_us_ = 0;
};

}  // namespace

Result<std::unique_ptr<Computation>> kernel_computation(int gpu, int blocks) {
  GC_TRY_AS(const Driver driver, load_driver(gpu));
  auto computation = std::make_unique<KernelComputation>(driver, blocks);
  GC_TRY(computation->open());
  return std::unique_ptr<Computation>(std::move(computation));
}

}  // namespace gpucoll::perf
