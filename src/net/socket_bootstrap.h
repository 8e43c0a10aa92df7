// Bootstrap over TCP sockets from a unique id, for programs without MPI.
//
// A rank meets the others once at the maker of the id and learns all addresses; allgathers then run directly
// between ranks in log2(n) steps (Bruck's algorithm), over connections that are made at first use.
// Thread safety: one caller at a time; make_unique_id from any thread.
#pragma once
#include <memory>
#include <vector>

#include "net/bootstrap.h"
#include "net/socket.h"
#include "proto/format/bootstrap.h"

namespace gpucoll::net {

// Starts a rendezvous in the background and says where it is. It lives until all ranks have come or the process ends.
Result<proto::UniqueId> make_unique_id();

class SocketBootstrap final : public Bootstrap {
 public:
  // Collective: returns once all `size` ranks have come. Errors: timed_out; invalid_usage when ranks contradict
  // each other (a rank twice, differing sizes); invalid_argument when `id` was not made by make_unique_id.
  static Result<std::unique_ptr<Bootstrap>> create(const proto::UniqueId& id, int rank, int size, int64_t timeout_s);
  ~SocketBootstrap() override;
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Status allgather(const void* mine, void* all, size_t bytes) override;

 private:
  SocketBootstrap(const proto::UniqueId& id, int rank, int size, int64_t timeout_s)
      : nonce_(id.nonce), rank_(rank), size_(size), timeout_s_(timeout_s) {}
  Status meet(const proto::UniqueId& id);
  // Fills addresses_, or says in *reply why the rendezvous failed.
  Status ask_all_addresses(const Address& root, Deadline deadline, proto::BootstrapReply* reply);
  int rank_before(int level) const;
  Status connect_level(int level, Deadline deadline);
  Status accept_level(int level, Deadline deadline);
  Company company() const;  // the ranks that this one sends to
  proto::BootstrapHello hello(int level) const;

  uint64_t nonce_;
  int rank_, size_;
  int64_t timeout_s_;
  UniqueFd listener_;
  proto::BootstrapAddress listener_address_ = {};
  std::vector<proto::BootstrapAddress> addresses_;
  std::vector<UniqueFd> to_, from_;  // by level: to rank - 2^level, from rank + 2^level
  uint32_t rounds_ = 0;              // allgathers that this rank is through with
};

}  // namespace gpucoll::net
