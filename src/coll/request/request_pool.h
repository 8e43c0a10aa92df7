// Keeps the requests of one MPI communicator between their calls, with the memory that they have for these.
//
// Thread safety: one caller at a time. Ownership: owns all requests, taken or not.
#pragma once
#include <memory>
#include <vector>

#include "coll/request/request.h"

namespace gpucoll::coll {

class RequestPool {
 public:
  Request* take(RequestQueue& owner) {
    if (spare_.empty()) {
      spare_.push_back(all_.emplace_back(std::make_unique<Request>(owner)).get());
      spare_.reserve(all_.size());  // so that put_back() needs no memory
    }
    Request* const call = spare_.back();
    spare_.pop_back();
    return call;
  }
  void put_back(Request& call) {
    call.call.part.clear();
    call.call.scratch.release_much();
    spare_.push_back(&call);
  }
  // Gives the device memory of all requests back.
  void release() {
    for (const auto& call : all_) call->call.scratch.release();
  }

 private:
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> spare_;
};

}  // namespace gpucoll::coll
