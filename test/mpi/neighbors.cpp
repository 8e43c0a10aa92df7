// Neighbourhood collectives drawn at random: grids with dimensions of any size, periodic or not, graphs and distributed
// graphs with several edges between two ranks, edges to themselves and ranks without any. Each is compared with what
// MPI says, with what Open MPI delivers from host memory, and by whether it ran on the device. Blocking, nonblocking
// and waited for, or persistent.
// usage: neighbors [CASES [SEED]]
//
// Everything about a case follows from its seed, so every rank knows every other rank's arguments. Whole allocations
// are compared, so a byte written where none belongs is seen.
#include <algorithm>

#include "abi/abi.h"
#include "call_form.h"

namespace {
using namespace mpi_test;

uint64_t u(int value) { return static_cast<uint64_t>(value); }
size_t z(int value) { return static_cast<size_t>(value); }

// ---- topologies ----

// An end of an edge in a rank's list: the other rank, and which of that rank's blocks belongs to it. No rank: -1.
struct End {
  int rank, block;
};
struct Topology {
  std::string name;
  std::vector<std::vector<End>> in, out;  // [rank][block]
  bool grid = false;
  bool used = false;  // on the device, by all ranks, before the cases
  MPI_Comm comm;
};

// Of a graph: edges between the same two ranks match in the order of the lists.
void match(Topology& t) {
  for (int from = 0; from < g_size; from++) {
    std::vector<int> next(z(g_size));
    for (size_t block = 0; block < t.out[z(from)].size(); block++) {
      End& out = t.out[z(from)][block];
      std::vector<End>& there = t.in[z(out.rank)];
      int& at = next[z(out.rank)];
      while (there[z(at)].rank != from) at++;
      out.block = at;
      there[z(at++)].block = static_cast<int>(block);
    }
  }
}

std::vector<int> ranks_of(const std::vector<End>& ends) {
  std::vector<int> ranks;
  for (const End& end : ends) ranks.push_back(end.rank);
  return ranks;
}

void shuffle(std::vector<End>& ends, uint64_t seed) {
  for (size_t i = ends.size(); i > 1; i--) std::swap(ends[i - 1], ends[mix(seed, i) % i]);
}

Topology make_grid(uint64_t seed) {
  Topology t;
  t.grid = true;
  const int n_dims = 1 + static_cast<int>(mix(seed, 1) % 4);
  std::vector<int> dims(z(n_dims)), periods;
  if (n_dims > 1 && mix(seed, 2) % 2) dims[mix(seed, 3) % z(n_dims)] = 1;
  MPI_Dims_create(g_size, n_dims, dims.data());
  for (int d = 0; d < n_dims; d++) {
    periods.push_back(mix(seed, 4, u(d)) % 3 > 0);
    t.name += (d == 0 ? "grid of " : " x ") + std::to_string(dims[z(d)]) + (periods[z(d)] ? " in a ring" : "");
  }
  MPI_Cart_create(MPI_COMM_WORLD, n_dims, dims.data(), periods.data(), 0, &t.comm);
  t.in.resize(z(g_size));
  for (int rank = 0; rank < g_size; rank++) {
    std::vector<int> place(z(n_dims));
    MPI_Cart_coords(t.comm, rank, n_dims, place.data());
    for (int d = 0; d < n_dims; d++) {
      for (int step : {-1, 1}) {
        std::vector<int> other = place;
        other[z(d)] += step;
        const bool inside = other[z(d)] >= 0 && other[z(d)] < dims[z(d)];
        int there = -1;
        if (inside || periods[z(d)]) MPI_Cart_rank(t.comm, other.data(), &there);
        t.in[z(rank)].push_back({there, 2 * d + (step < 0)});  // what it sends in the other direction
      }
    }
  }
  t.out = t.in;
  return t;
}

Topology make_graph(uint64_t seed) {
  Topology t;
  t.name = "graph";
  t.out.resize(z(g_size));
  for (int a = 0; a < g_size; a++)
    for (int b = a; b < g_size; b++)
      for (uint64_t i = mix(seed, u(a), u(b)) % 3; i > 0; i--) {
        t.out[z(a)].push_back({b, 0});
        if (b != a) t.out[z(b)].push_back({a, 0});
      }
  std::vector<int> ends, edges;
  for (int r = 0; r < g_size; r++) {
    shuffle(t.out[z(r)], mix(seed, 5, u(r)));
    const std::vector<int> ranks = ranks_of(t.out[z(r)]);
    edges.insert(edges.end(), ranks.begin(), ranks.end());
    ends.push_back(static_cast<int>(edges.size()));
  }
  edges.push_back(0);  // never none at all
  t.in = t.out;
  match(t);
  MPI_Graph_create(MPI_COMM_WORLD, g_size, ends.data(), edges.data(), 0, &t.comm);
  return t;
}

Topology make_distributed_graph(uint64_t seed) {
  Topology t;
  t.name = "distributed graph";
  t.in.resize(z(g_size));
  t.out.resize(z(g_size));
  for (int a = 0; a < g_size; a++)
    for (int b = 0; b < g_size; b++)
      for (uint64_t i = mix(seed, u(a), u(b)) % 4; i > 1; i--) {
        t.out[z(a)].push_back({b, 0});
        t.in[z(b)].push_back({a, 0});
      }
  for (int r = 0; r < g_size; r++) {
    shuffle(t.in[z(r)], mix(seed, 6, u(r)));
    shuffle(t.out[z(r)], mix(seed, 7, u(r)));
  }
  match(t);
  std::vector<int> in = ranks_of(t.in[z(g_rank)]), out = ranks_of(t.out[z(g_rank)]);
  const int n_in = static_cast<int>(in.size()), n_out = static_cast<int>(out.size());
  in.push_back(0);
  out.push_back(0);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n_in, in.data(), MPI_UNWEIGHTED, n_out, out.data(), MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &t.comm);
  return t;
}

