// The pages of ranks on other nodes: each rank has copies of them here, and tells those ranks what changes on its own.
//
// Between any two ranks of different nodes lies one channel (net/tcp/channel.h); the lower rank dials. What host code
// reads on a page (letters, faults, calls, the pulse) it reads on the copy; kernels know no copies.
// Thread safety: connect() by one caller; then any thread, any function. Ownership: borrows the pages.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "net/bootstrap/bootstrap.h"
#include "net/tcp/channel.h"
#include "net/tcp/endpoint.h"
#include "proto/format/peer.h"
#include "proto/format/remote_page.h"

namespace gpucoll::core {

class RemotePages {
 public:
  RemotePages(int rank, int size, uint8_t* own_page);
  ~RemotePages();
  RemotePages(const RemotePages&) = delete;
  RemotePages& operator=(const RemotePages&) = delete;

  // Begins to listen for others. Errors: what keeps this rank from it.
  Status listen();
  // Begins to keep `copy`, of proto::control_bytes(size), for a remote rank. REQUIRES: listen().
  void add(int rank, uint8_t* copy);
  // Has the others learn that this rank has failed, and connects with nobody: they do not dial, and all agree.
  void withdraw() noexcept { mine_.at = {}; }
  // Tells the others where this rank listens, and learns where they do. Collective over all ranks of a communicator,
  // also those that do not listen. REQUIRES: all remote ranks are added, as they may dial next, or withdraw().
  // Errors: the bootstrap's.
  Status exchange_addresses(net::Bootstrap& bootstrap);
  // Dials those that this rank is to dial; does nothing where a rank has withdrawn: it says why when all agree. Once
  // all ranks have agreed that they could connect, all channels are there. REQUIRES: exchange_addresses(). watch: asked
  // now and then; its failure ends the wait. timeout_s: 0: without end. Errors: remote, timed_out; the watch's.
  using Watch = std::function<Status()>;
  Status connect(const Watch& watch, int64_t timeout_s);
  // Begins to watch the heartbeats of the others. REQUIRES: all ranks have agreed that they could connect.
  void hear_all() noexcept;

  // Returns whether the connection to a remote rank has not ended.
  bool alive(int rank) const noexcept;
  // Returns whether the ranks have exchanged their addresses.
  bool knows_hosts() const noexcept { return !addresses_.empty(); }
  // Returns the name of a rank's host. REQUIRES: knows_hosts().
  std::string host(int rank) const;
  // Tells all remote ranks what is new on this rank's page, and that it lives.
  void publish() noexcept;
  // Tells a remote rank of a message that has just been written for it.
  // Errors: out_of_memory.
  Status send_letter(int rank, int lane, uint64_t number) noexcept;

 private:
  class Copy;
  struct Dialing {
    int rank;
    net::DialedConnection dialed;
  };
  Result<std::vector<Dialing>> begin_dialing() const;
  Status unreached(int rank, const Status& why) const;
  Result<bool> advance(std::vector<Dialing>* pending);
  std::string unanswered(const Dialing& dialing, int64_t waited_s, const char* parameter) const;
  void tell(Copy& kept, const proto::ControlPage& state);
  Copy* copy(int rank) const noexcept { return copies_.empty() ? nullptr : copies_[static_cast<size_t>(rank)].get(); }

  const int rank_, size_;
  uint8_t* const own_;
  proto::NetworkAddress mine_ = {};
  std::vector<proto::NetworkAddress> addresses_;
  std::vector<std::unique_ptr<Copy>> copies_;  // by rank; null where it is not remote
  std::mutex mutex_;                           // guards what follows
  uint32_t told_[3] = {};                      // what said last that this rank has failed or is through
  std::vector<proto::CallRecord> new_calls_;
};

}  // namespace gpucoll::core
