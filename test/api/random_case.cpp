#include "random_case.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "gpucoll/gpucoll.h"
#include "reference.h"

namespace gpucoll_test {
namespace {

constexpr const char* kNames[] = {"all_reduce",     "reduce",  "broadcast",  "bcast",        "all_gather",
                                  "reduce_scatter", "message", "all_to_all", "all_to_all_v", "gather",
                                  "gather_v",       "scatter", "scatter_v",  "barrier"};
static_assert(sizeof kNames / sizeof kNames[0] == kKinds);

using Random = std::mt19937_64;

int below(Random& random, int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); }
bool chance(Random& random, int percent) { return below(random, 100) < percent; }

// Bytes of a part: mostly few, sometimes none, now and then very many.
size_t draw_bytes(Random& random, size_t most) {
  const int kind = below(random, 100);
  if (kind < 8) return 0;
  const size_t limit = kind < 45 ? 200 : kind < 75 ? 8 << 10 : kind < 96 ? 128 << 10 : most;
  return 1 + random() % std::max<size_t>(1, std::min(limit, most));
}

bool has_variable_parts(Kind kind) {
  return kind == Kind::all_to_all_v || kind == Kind::gather_v || kind == Kind::scatter_v;
}

// Parts of random sizes in random order, with gaps: displacements of the parts of one rank.
void draw_displs(Random& random, Call* call, int n, int rank, bool sends) {
  std::vector<int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  size_t next = 0;
  for (int other : order) {
    const auto place = static_cast<size_t>(sends ? rank * n + other : other * n + rank);
    next += chance(random, 30) ? random() % 5 : 0;
    (sends ? call->send_displs : call->recv_displs)[place] = next;
    next += call->counts[place];
  }
}

void draw_parts(Random& random, Call* call, int n, size_t most) {
  const auto cells = static_cast<size_t>(n) * static_cast<size_t>(n);
  call->counts.resize(cells);
  call->send_displs.assign(cells, 0);
  call->recv_displs.assign(cells, 0);
  for (size_t& count : call->counts)
    count =
        draw_bytes(random, most / static_cast<size_t>(n)) / gpucollTypeSize(static_cast<gpucollDataType_t>(call->type));
  for (int rank = 0; rank < n; ++rank) {
    if (call->kind != Kind::gather_v) draw_displs(random, call, n, rank, true);
    if (call->kind != Kind::scatter_v) draw_displs(random, call, n, rank, false);
  }
}

void draw_type(Random& random, Call* call) {
  call->type = below(random, gpucollNumTypes);
  if (!reduces(call->kind)) return;
  do {
    call->type = below(random, gpucollNumTypes);
    call->op = below(random, kOps);
  } while (!has_meaning(call->type, call->op));
}

Kind draw_kind(Random& random, bool grouped) {
  if (grouped && chance(random, 30)) return Kind::message;
  return static_cast<Kind>(below(random, kKinds));
}

Call draw_call(Random& random, const Case& c, bool grouped, const Limits& limits) {
  Call call;
  call.kind = draw_kind(random, grouped);
  call.comm = below(random, static_cast<int>(c.comms.size()));
  call.stream = below(random, c.n_streams);
  call.seed = random();
  draw_type(random, &call);
  const int n = static_cast<int>(c.comms[static_cast<size_t>(call.comm)].members.size());
  const bool all_parts = call.kind == Kind::all_gather || call.kind == Kind::reduce_scatter ||
                         call.kind == Kind::all_to_all || call.kind == Kind::gather || call.kind == Kind::scatter;
  const size_t most = all_parts ? limits.max_bytes / static_cast<size_t>(n) : limits.max_bytes;
  call.count = draw_bytes(random, most) / gpucollTypeSize(static_cast<gpucollDataType_t>(call.type));
  call.root = below(random, n);
  call.peer = below(random, n);
  if (!grouped && call.kind == Kind::message && call.peer == call.root) call.kind = Kind::barrier;
  call.in_place = chance(random, 40);
  call.device_scalar = chance(random, 50);
  if (has_variable_parts(call.kind)) draw_parts(random, &call, n, limits.max_bytes);
  return call;
}

void draw_split(Random& random, Case* c) {
  Split split;
  const bool the_same_ranks = chance(random, 40);  // which may share
  const int n_colors = the_same_ranks ? 1 : 1 + below(random, 3);
  for (int r = 0; r < c->n_ranks; ++r) {
    const bool leaves = !the_same_ranks && chance(random, 10);
    split.colors.push_back(leaves ? GPUCOLL_SPLIT_NOCOLOR : below(random, n_colors));
    split.keys.push_back(the_same_ranks ? r : below(random, 5) - 2);
  }
  for (int color = 0; color < n_colors; ++color) {
    Comm comm{{}, static_cast<int>(c->splits.size()), color};
    for (int r = 0; r < c->n_ranks; ++r)
      if (split.colors[static_cast<size_t>(r)] == color) comm.members.push_back(r);
    std::stable_sort(comm.members.begin(), comm.members.end(), [&](int a, int b) {
      return split.keys[static_cast<size_t>(a)] < split.keys[static_cast<size_t>(b)];
    });
    if (!comm.members.empty()) c->comms.push_back(comm);
  }
  c->splits.push_back(split);
}

std::vector<int> all_ranks(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

const char* name(Kind kind) { return kNames[static_cast<size_t>(kind)]; }
bool reduces(Kind kind) { return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter; }

Case draw_case(uint64_t seed, Drive drive, const Limits& limits) {
  Random random(seed * 3 + static_cast<uint64_t>(drive));
  Case c;
  c.seed = seed;
  c.drive = drive;
  c.n_ranks = chance(random, 5) ? 1 : std::min(limits.max_ranks, 2 + below(random, limits.max_ranks - 1));
  c.n_streams = 1 + below(random, 3);
  c.comms.push_back({all_ranks(c.n_ranks)});
  for (int splits = below(random, 3); splits > 0; --splits) draw_split(random, &c);
  for (int groups = 1 + below(random, 5); groups > 0; --groups) {
    Group group;
    group.grouped = chance(random, 75);
    for (int calls = 1 + below(random, group.grouped ? 10 : 3); calls > 0; --calls)
      group.calls.push_back(draw_call(random, c, group.grouped, limits));
    c.groups.push_back(std::move(group));
  }
  lay_out(&c, true);
  return c;
}

std::string text(const Call& call) {
  char line[240];
  std::snprintf(line, sizeof line, "%s of %zu x %s%s%s, communicator %d, stream %d, root %d, peer %d%s%s",
                name(call.kind), call.count, type_name(call.type), reduces(call.kind) ? " " : "",
                reduces(call.kind) ? op_name(call.op) : "", call.comm, call.stream, call.root, call.peer,
                call.in_place ? ", in place" : "", call.fresh ? "" : ", of an earlier output");
  return line;
}

std::string text(const Case& c) {
  constexpr const char* kDrives[] = {"a thread each", "one thread", "a process each"};
  std::string all = "seed " + std::to_string(c.seed) + ", " + std::to_string(c.n_ranks) + " ranks, " +
                    kDrives[static_cast<size_t>(c.drive)] + "\n";
  for (size_t i = 1; i < c.comms.size(); ++i) {
    all += "  communicator " + std::to_string(i) + ": ranks";
    for (int member : c.comms[i].members) all += " " + std::to_string(member);
    all += "\n";
  }
  for (const Group& group : c.groups) {
    all += group.grouped ? "  group\n" : "  calls one by one\n";
    for (const Call& call : group.calls) {
      all += "    " + text(call) + "\n";
      if (call.counts.empty()) continue;
      all += "      counts by sender and receiver:";
      for (size_t count : call.counts) all += " " + std::to_string(count);
      all += "\n";
    }
  }
  return all;
}

}  // namespace gpucoll_test