// ---- a case ----

enum class Function { allgather, allgatherv, alltoall, alltoallv, alltoallw, end };
const char* const kNames[] = {"allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"};

// An element of two ints, next to each other or with a gap.
struct Element {
  MPI_Datatype type;
  int extent, second;  // bytes
};

class Case {
 public:
  Case(uint64_t seed, const Topology& topology, const Element* elements) : seed_(seed), topology_(topology) {
    function_ = static_cast<Function>(draw(1) % u(static_cast<int>(Function::end)));
    const int sizes[] = {0, 1, 3, 17, 300, 3000};
    most_ = sizes[draw(2) % 6];
    memory_ = static_cast<int>(draw(3) % 4);
    sent_ = elements[draw(4) % 3 == 0];
    received_ = elements[draw(5) % 3 == 0];
    // Open MPI's own nonblocking ones confuse the two directions of a ring of two ranks.
    form_ = kForms[draw(11) % 3];
    if (form_ != Form::blocking && on_device().least == 0) form_ = Form::blocking;
  }
  void run() const;

 private:
  uint64_t draw(uint64_t what, int a = 0, int b = 0) const { return mix(mix(seed_, what), u(a), u(b)); }
  std::string name() const {
    return "case " + std::to_string(seed_) + ": " + name_of(form_) + "neighbor_" + kNames[static_cast<int>(function_)] +
           " of up to " + std::to_string(most_) + " on a " + topology_.name;
  }
  bool gathers() const { return function_ <= Function::allgatherv; }
  bool varies() const { return function_ != Function::allgather && function_ != Function::alltoall; }

  // Elements that a rank sends by a block, and that it receives into one.
  int sent_by(int rank, int block) const {
    if (!varies()) return most_;
    return static_cast<int>(draw(6, rank, gathers() ? 0 : block) % u(most_ + 1));
  }
  int received_by(int rank, int block) const {
    const End from = topology_.in[z(rank)][z(block)];
    return from.rank < 0 ? most_ : varies() ? sent_by(from.rank, from.block) : most_;
  }
  // Where a block begins, in elements: of the v-variants in another order, with gaps.
  int place(int block, size_t n) const {
    return varies() ? (most_ + 1) * static_cast<int>((z(block) * 5 + 2) % (n % 5 ? n : n + 1)) : most_ * block;
  }
  Where where(int rank) const { return memory_ > 0 || draw(7, rank) % 4 ? Where::device : Where::host; }
  int value(int rank, int block, int i) const { return static_cast<int>(draw(8, rank, block * 10000 + i)); }
  bool has_bytes(int rank) const;
  std::vector<int> joined_to(int rank) const;
  bool takes_part(const std::vector<int>& joined, int rank) const;
  struct Runs {
    uint64_t least, most;
  };
  Runs on_device() const;
  std::vector<int> send_image() const;
  void expect(std::vector<int>& image) const;
  int call(const void* send, void* recv, Form form) const;
  void run_in(Where where, Form form, const std::vector<int>& send, const std::vector<int>& before,
              const std::vector<int>& after) const;

  uint64_t seed_;
  const Topology& topology_;
  Function function_;
  int most_, memory_;
  Element sent_, received_;
  Form form_ = Form::blocking;
};

