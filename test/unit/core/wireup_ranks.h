// Ranks of one process that know each other as Peers do, without a communicator: for tests of what is built upon that.
#pragma once
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/peer/fault.h"
#include "core/peer/peers.h"
#include "gpu/device.h"
#include "net/bootstrap/bootstrap.h"

namespace gpucoll_test {

using namespace gpucoll;

// An allgather between threads.
class ThreadsExchange {
 public:
  explicit ThreadsExchange(int n) : n_(n) {}
  void allgather(int rank, const void* mine, void* all, size_t bytes) {
    std::unique_lock lock(mutex_);
    data_.resize(static_cast<size_t>(n_) * bytes);
    std::memcpy(data_.data() + static_cast<size_t>(rank) * bytes, mine, bytes);
    pass(lock);  // all have written
    std::memcpy(all, data_.data(), data_.size());
    pass(lock);  // all have read
  }

 private:
  void pass(std::unique_lock<std::mutex>& lock) {
    const int round = round_;
    if (++come_ == n_) {
      come_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
  }
  const int n_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint8_t> data_;
  int come_ = 0, round_ = 0;
};

class ThreadsBootstrap : public net::Bootstrap {
 public:
  ThreadsBootstrap(ThreadsExchange& exchange, int rank, int size) : exchange_(exchange), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Status allgather(const void* mine, void* all, size_t bytes) override {
    exchange_.allgather(rank_, mine, all, bytes);
    return {};
  }

 private:
  ThreadsExchange& exchange_;
  int rank_, size_;
};

struct MeetingRank {
  int rank;
  gpu::Device& device;
  core::Peers& peers;
  core::Fault& fault;
  net::Bootstrap& bootstrap;
};

// Runs body(rank) in n threads that have met; nobody's memory goes away before all have returned.
inline void on_meeting_ranks(int n, const std::function<void(MeetingRank&)>& body) {
  auto device = gpu::emu_platform().open(0);
  ASSERT_TRUE(device.ok());
  ThreadsExchange exchange(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      ThreadsBootstrap bootstrap(exchange, r, n);
      auto peers = core::Peers::exchange(bootstrap, **device, Status());
      ASSERT_TRUE(peers.ok()) << peers.status().what();
      core::Fault fault;
      fault.attach(nullptr, &peers->own_page(), peers->name(r));
      MeetingRank self = {r, **device, *peers, fault, bootstrap};
      body(self);
      char nothing = 0;
      std::vector<char> all(static_cast<size_t>(n));
      bootstrap.allgather(&nothing, all.data(), 1).ignore();
      fault.attach(nullptr, nullptr);
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace gpucoll_test
