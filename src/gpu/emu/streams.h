// The streams of all emulated devices of this process, and the captures and graphs made of them.
//
// Work that is put into a stream runs, or is recorded while the stream takes part in a capture. A stream takes part
// once it began one, or was told to wait for a stream that does.
// Thread safety: every function may be called from any thread. Ownership: streams and graphs live until they are
// destroyed here. Invariant: a stream has a recording and a lane of it, or neither.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "gpu/emu/recording.h"

namespace gpucoll::gpu::emu {

class Streams {
 public:
  // A default stream never takes part in a capture.
  // It fails with this device.
  Stream create(bool is_default, int device);
  Status destroy(Stream stream);
  Status put(Stream stream, const Work& work);
  // So that put() of a launch with no more threads does not fail.
  Status reserve(Stream stream, int threads);
  Status wait(Stream stream, Stream other);
  // Errors: invalid_usage, as it would never end, for a stream that is capturing.
  Status synchronize(Stream stream);
  // Waits until what is in any of them has ended; nothing comes into them meanwhile.
  void rest();

  // As in gpu::Device.
  Result<uint64_t> capture_of(Stream stream);
  Status begin_capture(Stream stream);
  Result<Graph> end_capture(Stream stream);
  Status keep(Stream stream, void (*release)(void*), void* argument);
  Status launch(Graph graph, Stream stream);
  Status destroy_graph(Graph graph);

 private:
  using RecordingPointer = std::shared_ptr<Recording>;
  struct State {
    std::shared_ptr<Queue> queue;  // why shared: see queue.h
    bool is_default = false;
    int device = 0;
    RecordingPointer recording;
    Recording::LanePointer lane;
  };

  Result<State*> find(Stream stream);                                    // REQUIRES: lock held
  Result<std::shared_ptr<Queue>> idle(Stream stream, const char* what);  // of a stream that is not capturing
  Status record_wait(State& state, State& other);                        // REQUIRES: lock held
  void leave(const Recording& recording);                                // REQUIRES: lock held

  std::shared_mutex gate_;  // shared while something is put into a queue
  std::mutex mutex_;
  std::unordered_map<Stream, State> streams_;
  std::unordered_map<Graph, RecordingPointer> graphs_;
  uint64_t captures_ = 0;
};

}  // namespace gpucoll::gpu::emu
