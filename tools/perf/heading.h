// What holds for all rows of a run: who runs where, with what.
//
// Plain data.
#pragma once
#include <string>
#include <vector>

namespace gpucoll::perf {

// Where a rank runs. Plain bytes: ranks send it to rank 0.
struct Place {
  char host[64];
  char device[64];  // its name
  int index;
};

struct Heading {
  std::string version, mpi;
  std::string device_kind;    // "cuda" or "emu"
  std::vector<Place> places;  // complete on rank 0
  int own_index = 0;          // this rank's device
  std::string baseline;       // description; "" for none
  std::string baseline_name;
  std::string computing;  // what --overlap computes; "" for none
};

}  // namespace gpucoll::perf
