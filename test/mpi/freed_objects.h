// Types and operations that the program frees as soon as a nonblocking call has begun or a persistent one is made, and
// whose memory others have then: the call gives what a blocking one gives. They go when the request goes.
//
// Thread safety: none. Ownership: a Trial owns all that it makes.
#pragma once
#include <functional>
#include <vector>

#include "mpi_test.h"

namespace freed {
using namespace mpi_test;

constexpr int kInts = 4;  // of an element, which has data in 0 and 2

inline void add_and_one(void* in, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n * kInts; i += 2) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i] + 1;
}
inline void spoil(void*, void* inout, int* n, MPI_Datatype*) {
  for (int i = 0; i < *n; i++) static_cast<int*>(inout)[i] = -1;
}

inline int g_types_gone = 0;
inline int count_type(MPI_Datatype, int, void*, void*) {
  ++g_types_gone;
  return MPI_SUCCESS;
}

struct Objects {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;

  void make(bool counted) {
    MPI_Datatype gaps;
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    MPI_Type_create_resized(gaps, 0, kInts * sizeof(int), &type);
    MPI_Type_free(&gaps);
    MPI_Type_commit(&type);
    MPI_Op_create(add_and_one, 1, &op);
    if (!counted) return;
    int key;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_type, &key, nullptr);
    MPI_Type_set_attr(type, key, nullptr);
    MPI_Type_free_keyval(&key);
  }
  void make_others() {
    MPI_Type_vector(5, 3, 4, MPI_SHORT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(spoil, 0, &op);
  }
  void free() {
    MPI_Type_free(&type);
    MPI_Op_free(&op);
  }
};

struct Call {
  Form form;
  MPI_Comm comm;
  int blocks;  // of each buffer
  const void* in;
  void* out;
  Objects objects;
  // That MPI leaves to the call until its request is complete or freed.
  std::vector<int> ones, places, byte_places;
  std::vector<MPI_Aint> far_places;
  std::vector<MPI_Datatype> types;
  MPI_Request request = MPI_REQUEST_NULL;

  Call(Form its_form, MPI_Comm its_comm, int n, const void* from, void* to)
      : form(its_form), comm(its_comm), blocks(n), in(from), out(to) {
    for (int i = 0; i < n; i++) {
      ones.push_back(1);
      places.push_back(i);
      byte_places.push_back(i * kInts * static_cast<int>(sizeof(int)));
      far_places.push_back(byte_places.back());
    }
  }
};

#define FREED_CALL(Name, name, ...)                                             \
  (c.form == Form::blocking      ? MPI_##Name(__VA_ARGS__, c.comm)              \
   : c.form == Form::nonblocking ? MPI_I##name(__VA_ARGS__, c.comm, &c.request) \
                                 : GC_INIT(Name)(__VA_ARGS__, c.comm, MPI_INFO_NULL, &c.request))

struct Function {
  const char* name;
  std::function<int(Call& c, MPI_Datatype t, MPI_Op op)> begin;
};

inline std::vector<Function> reductions() {
  return {
      {"allreduce",
       [](Call& c, MPI_Datatype t, MPI_Op op) { return FREED_CALL(Allreduce, allreduce, c.in, c.out, 1, t, op); }},
      {"reduce",
       [](Call& c, MPI_Datatype t, MPI_Op op) { return FREED_CALL(Reduce, reduce, c.in, c.out, 1, t, op, 0); }},
      {"scan", [](Call& c, MPI_Datatype t, MPI_Op op) { return FREED_CALL(Scan, scan, c.in, c.out, 1, t, op); }},
      {"exscan", [](Call& c, MPI_Datatype t, MPI_Op op) { return FREED_CALL(Exscan, exscan, c.in, c.out, 1, t, op); }},
      {"reduce_scatter",
       [](Call& c, MPI_Datatype t, MPI_Op op) {
         return FREED_CALL(Reduce_scatter, reduce_scatter, c.in, c.out, c.ones.data(), t, op);
       }},
      {"reduce_scatter_block", [](Call& c, MPI_Datatype t, MPI_Op op) {
         return FREED_CALL(Reduce_scatter_block, reduce_scatter_block, c.in, c.out, 1, t, op);
       }}};
}

inline std::vector<Function> moves() {
  return {{"bcast", [](Call& c, MPI_Datatype t, MPI_Op) { return FREED_CALL(Bcast, bcast, c.out, c.blocks, t, 0); }},
          {"allgather",
           [](Call& c, MPI_Datatype t, MPI_Op) { return FREED_CALL(Allgather, allgather, c.in, 1, t, c.out, 1, t); }},
          {"allgatherv",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Allgatherv, allgatherv, c.in, 1, t, c.out, c.ones.data(), c.places.data(), t);
           }},
          {"alltoall",
           [](Call& c, MPI_Datatype t, MPI_Op) { return FREED_CALL(Alltoall, alltoall, c.in, 1, t, c.out, 1, t); }},
          {"alltoallv",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Alltoallv, alltoallv, c.in, c.ones.data(), c.places.data(), t, c.out, c.ones.data(),
                               c.places.data(), t);
           }},
          {"alltoallw",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             c.types.assign(c.ones.size(), t);
             return FREED_CALL(Alltoallw, alltoallw, c.in, c.ones.data(), c.byte_places.data(), c.types.data(), c.out,
                               c.ones.data(), c.byte_places.data(), c.types.data());
           }},
          {"gather",
           [](Call& c, MPI_Datatype t, MPI_Op) { return FREED_CALL(Gather, gather, c.in, 1, t, c.out, 1, t, 0); }},
          {"gatherv",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Gatherv, gatherv, c.in, 1, t, c.out, c.ones.data(), c.places.data(), t, 0);
           }},
          {"scatter",
           [](Call& c, MPI_Datatype t, MPI_Op) { return FREED_CALL(Scatter, scatter, c.in, 1, t, c.out, 1, t, 0); }},
          {"scatterv", [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Scatterv, scatterv, c.in, c.ones.data(), c.places.data(), t, c.out, 1, t, 0);
           }}};
}

