#include "tune/ways.h"

#include <algorithm>

#include "base/params.h"
#include "tune/member.h"

namespace gpucoll::tune {

using core::Algorithm;
using core::CommProperties;
using core::Function;
using core::Limit;
using core::Protocol;

namespace {

// The function whose times say what a limit is: others that it holds for behave alike.
constexpr struct {
  Function function;
  Limit limit;
} kLimitFunctions[] = {{Function::all_reduce, Limit::zero_copy_bytes},
                       {Function::all_reduce, Limit::copy_reduction_bytes},
                       {Function::all_gather, Limit::copy_exchange_bytes},
                       {Function::send_recv, Limit::copy_engine_bytes}};

bool has_kernel(Function function, Algorithm algorithm, Protocol protocol) {
  if (core::is_exchange(function) && algorithm == Algorithm::pairwise) return protocol != Protocol::ll128;
  return core::supported(function, algorithm, protocol);
}

}  // namespace

bool can_be_measured(Function function, bool scans) {
  return scans || (function != Function::scan && function != Function::exscan);
}

std::vector<Way> ways_of(Function function) {
  std::vector<Way> ways;
  for (int a = 0; a < proto::kAlgorithms; ++a)
    for (int p = 0; p < proto::kProtocols; ++p)
      if (has_kernel(function, static_cast<Algorithm>(a), static_cast<Protocol>(p)))
        ways.push_back({Way::Kind::timed, static_cast<Algorithm>(a), static_cast<Protocol>(p), {}});
  for (const auto& [measured, limit] : kLimitFunctions)
    if (measured == function) ways.push_back({Way::Kind::limit, {}, {}, limit});
  return ways;
}

std::string name(const Way& way) {
  if (way.kind == Way::Kind::timed) return std::string(core::name(way.algorithm)) + " " + core::name(way.protocol);
  return way.limit == Limit::zero_copy_bytes ? "zero_copy" : "copy engines";
}

bool possible(const Way& way, Function function, uint64_t bytes, const CommProperties& shape) {
  if (way.kind == Way::Kind::limit) {
    if (way.limit == Limit::zero_copy_bytes) return shape.zero_copy_bytes != 0;
    return bytes >= kLeastCopy && params().copy_engine_bytes != kOff && params().transport != kTransportShm;
  }
  if (way.algorithm == Algorithm::pairwise) return true;
  return !core::obstacle(function, way.algorithm, way.protocol, bytes, shape, true);
}

Result<Engines> force(const Way& way, Function function) {
  const char *algorithm = "auto", *protocol = "auto";
  if (way.kind == Way::Kind::timed) {
    // Messages are no algorithm of the parameter's: an exchange takes them where it must not go through a mesh.
    const bool messages = way.algorithm == Algorithm::pairwise;
    algorithm = !messages ? core::name(way.algorithm) : core::is_exchange(function) ? "ring" : "auto";
    protocol = core::name(way.protocol);
  } else if (way.limit == Limit::zero_copy_bytes) {
    algorithm = "zero_copy";
  }
  GC_TRY(set_library_param("algorithm", algorithm));
  GC_TRY(set_library_param("protocol", protocol));
  const bool copies = way.kind == Way::Kind::limit && way.limit != Limit::zero_copy_bytes;
  return copies ? Engines::on : Engines::off;
}

std::optional<uint64_t> limit_of(const std::vector<Rivals>& sizes) {
  if (sizes.empty()) return std::nullopt;
  const auto slower =
      std::find_if(sizes.rbegin(), sizes.rend(), [](const Rivals& r) { return r.way_us >= r.others_us; });
  if (slower == sizes.rbegin()) return sizes.back().bytes + 1;
  return slower.base()->bytes;
}

}  // namespace gpucoll::tune
