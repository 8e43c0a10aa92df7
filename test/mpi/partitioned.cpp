// Partitioned messages between memory of each kind: partitions that become ready one by one, in ranges and from lists,
// in any order, as many or as few on the one side as on the other, and looked for as they arrive; the requests are
// started again with other data. Only where this MPI has them (MPI 4.0; Open MPI 5.0).
#include <algorithm>
#include <numeric>

#include "mpi_test.h"

namespace {
using namespace mpi_test;

constexpr int kTag = 9, kStarts = 3;
constexpr uint8_t kUntouched = 0x5a;

uint8_t value(int rank, int salt, size_t i) {
  return static_cast<uint8_t>(mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(salt), i));
}

struct Case {
  Where from, to;
  int sent, received;  // partitions on each side
  int bytes;           // of a partition that is sent
  int peer;
};

class Sender {
 public:
  explicit Sender(const Case& c) : case_(c), memory_(c.from, bytes_of(c.sent)) {
    MPI_Psend_init(memory_.at(0), c.sent, c.bytes, MPI_BYTE, c.peer, kTag, MPI_COMM_WORLD, MPI_INFO_NULL, &request_);
  }
  ~Sender() { MPI_Request_free(&request_); }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // The data of a partition come just before it is ready.
  void start(int salt) {
    MPI_Start(&request_);
    std::vector<int> order(static_cast<size_t>(case_.sent));
    std::iota(order.begin(), order.end(), 0);
    if (salt % 3 == 0) std::reverse(order.begin(), order.end());
    for (int partition : order) write(partition, salt);
    if (salt % 3 == 0) {
      for (int partition : order) MPI_Pready(partition, request_);
    } else if (salt % 3 == 1) {
      const int half = case_.sent / 2;
      MPI_Pready_range(half, case_.sent - 1, request_);
      if (half > 0) MPI_Pready_range(0, half - 1, request_);
    } else {
      std::rotate(order.begin(), order.begin() + case_.sent / 2, order.end());
      MPI_Pready_list(case_.sent, order.data(), request_);
    }
  }
  void wait() { MPI_Wait(&request_, MPI_STATUS_IGNORE); }

 private:
  size_t bytes_of(int partitions) const { return static_cast<size_t>(partitions) * static_cast<size_t>(case_.bytes); }
  void write(int partition, int salt) {
    const size_t bytes = static_cast<size_t>(case_.bytes), first = static_cast<size_t>(partition) * bytes;
    std::vector<uint8_t> all(static_cast<size_t>(case_.sent) * bytes);
    memory_.read(all.data());
    for (size_t i = first; i < first + bytes; ++i) all[i] = value(g_rank, salt, i);
    memory_.write(all.data());
  }
  const Case& case_;
  Memory memory_;
  MPI_Request request_;
};

class Receiver {
 public:
  explicit Receiver(const Case& c)
      : case_(c), bytes_(static_cast<size_t>(c.sent) * static_cast<size_t>(c.bytes)), memory_(c.to, (bytes_ + 1)) {
    MPI_Precv_init(memory_.at(0), c.received, static_cast<MPI_Count>(bytes_) / c.received, MPI_BYTE, c.peer, kTag,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &request_);
  }
  ~Receiver() { MPI_Request_free(&request_); }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  void start() {
    memory_.write(std::vector<uint8_t>(bytes_ + 1, kUntouched).data());
    MPI_Start(&request_);
  }
  // Waits until each partition has arrived, the last one first, and looks at it then. With other partitions at the
  // sender, Open MPI 5.0.7 looks at only some of those that make up one of ours.
  void look(int salt) {
    if (case_.sent != case_.received) return;
    for (int partition = case_.received - 1; partition >= 0; --partition) {
      for (int there = 0; !there;) MPI_Parrived(request_, partition, &there);
      const size_t bytes = bytes_ / static_cast<size_t>(case_.received), first = static_cast<size_t>(partition) * bytes;
      std::vector<uint8_t> all(bytes_ + 1);
      memory_.read(all.data());
      bool right = true;
      for (size_t i = first; i < first + bytes; ++i) right = right && all[i] == value(case_.peer, salt, i);
      if (!checked(right)) tell("partition", partition, salt);
    }
  }
  void wait(int salt) {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    std::vector<uint8_t> all(bytes_ + 1);
    memory_.read(all.data());
    bool right = all[bytes_] == kUntouched;
    for (size_t i = 0; i < bytes_; ++i) right = right && all[i] == value(case_.peer, salt, i);
    if (!checked(right)) tell("message", salt, salt);
  }

 private:
  void tell(const char* what, int number, int salt) const {
    fail("%s %d of %d sent and %d received partitions of %d bytes from %s to %s memory, start %d: wrong data", what,
         number, case_.sent, case_.received, case_.bytes, name_of(case_.from), name_of(case_.to), salt);
  }
  const Case& case_;
  const size_t bytes_;
  Memory memory_;
  MPI_Request request_;
};

void exchange(const Case& c) {
  Sender sender(c);
  Receiver receiver(c);
  for (int salt = 0; salt < kStarts; ++salt) {
    receiver.start();
    sender.start(salt);
    receiver.look(salt);
    receiver.wait(salt);
    sender.wait();
  }
}

void partitions(int peer) {
  for (const Where from : {Where::device, Where::host})
    for (const Where to : {Where::device, Where::host})
      for (const int bytes : {8, 113, 200000})  // 113: as long as an envelope
        for (const auto& [sent, received] : {std::pair{1, 1}, {8, 8}, {6, 3}, {3, 6}})
          if (bytes % 2 == 0 || received <= sent) exchange({from, to, sent, received, bytes, peer});
}

void with_one_thread() {
  partitions(g_rank ^ 1);
  partitions(g_rank);
}
}  // namespace

int main(int argc, char** argv) { return main_of(argc, argv, "partitioned", with_one_thread, with_one_thread); }
