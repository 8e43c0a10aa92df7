// Calls in which no byte moves, as each rank may say it: no elements, or one of a type without data, with an extent or
// without. MPI ends some of them on the ranks without elements alone; what follows must run as ever, on the device.
//
// Thread safety: none. Ownership: an EmptyCall owns its types; communicators are the caller's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "abi/abi.h"
#include "call_form.h"

namespace without_bytes {
using namespace mpi_test;

// What a rank says: the number of elements, and their type.
struct Way {
  int count;
  MPI_Datatype type;
};

inline void nothing_to_do(void*, void*, int*, MPI_Datatype*) {}

class EmptyCall {
 public:
  // `root`: as passed. `blocks`: the most of them that a buffer has.
  EmptyCall(MPI_Comm comm, int root, int blocks, Where where)
      : comm_(comm),
        root_(root),
        buffer_(where, 64),
        zeros_(static_cast<size_t>(blocks), 0),
        far_zeros_(zeros_.size()) {
    MPI_Type_contiguous(0, MPI_INT, &empty_);
    MPI_Type_create_resized(empty_, 0, 16, &wide_);
    MPI_Type_commit(&empty_);
    MPI_Type_commit(&wide_);
    MPI_Op_create(nothing_to_do, 1, &op_);
  }
  ~EmptyCall() {
    MPI_Type_free(&empty_);
    MPI_Type_free(&wide_);
    MPI_Op_free(&op_);
  }
  EmptyCall(const EmptyCall&) = delete;
  EmptyCall& operator=(const EmptyCall&) = delete;

  // As draws differ between ranks, so does how they say that there is nothing.
  Way way(uint64_t draw) const {
    const Way ways[] = {{0, MPI_INT}, {1, empty_}, {1, wide_}, {0, wide_}};
    return ways[draw % 4];
  }

  int reduce(Form form, const std::string& name, Way all) {
    MPI_Request request = MPI_REQUEST_NULL;
    void *in = buffer_.at(0), *out = buffer_.at(32);
    // An operation of MPI knows no type without data.
    const MPI_Op op = all.type == MPI_INT ? MPI_SUM : op_;
    const std::vector<int> counts(zeros_.size(), all.count);
    if (name == "allreduce")
      return GC_CALL_IN_FORM(form, comm_, Allreduce, allreduce, in, out, all.count, all.type, op);
    if (name == "reduce") return GC_CALL_IN_FORM(form, comm_, Reduce, reduce, in, out, all.count, all.type, op, root_);
    if (name == "scan") return GC_CALL_IN_FORM(form, comm_, Scan, scan, in, out, all.count, all.type, op);
    if (name == "exscan") return GC_CALL_IN_FORM(form, comm_, Exscan, exscan, in, out, all.count, all.type, op);
    if (name == "reduce_scatter")
      return GC_CALL_IN_FORM(form, comm_, Reduce_scatter, reduce_scatter, in, out, counts.data(), all.type, op);
    return GC_CALL_IN_FORM(form, comm_, Reduce_scatter_block, reduce_scatter_block, in, out, all.count, all.type, op);
  }

