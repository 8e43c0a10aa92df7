// Tells what each collective and each point-to-point test sends, receives and must deliver.
//
// A call has `count` elements in each block; allgather, gather, alltoall, scatter and reduce_scatter have one block
// for every rank on one side or both. In their forms with a v blocks differ: half of them have half as much again as
// their neighbours, together as much as equal ones. Inputs are always elements 0.. of the rank that owns them (data.h).
// A point-to-point test has messages of `count` elements between the two ranks of a pair (messages.h).
// Thread safety: pure functions.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "perf/data.h"
#include "perf/type_shape.h"
#include "perf/types.h"

namespace gpucoll::perf {

// Order of the table in collective.cpp.
enum class Collective {
  allreduce,
  bcast,
  reduce,
  allgather,
  reduce_scatter,
  alltoall,
  gather,
  scatter,
  scan,
  exscan,
  sendrecv,
  pair,
  allgatherv,
  reduce_scatterv,
  alltoallv,
  gatherv,
  scatterv,
  barrier,
  latency,
  bandwidth,
  bibw
};

struct Call {
  Collective collective = Collective::allreduce;
  Type type = Type::float32;
  Op op = Op::sum;
  size_t count = 0;
  int root = 0;
  bool in_place = false;
  int rank = 0, ranks = 1;
  int window = 1;                          // messages of a point-to-point test that are under way at once, each way
  std::shared_ptr<const TypeShape> shape;  // of these messages; null: contiguous. count is its elements
  bool api = false;                        // in place as the C API has it, where MPI has it otherwise
  bool operator==(const Call&) const = default;
};

// A part of a rank's buffer that it shares with one rank.
struct Block {
  size_t offset, elements;
};

// The ranks that a point-to-point call sends to and receives from; -1: nobody.
struct Partners {
  int to, from;
};

bool find_collective(const std::string& name, Collective* collective);
const char* name(Collective collective);
std::string collective_names();
bool reduces(Collective collective);
// The collective whose blocks are equal: allgather for allgatherv, and so on; itself where it has no v.
Collective even(Collective collective);
bool is_uneven(Collective collective);
// Over the ranks up to this one, or before it: MPI only.
bool is_scan(Collective collective);
// Whether the C API has a function for it.
bool in_api(Collective collective);
// Sends and receives: sendrecv to the next rank and from the one before, pair from each even rank to the next one,
// point-to-point tests between ranks i and i + ranks / 2.
bool is_pairwise(Collective collective);
bool is_message_test(Collective collective);
Partners partners_of(const Call& call);
// Return, of a point-to-point test: the messages that a buffer has room for, the bytes of the buffer that one takes,
// gaps included, and where in the buffer message i of a window lies.
size_t slots(const Call& call);
size_t slot_bytes(const Call& call);
size_t message_offset(const Call& call, int i);

// Of a buffer with a block for every rank, on `rank`: the one of `peer`.
Block block_of(const Call& call, int rank, int peer);
Block own_block(const Call& call);

// Elements of this rank's whole buffers, and of what it gives and gets.
size_t send_elements(const Call& call);
size_t recv_elements(const Call& call);
size_t input_elements(const Call& call);   // 0 where this rank gives nothing
size_t output_elements(const Call& call);  // 0 where this rank gets nothing
// Where this rank's input lies: in the receive buffer (in place, and bcast), and at which element.
bool input_in_recv(const Call& call);
size_t input_offset(const Call& call);
// Where in the receive buffer its output lies.
size_t output_offset(const Call& call);

// The count of a call whose larger buffer has at most `bytes`; and that buffer's bytes.
size_t count_for(const Call& call, size_t bytes);
size_t table_bytes(const Call& call);
// busbw = algbw * this: what the busiest link carries, after nccl-tests.
double bus_factor(const Call& call);

// How this call's data are made in run number `run`.
Recipe recipe(const Call& call, uint64_t run);
// Bytes of the output that no call has written hold this.
constexpr int kPoison = 0xA5;
// Output elements first .. first + count - 1 of this rank, with gaps between them; `scratch` holds count elements as
// well.
void expected(const Call& call, const Recipe& recipe, size_t first, size_t count, void* out, void* scratch);

}  // namespace gpucoll::perf
