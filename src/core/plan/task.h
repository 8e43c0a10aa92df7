// Tasks: what the calls of a group ask of one communicator, before anything is planned. Plain data.
//
// Addresses are kernel addresses. Streams are as the caller gave them; null is the device's default stream.
#pragma once
#include <cstdint>
#include <vector>

#include "gpu/device.h"
#include "proto/format/local_reduction.h"
#include "proto/format/packing.h"

namespace gpucoll::core {

// The kernels that serve a reduction, or what only moves data. Null: there is none.
struct CollectiveKernels {
  const gpu::Kernel* plan;      // of plans by connections: rings and trees; of what only moves any reduction's serves
  const gpu::Kernel* pairs;     // of plans by all pairs
  const gpu::Kernel* one_shot;  // of one-shots
  // For plans that reduce on all ranks' buffers (kernels/zero_copy.h), by rings and by all pairs. They are null where
  // each rank changes its operands in a way of its own first (pre_mul_sum), and where elements have padding.
  const gpu::Kernel *open_rings, *open_pairs;
  const gpu::Kernel* local;  // on this device alone (proto/format/local_reduction.h); none for pre_mul_sum
  uint8_t op;                // the reduction's place in its family, whose kernels are plan, open_rings and local

  bool operator==(const CollectiveKernels&) const = default;
};

// One enqueued collective. send, recv, count, root and what belongs to the scalar as in proto::CollectiveItem.
struct CollectiveTask {
  proto::Function function;
  CollectiveKernels kernels;
  const void* send;
  void* recv;
  uint64_t count;
  uint32_t element_bytes;
  uint32_t root;
  uint64_t argument;
  gpu::Stream stream;
  bool scalar_in_memory = false;
  uint64_t argument_high = 0;

  bool operator==(const CollectiveTask&) const = default;
};

// One enqueued send or receive.
struct SendRecvTask {
  void* buffer;
  uint64_t bytes;
  gpu::Stream stream;
  bool exchange = false;  // one of all ranks with all others; the other side says the same
};

// A reduction of what lies in this device's memory, of elements of so many bytes, by its kernel.
struct LocalTask {
  const gpu::Kernel* kernel;
  proto::LocalReduction reduction;
  uint32_t element_bytes;
};

// The operands that a reduction on this device combines. For their order see proto::LocalReduction.
struct LocalOperands {
  uint8_t *own, *others, *result;
  uint64_t count;  // elements
  uint64_t stride = 0;
  uint32_t rank = 0, n_ranks = 2;
};
// By a collective's operation, which has a kernel for that. Its stream has waited for nobody.
inline LocalTask local_task(const CollectiveTask& its, const LocalOperands& of) {
  proto::LocalReduction made = {};
  made.own = of.own;
  made.others = of.others;
  made.result = of.result;
  made.stride = of.stride;
  made.count = of.count;
  made.argument = its.argument;
  made.rank = of.rank;
  made.n_ranks = of.n_ranks;
  made.op = its.kernels.op;
  return {its.kernels.local, made, its.element_bytes};
}

// The tasks of a group for one communicator. It takes room for the tasks there are, not for the ranks there are.
struct TaskQueue {
  struct Pair {
    int peer;
    void* buffer;
    uint64_t bytes;
    bool exchange = false;

    bool operator==(const Pair&) const = default;
  };
  std::vector<CollectiveTask> collectives;  // all three in the order of the calls
  std::vector<Pair> sends, recvs;
  std::vector<gpu::Stream> streams;  // distinct, in order of appearance
  // Packed before all tasks, and unpacked after all; by this kernel, null where there is nothing.
  std::vector<proto::PackItem> before, after;
  // Reduced behind what is packed before, one after the other, before all that other ranks take part in; and behind it.
  std::vector<LocalTask> reductions, late_reductions;
  // Copied behind both, before what is unpacked after.
  std::vector<proto::PackItem> spread;
  const gpu::Kernel* packing = nullptr;
  bool results_on_host = false;  // the host reads some where kernels store them, behind the done word

  void add(const CollectiveTask& task) {
    collectives.push_back(task);
    add_stream(task.stream);
  }
  void add_send(int peer, const SendRecvTask& task) {
    sends.push_back({peer, task.buffer, task.bytes, task.exchange});
    add_stream(task.stream);
  }
  void add_recv(int peer, const SendRecvTask& task) {
    recvs.push_back({peer, task.buffer, task.bytes, task.exchange});
    add_stream(task.stream);
  }
  // Appends what another queue holds. REQUIRES: both pack by the same kernel, if they do.
  void append(const TaskQueue& more) {
    const auto add_all = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add_all(collectives, more.collectives);
    add_all(sends, more.sends);
    add_all(recvs, more.recvs);
    add_all(before, more.before);
    add_all(after, more.after);
    add_all(reductions, more.reductions);
    add_all(late_reductions, more.late_reductions);
    add_all(spread, more.spread);
    for (gpu::Stream stream : more.streams) add_stream(stream);
    if (more.packing) packing = more.packing;
    results_on_host |= more.results_on_host;
  }
  void clear() {  // keeps the room
    collectives.clear();
    sends.clear();
    recvs.clear();
    streams.clear();
    before.clear();
    after.clear();
    reductions.clear();
    late_reductions.clear();
    spread.clear();
    packing = nullptr;
    results_on_host = false;
  }

 private:
  void add_stream(gpu::Stream stream) {
    for (gpu::Stream known : streams)
      if (known == stream) return;
    streams.push_back(stream);
  }
};

}  // namespace gpucoll::core
