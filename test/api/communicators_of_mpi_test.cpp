// What the engine keeps for communicators of MPI that never see device memory: programs make thousands of them.
#include <gtest/gtest.h>
#include <malloc.h>

#include <vector>

#include "abi/abi.h"

namespace {

const gc_process_blob* no_peer(void*, int) { return nullptr; }
uint64_t name_of(void*, int rank) { return 77u + static_cast<uint64_t>(rank); }
void no_progress() {}

class CommunicatorsOfMpi : public testing::Test {
 protected:
  static constexpr size_t kMany = 300;

  void SetUp() override {
    ASSERT_NE(nullptr, abi_);
    gc_process_blob mine;
    ASSERT_EQ(0, abi_->process_open(&mine, 0));
  }
  // Some of which have the same ids, one after another.
  gc_comm* make(size_t i) {
    gc_comm_description description = {};
    description.context_id = 5 + i % 200;
    description.size = 3;
    description.rank = 1;
    description.calls = &calls_;
    description.name = "one of many";
    return abi_->comm_new(&description);
  }
  void make_all() {
    for (size_t i = 0; i < kMany; ++i) ASSERT_NE(nullptr, all_.emplace_back(make(i)));
  }
  void free_all() {
    for (gc_comm* comm : all_) abi_->comm_free(comm);
    all_.clear();
  }

  const gc_abi* abi_ = gpucoll_abi(GC_ABI_VERSION);
  const gc_host_calls calls_ = {no_peer, name_of, no_progress};
  std::vector<gc_comm*> all_;
};

TEST_F(CommunicatorsOfMpi, TakeLittleMemory) {
  constexpr size_t kEach = 1100;
  make_all();  // what is made once
  free_all();
  all_.reserve(kMany);
  const size_t before = mallinfo2().uordblks;
  make_all();
  const size_t each = (mallinfo2().uordblks - before) / kMany;
  EXPECT_LT(each, kEach);
  free_all();
}

}  // namespace
