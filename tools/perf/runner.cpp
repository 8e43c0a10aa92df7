#include "perf/runner.h"

namespace gpucoll::perf {

Status run_once(Runner& runner, const Call& call) {
  GC_TRY(runner.start(call));
  return runner.finish();
}

const void* send_address(const Buffers& buffers, const Call& call) {
  const size_t element = info(call.type).bytes;
  return input_in_recv(call) ? buffers.recv.at(input_offset(call) * element) : buffers.send.at(0);
}

void* recv_address(const Buffers& buffers, const Call& call) {
  const size_t element = info(call.type).bytes;
  // The root of an in-place scatter keeps its block where it is.
  if (even(call.collective) == Collective::scatter && call.in_place && call.rank == call.root)
    return buffers.send.at(own_block(call).offset * element);
  return buffers.recv.at(output_offset(call) * element);
}

}  // namespace gpucoll::perf
