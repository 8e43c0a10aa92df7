#include "gpu/emu/streams.h"

#include <utility>
#include <vector>

namespace gpucoll::gpu::emu {

Stream Streams::create(bool is_default, int device) {
  State state;
  state.queue = std::make_shared<Queue>(device);
  state.is_default = is_default;
  state.device = device;
  const Stream stream = state.queue.get();
  std::lock_guard lock(mutex_);
  streams_.emplace(stream, std::move(state));
  return stream;
}

Result<Streams::State*> Streams::find(Stream stream) {
  auto it = streams_.find(stream);
  if (it != streams_.end()) return &it->second;
  return Status::error(Code::invalid_argument, "%p is not a stream of the emulated device, or was destroyed", stream);
}

Result<std::shared_ptr<Queue>> Streams::idle(Stream stream, const char* what) {
  std::lock_guard lock(mutex_);
  GC_TRY_AS(State * state, find(stream));
  if (state->recording) return Status::error(Code::invalid_usage, "%s while it takes part in a capture", what);
  return state->queue;
}

Status Streams::destroy(Stream stream) {
  GC_TRY_AS(auto queue, idle(stream, "a stream of the emulated device was destroyed"));
  {
    std::lock_guard lock(mutex_);
    streams_.erase(stream);
  }
  queue->close();
  return {};
}

Status Streams::synchronize(Stream stream) {
  GC_TRY_AS(auto queue, idle(stream, "a stream of the emulated device was synchronised"));
  queue->synchronize();
  return {};
}

void Streams::rest() {
  const std::unique_lock gate(gate_);
  std::vector<std::shared_ptr<Queue>> queues;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [stream, state] : streams_) queues.push_back(state.queue);
  }
  for (const auto& queue : queues) queue->synchronize();
}

Status Streams::reserve(Stream stream, int threads) {
  std::shared_ptr<Queue> queue;
  {
    std::lock_guard lock(mutex_);
    GC_TRY_AS(State * state, find(stream));
    queue = state->queue;
  }
  return queue->reserve(threads);
}

Status Streams::put(Stream stream, const Work& work) {
  const std::shared_lock gate(gate_);
  std::shared_ptr<Queue> queue;
  {
    std::lock_guard lock(mutex_);
    GC_TRY_AS(State * state, find(stream));
    if (state->recording) {
      state->recording->add(state->lane, work);
      return {};
    }
    queue = state->queue;
  }
  return queue->put(work);
}

Status Streams::wait(Stream stream, Stream other) {
  const std::shared_lock gate(gate_);
  std::shared_ptr<Queue> queue, before;
  {
    std::lock_guard lock(mutex_);
    GC_TRY_AS(State * state, find(stream));
    GC_TRY_AS(State * other_state, find(other));
    if (state->recording || other_state->recording) return record_wait(*state, *other_state);
    queue = state->queue;
    before = other_state->queue;
  }
  return queue->put(WaitQueue{before});
}

Status Streams::record_wait(State& state, State& other) {
  if (!other.recording)
    return Status::error(Code::invalid_usage,
                         "a stream that takes part in a capture cannot wait for one that does not; use an event");
  if (state.is_default)
    return Status::error(Code::invalid_usage, "the default stream of the emulated device cannot join a capture");
  if (!state.recording) {
    state.recording = other.recording;
    state.lane = state.recording->add_lane(state.device);
  }
  if (state.recording != other.recording)
    return Status::error(Code::invalid_usage, "a stream of one capture cannot wait for a stream of another one");
  state.recording->add(state.lane, WaitQueue{other.lane});
  return {};
}

Result<uint64_t> Streams::capture_of(Stream stream) {
  std::lock_guard lock(mutex_);
  GC_TRY_AS(State * state, find(stream));
  return state->recording ? state->recording->id() : 0;
}

Status Streams::begin_capture(Stream stream) {
  std::lock_guard lock(mutex_);
  GC_TRY_AS(State * state, find(stream));
  if (state->is_default)
    return Status::error(Code::invalid_usage, "the default stream of the emulated device cannot be captured");
  if (state->recording) return Status::error(Code::invalid_usage, "the stream takes part in a capture already");
  state->recording = std::make_shared<Recording>(++captures_);
  state->lane = state->recording->add_lane(state->device);
  return {};
}

void Streams::leave(const Recording& recording) {
  for (auto& [stream, state] : streams_) {
    if (state.recording.get() != &recording) continue;
    state.recording.reset();
    state.lane.reset();
  }
}

Result<Graph> Streams::end_capture(Stream stream) {
  RecordingPointer recording;
  {
    std::lock_guard lock(mutex_);
    GC_TRY_AS(State * state, find(stream));
    if (!state->recording || state->lane != state->recording->first_lane())
      return Status::error(Code::invalid_usage,
                           "a capture is ended in the stream in which it was begun, and only once");
    recording = state->recording;
    leave(*recording);
  }
  GC_TRY(recording->finish());  // what was kept is let go of without the lock
  const Graph graph = recording.get();
  std::lock_guard lock(mutex_);
  graphs_.emplace(graph, std::move(recording));
  return graph;
}

Status Streams::keep(Stream stream, void (*release)(void*), void* argument) {
  std::lock_guard lock(mutex_);
  GC_TRY_AS(State * state, find(stream));
  if (!state->recording) return Status::error(Code::invalid_usage, "the stream takes part in no capture");
  state->recording->keep(release, argument);
  return {};
}

Status Streams::launch(Graph graph, Stream stream) {
  const std::shared_lock gate(gate_);
  GC_TRY_AS(auto queue, idle(stream, "a graph was launched into a stream of the emulated device"));
  RecordingPointer recording;
  {
    std::lock_guard lock(mutex_);
    auto it = graphs_.find(graph);
    if (it == graphs_.end())
      return Status::error(Code::invalid_argument, "%p is not a graph of the emulated device, or was destroyed", graph);
    recording = it->second;
  }
  return recording->replay(recording, queue);
}

Status Streams::destroy_graph(Graph graph) {
  RecordingPointer recording;  // let go of without the lock
  std::lock_guard lock(mutex_);
  auto it = graphs_.find(graph);
  if (it == graphs_.end())
    return Status::error(Code::invalid_argument, "%p is not a graph of the emulated device, or was destroyed", graph);
  recording = std::move(it->second);
  graphs_.erase(it);
  return {};
}

}  // namespace gpucoll::gpu::emu