  int move(Form form, const std::string& name, Way s, Way r) {
    MPI_Request request = MPI_REQUEST_NULL;
    void *in = buffer_.at(0), *out = buffer_.at(32);
    const std::vector<int> scounts(zeros_.size(), s.count), rcounts(zeros_.size(), r.count);
    const std::vector<MPI_Datatype> stypes(zeros_.size(), s.type), rtypes(zeros_.size(), r.type);
    const int *sc = scounts.data(), *rc = rcounts.data(), *at = zeros_.data();
    const MPI_Datatype *st = stypes.data(), *rt = rtypes.data();
#define GC_EMPTY(Name, lower, ...) \
  if (name == #lower) return GC_CALL_IN_FORM(form, comm_, Name, lower, __VA_ARGS__)
    GC_EMPTY(Bcast, bcast, out, r.count, r.type, root_);
    GC_EMPTY(Allgather, allgather, in, s.count, s.type, out, r.count, r.type);
    GC_EMPTY(Allgatherv, allgatherv, in, s.count, s.type, out, rc, at, r.type);
    GC_EMPTY(Alltoall, alltoall, in, s.count, s.type, out, r.count, r.type);
    GC_EMPTY(Alltoallv, alltoallv, in, sc, at, s.type, out, rc, at, r.type);
    GC_EMPTY(Alltoallw, alltoallw, in, sc, at, st, out, rc, at, rt);
    GC_EMPTY(Gather, gather, in, s.count, s.type, out, r.count, r.type, root_);
    GC_EMPTY(Gatherv, gatherv, in, s.count, s.type, out, rc, at, r.type, root_);
    GC_EMPTY(Scatter, scatter, in, s.count, s.type, out, r.count, r.type, root_);
    GC_EMPTY(Scatterv, scatterv, in, sc, at, s.type, out, r.count, r.type, root_);
    GC_EMPTY(Neighbor_allgather, neighbor_allgather, in, s.count, s.type, out, r.count, r.type);
    GC_EMPTY(Neighbor_allgatherv, neighbor_allgatherv, in, s.count, s.type, out, rc, at, r.type);
    GC_EMPTY(Neighbor_alltoall, neighbor_alltoall, in, s.count, s.type, out, r.count, r.type);
    GC_EMPTY(Neighbor_alltoallv, neighbor_alltoallv, in, sc, at, s.type, out, rc, at, r.type);
    GC_EMPTY(Neighbor_alltoallw, neighbor_alltoallw, in, sc, far_zeros_.data(), st, out, rc, far_zeros_.data(), rt);
#undef GC_EMPTY
    return MPI_ERR_OTHER;
  }

 private:
  MPI_Comm comm_;
  int root_;
  Memory buffer_;
  std::vector<int> zeros_;
  std::vector<MPI_Aint> far_zeros_;
  MPI_Datatype empty_ = MPI_DATATYPE_NULL, wide_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
};

// Sums over all ranks of the communicator, or of the other group, by each form. `runs`: whether they are to run on the
// device.
inline void check_sums(MPI_Comm comm, const std::string& after, bool runs) {
  int mine[64], sums[64], inter, n;
  MPI_Comm_test_inter(comm, &inter);
  (inter ? MPI_Comm_remote_size : MPI_Comm_size)(comm, &n);
  for (int i = 0; i < 64; i++) mine[i] = i + 1;
  Memory in(Where::device, sizeof mine), out(Where::device, sizeof mine);
  in.write(mine);
  for (const Form form : kForms) {
    MPI_Request request = MPI_REQUEST_NULL;
    const uint64_t before = gpucoll_abi(GC_ABI_VERSION)->runs();
    const int rc = GC_CALL_IN_FORM(form, comm, Allreduce, allreduce, in.at(0), out.at(0), 64, MPI_INT, MPI_SUM);
    if (!checked(rc == MPI_SUCCESS)) fail("%sallreduce after %s: error %d", name_of(form), after.c_str(), rc);
    out.read(sums);
    if (!checked(sums[0] == n && sums[63] == 64 * n)) fail("%sallreduce after %s", name_of(form), after.c_str());
    if (!checked(!runs || gpucoll_abi(GC_ABI_VERSION)->runs() > before))
      fail("%sallreduce after %s went through the host", name_of(form), after.c_str());
  }
}

// In all of `forms`, with device memory on all ranks, on some, and on none.
inline void test(MPI_Comm comm, int root, int blocks, bool runs, const std::vector<std::string>& reductions,
                 const std::vector<std::string>& moves, const std::vector<Form>& forms) {
  const uint64_t rank = static_cast<uint64_t>(g_rank);
  uint64_t draw = 0;
  int between;
  MPI_Comm_test_inter(comm, &between);
  for (const Form form : forms)
    for (const Where where : {Where::device, g_rank ? Where::device : Where::host, Where::host}) {
      EmptyCall call(comm, root, blocks, where);
      const auto expect = [&](const std::string& name, int rc) {
        if (!checked(rc == MPI_SUCCESS)) fail("%s%s without bytes: error %d", name_of(form), name.c_str(), rc);
        check_sums(comm, std::string(name_of(form)) + name + " without bytes", runs);
      };
      for (const std::string& name : reductions) expect(name, call.reduce(form, name, call.way(++draw)));
      for (const std::string& name : moves) {
        // Some ranks have elements and others have not; but Open MPI's own hang then where blocks differ.
        const bool alike = (between || name != "allgatherv") && (name.back() == 'v' || name.back() == 'w');
        const bool first = (++draw + (alike ? 0 : rank)) % 3 == 0;
        const Way mine = call.way(first ? 1 + draw % 2 : 3 * (draw % 2));
        expect(name, call.move(form, name, mine, mine));
      }
    }
}

inline void test_within(MPI_Comm comm) {
  test(comm, 0, g_size, g_size > 1, {"allreduce", "reduce", "scan", "exscan", "reduce_scatter", "reduce_scatter_block"},
       {"bcast", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "gather", "gatherv", "scatter",
        "scatterv"},
       {Form::blocking, Form::nonblocking, Form::persistent});
}

// Beside the root, MPI and Open MPI's tags of nonblocking ones go by counts that mean nothing.
inline void test_between(MPI_Comm comm, int root) {
  const std::vector<std::string> of_all = {"allreduce", "reduce_scatter", "reduce_scatter_block"};
  const std::vector<std::string> to_all = {"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};
  test(comm, root, g_size, true, of_all, to_all, {Form::blocking, Form::nonblocking, Form::persistent});
  test(comm, root, g_size, true, {"reduce"}, {"bcast", "gather", "gatherv", "scatter", "scatterv"}, {Form::blocking});
}

inline void test_on_a_line(MPI_Comm world) {
  const int periodic = 0;
  MPI_Comm line;
  MPI_Cart_create(world, 1, &g_size, &periodic, 0, &line);
  test(line, 0, 2, g_size > 1, {},
       {"neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"},
       {Form::blocking, Form::nonblocking, Form::persistent});
  MPI_Comm_free(&line);
}

}  // namespace without_bytes
