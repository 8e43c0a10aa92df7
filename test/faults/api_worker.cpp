// A rank of the C API that calls collectives until one fails, or for ever: the fault driver (faults.py) kills, stops
// and continues some of them. usage: api_worker FOLDER RANK RANKS MODE FAULT SEED
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "gpucoll/gpucoll.h"
#include "worker.h"

namespace {

using faults::Diary;

constexpr size_t kMostBytes = size_t{1} << 20;

struct Worker {
  std::string folder, mode, fault;
  int rank, size;
  std::mt19937 random;  // the same on all ranks
  Diary diary;
  gpucollComm_t comm = nullptr;
  gpucollStream_t stream = nullptr;
  void *in = nullptr, *out = nullptr;
  gpucollGraph_t graph = nullptr;
};

void need(gpucollResult_t result, const char* what) {
  if (result == gpucollSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, gpucollGetLastError(nullptr));
  std::exit(3);
}

// Rank 0 makes the id, the others find it in the folder.
gpucollUniqueId meet(const Worker& w) {
  const std::string path = w.folder + "/id";
  gpucollUniqueId id;
  if (w.rank == 0) {
    need(gpucollGetUniqueId(&id), "gpucollGetUniqueId");
    std::ofstream(path + ".new", std::ios::binary).write(reinterpret_cast<const char*>(&id), sizeof id);
    if (std::rename((path + ".new").c_str(), path.c_str())) std::perror("rename");
    return id;
  }
  for (;;) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(reinterpret_cast<char*>(&id), sizeof id)) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

size_t some_count(Worker& w) {
  constexpr size_t kCounts[] = {1, 25, 1000, 10'000, 60'000, 200'000};
  return kCounts[w.random() % std::size(kCounts)];
}

gpucollResult_t call_collective(Worker& w) {
  const size_t count = some_count(w), part = std::max<size_t>(count / static_cast<size_t>(w.size), 1);
  const int root = static_cast<int>(w.random() % static_cast<unsigned>(w.size));
  switch (w.random() % 4) {
    case 0: return gpucollAllReduce(w.in, w.out, count, gpucollInt32, gpucollSum, w.comm, w.stream);
    case 1: return gpucollBroadcast(w.in, w.out, count, gpucollInt32, root, w.comm, w.stream);
    case 2: return gpucollAllGather(w.in, w.out, part, gpucollInt32, w.comm, w.stream);
    default: return gpucollReduce(w.in, w.out, count, gpucollInt32, gpucollSum, root, w.comm, w.stream);
  }
}

// Messages around the ring beside a collective.
gpucollResult_t call_group(Worker& w) {
  const size_t count = some_count(w);
  const int next = (w.rank + 1) % w.size, before = (w.rank + w.size - 1) % w.size;
  gpucollResult_t result = gpucollGroupStart();
  const auto add = [&](gpucollResult_t one) { result = result == gpucollSuccess ? one : result; };
  add(gpucollSend(w.in, count, gpucollInt32, next, w.comm, w.stream));
  add(gpucollRecv(w.out, count, gpucollInt32, before, w.comm, w.stream));
  add(gpucollAllReduce(w.in, w.in, 25, gpucollInt32, gpucollSum, w.comm, w.stream));
  const gpucollResult_t ended = gpucollGroupEnd();
  return result == gpucollSuccess ? ended : result;
}

gpucollResult_t launch_graph(Worker& w) {
  if (w.graph) return gpucollGraphLaunch(w.graph, w.stream);
  gpucollResult_t result = gpucollStreamBeginCapture(w.stream);
  for (int i = 0; i < 3 && result == gpucollSuccess; ++i) result = call_collective(w);
  if (result != gpucollSuccess) return result;
  result = gpucollStreamEndCapture(w.stream, &w.graph);
  return result == gpucollSuccess ? gpucollGraphLaunch(w.graph, w.stream) : result;
}

gpucollResult_t call_some(Worker& w) {
  gpucollResult_t result = gpucollSuccess;
  const int n = w.mode == "nonblocking" ? 8 : w.mode == "graphs" ? 2 : 1;
  for (int i = 0; i < n && result == gpucollSuccess; ++i)
    result = w.mode == "groups" ? call_group(w) : w.mode == "graphs" ? launch_graph(w) : call_collective(w);
  if (result != gpucollSuccess) return result;
  need(gpucollStreamSynchronize(w.stream), "gpucollStreamSynchronize");
  need(gpucollCommGetAsyncError(w.comm, &result), "gpucollCommGetAsyncError");
  return result;
}

// A fault leaves the process able to go on: with a communicator of its own, and without anything of the old one.
void tell_what_is_left(const Worker& w, const std::multiset<std::string>& before) {
  std::string left;
  for (int look = 0; look < 250; ++look) {  // threads that end may have to wait for a processor
    gpucollComm_t alone = nullptr;
    need(gpucollCommInitAll(&alone, 1, nullptr), "gpucollCommInitAll");
    need(gpucollCommDestroy(alone), "gpucollCommDestroy");
    left = faults::added(before);
    if (left.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  w.diary.tell("left " + left);
}

void end(Worker& w, const std::multiset<std::string>& before) {
  if (w.comm && w.random() % 2)
    gpucollCommDestroy(w.comm);  // whose result is the error once more
  else if (w.comm)
    gpucollCommAbort(w.comm);
  if (w.graph) need(gpucollGraphDestroy(w.graph), "gpucollGraphDestroy");
  need(gpucollStreamDestroy(w.stream), "gpucollStreamDestroy");
  need(gpucollFree(w.in), "gpucollFree");
  need(gpucollFree(w.out), "gpucollFree");
  w.diary.tell("freed");
  // Where the victim lives, what it may write to stays until it has ended.
  if (w.fault == "kill") tell_what_is_left(w, before);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int rank = std::atoi(argv[2]);
  const auto seed = static_cast<unsigned>(std::atoi(argv[6]));
  Worker w = {argv[1], argv[4], argv[5], rank, std::atoi(argv[3]), std::mt19937(seed), Diary(argv[1], rank)};
  faults::cut_on_signal(argv[1], seed / 3 + static_cast<unsigned>(rank));
  int devices = 0;
  need(gpucollDeviceCount(&devices), "gpucollDeviceCount");
  need(gpucollSetDevice(rank % devices), "gpucollSetDevice");
  need(gpucollStreamCreate(&w.stream), "gpucollStreamCreate");
  need(gpucollMalloc(&w.in, kMostBytes), "gpucollMalloc");
  need(gpucollMalloc(&w.out, kMostBytes), "gpucollMalloc");
  auto before = faults::descriptors();
  faults::add_entrance(&before);
  const gpucollUniqueId id = meet(w);
  w.diary.tell("meets");
  gpucollResult_t result = gpucollCommInitRank(&w.comm, w.size, id, rank);
  while (result == gpucollSuccess) {
    result = call_some(w);
    if (result != gpucollSuccess) break;
    w.diary.count_call();
    if (w.diary.calls() == 1) w.diary.tell("runs");
  }
  w.diary.tell("error " + std::to_string(result) + " " + gpucollGetLastError(w.comm));
  end(w, before);
  w.diary.tell("ends");
  return 0;
}
