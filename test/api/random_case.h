// Cases of the differential test: which calls the ranks make, in which groups, on which communicators and streams, and
// where their buffers lie. Drawn from a seed, or put together by a test; the same on all ranks.
//
// Each rank has an arena of device memory that starts with random bytes; a case gives every call its own pieces of it,
// with gaps between them, and sometimes the output of a call of an earlier group as input. expected_memory() says what
// every byte of every arena is in the end, gaps included.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gpucoll_test {

enum class Kind {
  all_reduce,
  reduce,
  broadcast,
  bcast,
  all_gather,
  reduce_scatter,
  message,
  all_to_all,
  all_to_all_v,
  gather,
  gather_v,
  scatter,
  scatter_v,
  barrier
};
inline constexpr int kKinds = 14;
const char* name(Kind kind);
bool reduces(Kind kind);

// Ranks are those of the call's communicator.
struct Call {
  Kind kind = Kind::barrier;
  int comm = 0;
  int stream = 0;
  int type = 0, op = 0;
  size_t count = 0;
  int root = 0, peer = 0;  // a message goes from root to peer
  bool in_place = false;
  bool device_scalar = false;  // of a pre-multiplied sum
  // In elements: counts[from * n + to], and displacements of the same shape in the send and the receive buffer.
  std::vector<size_t> counts, send_displs, recv_displs;
  // By rank: where the buffers begin in the arena, in bytes.
  std::vector<size_t> send, recv;
  uint64_t seed = 0;  // of the values
  bool fresh = true;  // the input is filled with values that suit the operation; else it is what lies there
};

struct Group {
  bool grouped = true;  // else each call is a group of its own
  std::vector<Call> calls;
};

// What each rank of communicator 0 passes to gpucollCommSplit.
struct Split {
  std::vector<int> colors, keys;
};
// Communicator 0 has all ranks; the others come from splits of it.
struct Comm {
  std::vector<int> members;  // ranks of communicator 0, in the order of their ranks here
  int split = 0, color = 0;  // place in Case::splits
};

// Who drives the ranks.
enum class Drive { threads, one_thread, processes };

struct Case {
  uint64_t seed = 0;
  Drive drive = Drive::threads;
  int n_ranks = 1, n_streams = 1;
  std::vector<Split> splits;
  std::vector<Comm> comms;
  std::vector<Group> groups;
  size_t arena_bytes = 0;
};

struct Limits {
  int max_ranks = 8;
  size_t max_bytes = 4 << 20;  // of one rank's part in a call
};
Case draw_case(uint64_t seed, Drive drive, const Limits& limits);

// Gives every call of the case its places, drawn from the case's seed. chain: inputs may be earlier outputs.
void lay_out(Case* c, bool chain);

// Where a rank's buffer begins, in place or not.
size_t send_place(const Call& call, int rank, int n);
size_t recv_place(const Call& call, int rank, int n);
// Bytes of the whole buffer of a rank, whether it is used or not.
size_t send_bytes(const Call& call, int rank, int n);
size_t recv_bytes(const Call& call, int rank, int n);

// The arenas of all ranks before and after.
using Memory = std::vector<std::vector<uint8_t>>;
Memory first_memory(const Case& c);
Memory expected_memory(const Case& c);

std::string text(const Case& c);
std::string text(const Call& call);

}  // namespace gpucoll_test