bool Case::has_bytes(int rank) const {
  const std::vector<End>&in = topology_.in[z(rank)], &out = topology_.out[z(rank)];
  bool any = false;
  for (size_t b = 0; b < out.size(); b++) any |= out[b].rank >= 0 && sent_by(rank, static_cast<int>(b)) > 0;
  for (size_t b = 0; b < in.size(); b++) any |= in[b].rank >= 0 && received_by(rank, static_cast<int>(b)) > 0;
  return any;
}

// The ranks that edges join to this one, directly or by way of others.
std::vector<int> Case::joined_to(int rank) const {
  std::vector<int> joined = {rank};
  for (size_t i = 0; i < joined.size(); i++)
    for (const auto* ends : {&topology_.in[z(joined[i])], &topology_.out[z(joined[i])]})
      for (const End& end : *ends)
        if (end.rank >= 0 && std::find(joined.begin(), joined.end(), end.rank) == joined.end())
          joined.push_back(end.rank);
  return joined;
}

// Equal blocks in a graph are a matter of those that are joined.
bool Case::takes_part(const std::vector<int>& joined, int rank) const {
  const bool all = varies() || topology_.grid || form_ != Form::blocking;
  return all || std::find(joined.begin(), joined.end(), rank) != joined.end();
}

// How often it runs on the device: ranks with host memory may have learned to wait for the others.
Case::Runs Case::on_device() const {
  Runs runs = {0, 0};
  if (!varies() && most_ == 0) return runs;  // without elements it ends in MPI itself
  const std::vector<int> joined = joined_to(g_rank);
  bool all = true, everybody = true;
  if (!takes_part({}, g_rank) && topology_.in[z(g_rank)].empty() && topology_.out[z(g_rank)].empty()) return runs;
  for (int r = 0; r < g_size; r++) {
    everybody = everybody && takes_part(joined, r);
    if (!has_bytes(r) || !takes_part(joined, r)) continue;
    if (where(r) == Where::device) runs.most = 1;
    all = all && where(r) == Where::device;
  }
  if (all && (everybody || topology_.used)) runs.least = runs.most;
  return runs;
}

int* at(std::vector<int>& image, const Element& element, int index, bool second) {
  return &image[z((index * element.extent + (second ? element.second : 0)) / 4)];
}

std::vector<int> Case::send_image() const {
  const size_t n = gathers() ? 1 : topology_.out[z(g_rank)].size();
  std::vector<int> image((n + 1) * z((most_ + 1) * sent_.extent / 4 + 4));
  for (size_t i = 0; i < image.size(); i++) image[i] = static_cast<int>(draw(9, static_cast<int>(i)));
  for (int b = 0; b < static_cast<int>(n); b++)
    for (int i = 0; i < 2 * sent_by(g_rank, b); i++)
      *at(image, sent_, (gathers() ? 0 : place(b, n)) + i / 2, i % 2) = value(g_rank, b, i);
  return image;
}

void Case::expect(std::vector<int>& image) const {
  const std::vector<End>& in = topology_.in[z(g_rank)];
  for (int b = 0; b < static_cast<int>(in.size()); b++) {
    const End from = in[z(b)];
    if (from.rank < 0) continue;
    for (int i = 0; i < 2 * received_by(g_rank, b); i++)
      *at(image, received_, place(b, in.size()) + i / 2, i % 2) = value(from.rank, gathers() ? 0 : from.block, i);
  }
}

#define GC_CALL(...) GC_CALL_IN_FORM(form, topology_.comm, __VA_ARGS__)

int Case::call(const void* send, void* recv, Form form) const {
  const size_t n_out = topology_.out[z(g_rank)].size(), n_in = topology_.in[z(g_rank)].size();
  std::vector<int> scounts, splaces, rcounts, rplaces;
  std::vector<MPI_Aint> sbytes, rbytes;
  const std::vector<MPI_Datatype> stypes(n_out + 1, sent_.type), rtypes(n_in + 1, received_.type);
  for (int b = 0; b < static_cast<int>(n_out); b++) {
    scounts.push_back(sent_by(g_rank, b));
    splaces.push_back(place(b, n_out));
    sbytes.push_back(splaces.back() * sent_.extent);
  }
  for (int b = 0; b < static_cast<int>(n_in); b++) {
    rcounts.push_back(received_by(g_rank, b));
    rplaces.push_back(place(b, n_in));
    rbytes.push_back(rplaces.back() * received_.extent);
  }
  for (std::vector<int>* list : {&scounts, &splaces, &rcounts, &rplaces}) list->push_back(0);  // never NULL
  sbytes.push_back(0);
  rbytes.push_back(0);
  const MPI_Datatype st = sent_.type, rt = received_.type;
  const int count = n_in + n_out == 0 ? 0 : most_;  // nobody will compare it
  MPI_Request request = MPI_REQUEST_NULL;
  switch (function_) {
    case Function::allgather: return GC_CALL(Neighbor_allgather, neighbor_allgather, send, count, st, recv, count, rt);
    case Function::allgatherv:
      return GC_CALL(Neighbor_allgatherv, neighbor_allgatherv, send, sent_by(g_rank, 0), st, recv, rcounts.data(),
                     rplaces.data(), rt);
    case Function::alltoall: return GC_CALL(Neighbor_alltoall, neighbor_alltoall, send, count, st, recv, count, rt);
    case Function::alltoallv:
      return GC_CALL(Neighbor_alltoallv, neighbor_alltoallv, send, scounts.data(), splaces.data(), st, recv,
                     rcounts.data(), rplaces.data(), rt);
    default:
      return GC_CALL(Neighbor_alltoallw, neighbor_alltoallw, send, scounts.data(), sbytes.data(), stypes.data(), recv,
                     rcounts.data(), rbytes.data(), rtypes.data());
  }
}

