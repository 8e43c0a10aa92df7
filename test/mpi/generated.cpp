// Every collective of MPI in every form, drawn from a seed that all ranks share: types of every kind, predefined and
// the user's operations, in place, memory of either kind differing between ranks and sides, all kinds of communicators,
// several calls outstanding and completed in any order. What must come out is worked out here from the definitions, not
// by calling MPI. A failing case is printed with the words that repeat it.
//
// usage: generated [--seed S] [--cases N] [--memory host|device] [--form blocking|nonblocking|persistent] [--single]
//     [--verbose]
#include <unistd.h>

#include <numeric>

#include "abi/abi.h"
#include "generated_move_calls.h"
#include "generated_reductions.h"

namespace {
using namespace generated;

struct Options {
  uint64_t seed = 1;
  int cases = 300;
  std::string form;
  bool single = false, strict = false, verbose = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--single") options.single = true;
    if (word == "--strict") options.strict = true;
    if (word == "--verbose") options.verbose = true;
    if (word == "--single" || word == "--strict" || word == "--verbose") continue;
    i++;
    if (word == "--seed") options.seed = std::strtoull(value.c_str(), nullptr, 0);
    if (word == "--cases") options.cases = std::atoi(value.c_str());
    if (word == "--memory") g_memory = value;
    if (word == "--form") options.form = value;
  }
  return options;
}

class Barrier : public Case {
 public:
  using Case::Case;
  void check() override {}

 private:
  std::string words() const override { return "barrier"; }
  void fill() override {}
  int call() override {
    if (form_ == Form::blocking) return MPI_Barrier(group_.comm);
    if (form_ == Form::nonblocking) return MPI_Ibarrier(group_.comm, &request);
    return GC_INIT(Barrier)(group_.comm, MPI_INFO_NULL, &request);
  }
};

// What all rounds share.
struct World {
  Options options;
  std::vector<Base> types;
  Operations operations;
  Groups groups;
  MPI_Comm aside = MPI_COMM_NULL;  // for the test itself
  int not_ours = 0;
};

std::unique_ptr<Case> draw_case(World& world, Random& random) {
  const Group& group = world.groups.all[random.next() % world.groups.all.size()];
  const uint64_t seed = random.next();
  const int kind = random.below(20);
  Form form = kForms[random.below(3)];
  for (Form f : kForms)
    if (!world.options.form.empty() && (name_of(f) == world.options.form + " " || world.options.form == "blocking"))
      form = world.options.form == "blocking" ? Form::blocking : f;
  if (group.comm == MPI_COMM_NULL) return nullptr;
  if (kind == 0) return std::make_unique<Barrier>(seed, group, form);
  if (kind < 8) return std::make_unique<Reduce>(seed, group, form, world.operations.all);
  return std::make_unique<Move>(seed, group, form, world.types);
}

// Completes all requests, in an order that differs from rank to rank.
void complete(std::vector<MPI_Request>& requests, Random& random) {
  const int n = static_cast<int>(requests.size());
  std::vector<int> order(requests.size()), done(requests.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.next() % (i + 1)]);
  int rc = MPI_SUCCESS, index = 0, count = 0;
  switch (random.below(5)) {
    case 0: rc = MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE); break;
    case 1:
      for (index = 0; index != MPI_UNDEFINED && rc == MPI_SUCCESS;)
        rc = MPI_Waitany(n, requests.data(), &index, MPI_STATUS_IGNORE);
      break;
    case 2:
      while (count != MPI_UNDEFINED && rc == MPI_SUCCESS)
        rc = MPI_Testsome(n, requests.data(), &count, done.data(), MPI_STATUSES_IGNORE);
      break;
    case 3:
      for (int i : order)
        for (int flag = 0; !flag && rc == MPI_SUCCESS;) rc = MPI_Test(&requests[u(i)], &flag, MPI_STATUS_IGNORE);
      break;
    default:
      for (int i : order) rc = std::max(rc, MPI_Wait(&requests[u(i)], MPI_STATUS_IGNORE));
  }
  if (!checked(rc == MPI_SUCCESS)) note("a completion: error " + std::to_string(rc));
}