inline std::vector<Function> neighborhoods() {
  return {{"neighbor_allgather",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Neighbor_allgather, neighbor_allgather, c.in, 1, t, c.out, 1, t);
           }},
          {"neighbor_allgatherv",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Neighbor_allgatherv, neighbor_allgatherv, c.in, 1, t, c.out, c.ones.data(),
                               c.places.data(), t);
           }},
          {"neighbor_alltoall",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Neighbor_alltoall, neighbor_alltoall, c.in, 1, t, c.out, 1, t);
           }},
          {"neighbor_alltoallv",
           [](Call& c, MPI_Datatype t, MPI_Op) {
             return FREED_CALL(Neighbor_alltoallv, neighbor_alltoallv, c.in, c.ones.data(), c.places.data(), t, c.out,
                               c.ones.data(), c.places.data(), t);
           }},
          {"neighbor_alltoallw", [](Call& c, MPI_Datatype t, MPI_Op) {
             c.types.assign(c.ones.size(), t);
             return FREED_CALL(Neighbor_alltoallw, neighbor_alltoallw, c.in, c.ones.data(), c.far_places.data(),
                               c.types.data(), c.out, c.ones.data(), c.far_places.data(), c.types.data());
           }}};
}

// One call whose type and operation are freed at once.
class Trial {
 public:
  Trial(const Function& function, Form form, MPI_Comm comm, int blocks, Where where)
      : function_(function),
        ints_(static_cast<size_t>(blocks) * kInts),
        send_(where, ints_ * sizeof(int)),
        recv_(where, ints_ * sizeof(int)),
        call_(form, comm, blocks, send_.at(0), recv_.at(0)),
        where_(where) {}

  void run() {
    call_.objects.make(true);
    fill();
    if (!checked(begin() == MPI_SUCCESS)) return fail("%s cannot begin", name().c_str());
    call_.objects.free();
    for (Objects& other : others_) other.make_others();
    const bool persistent = call_.form == Form::persistent;
    const int before = g_types_gone;
    for (int start = 0; start < (persistent ? 3 : 1); start++) {
      if (persistent) fill(), MPI_Start(&call_.request);
      MPI_Wait(&call_.request, MPI_STATUS_IGNORE);
      check(start);
    }
    if (!checked(!persistent || g_types_gone == before)) fail("%s lets its type go early", name().c_str());
    if (persistent) MPI_Request_free(&call_.request);
    if (!checked(g_types_gone == began_with_ + 1 || open_mpi_keeps_type())) fail("%s keeps its type", name().c_str());
    for (Objects& other : others_) other.free();
  }

 private:
  int begin() {
    began_with_ = g_types_gone;
    return function_.begin(call_, call_.objects.type, call_.objects.op);
  }
  void fill() {
    std::vector<int> in(ints_), out(ints_, -7);
    for (size_t i = 0; i < ints_; i++)
      in[i] = static_cast<int>(mix(static_cast<uint64_t>(g_rank), i, static_cast<uint64_t>(fills_)) % 1000);
    if (g_rank == 0) out = in;  // which MPI_Bcast sends
    fills_++;
    send_.write(in.data());
    recv_.write(out.data());
    // Gets what a blocking one gives, in host memory.
    wanted_ = out;
    Call blocking(Form::blocking, call_.comm, call_.blocks, in.data(), wanted_.data());
    Objects its;
    its.make(false);
    function_.begin(blocking, its.type, its.op);
    its.free();
  }
  void check(int start) {
    std::vector<int> got(ints_);
    recv_.read(got.data());
    for (size_t i = 0; i < ints_; i++)
      if (!checked(got[i] == wanted_[i]))
        return fail("%s, start %d: int %zu is %d instead of %d", name().c_str(), start, i, got[i], wanted_[i]);
  }
  // Open MPI 5.0.7 never lets go of the types of an MPI_Ialltoallw that is complete when it returns, as with one rank.
  bool open_mpi_keeps_type() const {
    return OMPI_MAJOR_VERSION >= 5 && g_size == 1 && call_.form == Form::nonblocking && !call_.types.empty();
  }
  std::string name() const {
    return std::string(name_of(call_.form)) + function_.name + " in " + name_of(where_) + " memory of what is freed";
  }

  const Function& function_;
  size_t ints_;
  Memory send_, recv_;
  Call call_;
  Where where_;
  Objects others_[4];
  std::vector<int> wanted_;
  int fills_ = 0, began_with_ = 0;
};

inline void try_all(const std::vector<Function>& functions, MPI_Comm comm, int blocks) {
  const Where usual[] = {Where::device, g_rank == 0 ? Where::host : Where::device, Where::host};
  for (const Function& function : functions)
    for (const Form form : {Form::nonblocking, Form::persistent})
      for (const Where where : usual) Trial(function, form, comm, blocks, where).run();
}

inline void test() {
  MPI_Comm ring;
  const int periodic = g_size > 2;  // of two ranks Open MPI 4.1 takes one neighbour for the other
  MPI_Cart_create(MPI_COMM_WORLD, 1, &g_size, &periodic, 0, &ring);
  try_all(reductions(), MPI_COMM_WORLD, g_size);
  try_all(moves(), MPI_COMM_WORLD, g_size);
  try_all(neighborhoods(), ring, 2);
  MPI_Comm_free(&ring);
}

}  // namespace freed