uint64_t runs() { return gpucoll_abi(GC_ABI_VERSION)->runs(); }
bool g_shared_gpu = false;

void Case::run_in(Where where, Form form, const std::vector<int>& send, const std::vector<int>& before,
                  const std::vector<int>& after) const {
  Memory input(where, send.size() * sizeof(int)), output(where, before.size() * sizeof(int));
  input.write(send.data());
  output.write(before.data());
  const int rc = call(input.at(0), output.at(0), form);
  if (!checked(rc == MPI_SUCCESS)) fail("%s: error %d", name().c_str(), rc);
  std::vector<int> sent(send.size()), got(before.size());
  input.read(sent.data());
  output.read(got.data());
  if (!checked(sent == send)) fail("%s in %s memory: the send buffer has changed", name().c_str(), name_of(where));
  if (checked(got == after)) return;
  const auto wrong = std::mismatch(got.begin(), got.end(), after.begin()).first - got.begin();
  fail("%s in %s memory: differs from int %td of %zu on", name().c_str(), name_of(where), wrong, got.size());
}

void Case::run() const {
  const std::vector<int> send = send_image();
  std::vector<int> before((topology_.in[z(g_rank)].size() + 2) * z((most_ + 1) * received_.extent / 4 + 4));
  for (size_t i = 0; i < before.size(); i++) before[i] = static_cast<int>(draw(10, static_cast<int>(i)));
  std::vector<int> after = before;
  expect(after);
  run_in(Where::host, Form::blocking, send, before, after);
  const uint64_t ran = runs();
  run_in(where(g_rank), form_, send, before, after);
  const uint64_t times = runs() - ran;
  // Whether MPI itself ends a call without elements depends on its form.
  if (g_shared_gpu || (form_ != Form::blocking && most_ == 0)) return;
  if (!checked(times >= on_device().least && times <= on_device().most))
    fail("%s: ran %d times on the device", name().c_str(), static_cast<int>(times));
}

void use(Topology& t) {
  Memory word(Where::device, sizeof(int));
  MPI_Allreduce(MPI_IN_PLACE, word.at(0), 1, MPI_INT, MPI_MAX, t.comm);
  t.used = true;
}

void run_topology(uint64_t seed, int cases, const Element* elements) {
  Topology t = seed % 3 == 0 ? make_grid(seed) : seed % 3 == 1 ? make_graph(seed) : make_distributed_graph(seed);
  if (mix(seed, 8) % 4) use(t);
  for (int i = 0; i < cases; i++) Case(mix(seed, 100, u(i)), t, elements).run();
  MPI_Comm_free(&t.comm);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  const int cases = argc > 1 ? std::atoi(argv[1]) : 60;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 3000;
  const char* kind = "";
  int devices = 0;
  need(gpucollDeviceKind(&kind), "gpucollDeviceKind");
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  need(gpucollSetDevice(g_rank % devices), "gpucollSetDevice");
  g_shared_gpu = g_size > devices && std::string(kind) == "cuda";
  Memory first_use(Where::device, 1);  // before it, a rank that is left out takes it that there are no devices
  Element elements[2] = {{MPI_DATATYPE_NULL, 8, 4}, {MPI_DATATYPE_NULL, 12, 8}};
  MPI_Type_contiguous(2, MPI_INT, &elements[0].type);
  MPI_Type_vector(2, 1, 2, MPI_INT, &elements[1].type);
  for (Element& element : elements) MPI_Type_commit(&element.type);
  for (int i = 0; i < cases; i++) run_topology(first + u(i), 6, elements);
  for (Element& element : elements) MPI_Type_free(&element.type);
  return mpi.finish("neighbors");
}