void complete(const std::vector<std::unique_ptr<Case>>& cases, Random& random) {
  std::vector<MPI_Request> requests;
  for (const auto& c : cases) requests.push_back(c->request);
  complete(requests, random);
  for (size_t i = 0; i < cases.size(); i++) cases[i]->request = requests[i];
}

void rest(Random& random) {
  if (random.one_in(24)) usleep(static_cast<useconds_t>(random.below(800)));
}

void say(uint64_t seed, const Case& next) {
  std::printf("rank %d: %llu: %s\n", g_rank, static_cast<unsigned long long>(seed), next.name().c_str());
  std::fflush(stdout);
}

// Some calls one after another, some of them outstanding together; then the persistent ones again, with other data.
void round(World& world, uint64_t seed) {
  Random ours(seed), mine(mix(seed, 99, u(g_rank)));
  static const std::vector<int> sizes = {1, 1, 2, 3, 5};
  std::vector<std::unique_ptr<Case>> cases;
  for (int n = world.options.single ? 1 : ours.of(sizes); n > 0; n--) {
    auto next = draw_case(world, ours);
    if (!next) continue;
    if (world.options.verbose) say(seed, *next);
    rest(mine);
    next->begin();
    if (next->form() == Form::persistent) MPI_Start(&next->request);
    cases.push_back(std::move(next));
  }
  complete(cases, mine);
  std::vector<std::unique_ptr<Case>> again;
  for (auto& c : cases) {
    c->check();
    if (c->form() == Form::persistent) again.push_back(std::move(c));
  }
  cases.clear();
  for (auto& c : again) c->refill();
  for (auto& c : again) MPI_Start(&c->request);
  complete(again, mine);
  for (auto& c : again) c->check();
}

// Whether a rank has noted something. Their notes are forgotten.
bool anyone_noted(const World& world) {
  int mine = !g_notes.empty(), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, world.aside);
  g_notes.clear();
  return all != 0;
}

void repeat_by(uint64_t seed, const Options& options) {
  std::printf("rank %d: repeat by --seed %llu --cases 1%s%s%s%s%s\n", g_rank, static_cast<unsigned long long>(seed),
              options.single ? " --single" : "", g_memory.empty() ? "" : " --memory ", g_memory.c_str(),
              options.form.empty() ? "" : " --form ", options.form.c_str());
  std::fflush(stdout);
}

// Open MPI's own collectives are not all right: what fails in the same way with host memory everywhere is not ours.
void judged_round(World& world, uint64_t seed) {
  round(world, seed);
  const std::vector<std::string> notes = g_notes;
  if (!anyone_noted(world)) return;
  const std::string memory = g_memory;
  g_memory = "host";
  round(world, seed);
  g_memory = memory;
  const bool not_ours = anyone_noted(world) && !world.options.strict;
  world.not_ours += not_ours;
  for (const std::string& text : notes) {
    if (not_ours && world.options.verbose) std::printf("as with host memory: %s\n", text.c_str());
    if (!not_ours) fail("%s", text.c_str());
  }
  if (!not_ours && !notes.empty()) repeat_by(seed, world.options);
}

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(argc, argv);
  use_own_device();
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (g_memory != "host") Memory first_use(Where::device, 1);
  {
    World world{parse(argc, argv), bases(), {}, {}};
    MPI_Comm_dup(MPI_COMM_WORLD, &world.aside);
    for (int i = 0; i < world.options.cases; i++) judged_round(world, world.options.seed + u(i));
    const uint64_t runs = gpucoll_abi(GC_ABI_VERSION)->runs();
    if (g_rank == 0)
      std::printf("generated: %llu calls on the device, %d rounds that MPI fails with host memory as well\n",
                  static_cast<unsigned long long>(runs), world.not_ours);
    MPI_Comm_free(&world.aside);
  }
  return mpi.finish("generated");
}
