// Collectives of a group that only move data: messages between leaders, and copies within a device.
#include "coll/shared_gpu/merge.h"

namespace gpucoll::coll {

using core::CollectiveTask;
using proto::Function;

void Merge::broadcast(size_t c) {
  const CollectiveTask& its = task(c);
  const int root = static_cast<int>(its.root), group = group_of(root);
  uint8_t* const here = ends(c, is_mine(root) ? place_of(root) : 0).recv;
  const uint64_t bytes = its.count * its.element_bytes;
  if (groups_.size() > 1) add_task(its, Function::broadcast, here, here, its.count, group);
  for (size_t i = 0; i < size(); ++i) spread(ends(c, i).recv, here, bytes);
}

// The leader gets all blocks, and the members copy its memory: but for a few blocks of members alone, which they copy
// from each other at once.
void Merge::all_gather(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  const auto block = [&](uint8_t* all, int rank) { return all + static_cast<uint64_t>(rank) * bytes; };
  if (groups_.size() == 1 && size() * size() <= proto::kPackItems) {
    for (size_t to = 0; to < size(); ++to)
      for (size_t i = 0; i < size(); ++i) spread(block(ends(c, to).recv, members_[i]), ends(c, i).send, bytes);
    return;
  }
  uint8_t* const all = ends(c, 0).recv;
  const int here = members_[0];
  for (size_t i = 0; i < size(); ++i) {
    uint8_t* const own = ends(c, i).send;
    for (int leader : groups_.leaders())
      if (leader != here || own != block(all, members_[i])) sends(members_[i], leader, own, bytes);
  }
  for (int r = 0; r < n_ranks(); ++r)
    if (!is_mine(r) || ends(c, place_of(r)).send != block(all, r)) receives(r, here, block(all, r), bytes);
  for (size_t i = 1; i < size(); ++i) spread(ends(c, i).recv, all, static_cast<uint64_t>(n_ranks()) * bytes);
}

void Merge::all_to_all(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  for (size_t i = 0; i < size(); ++i)
    for (int r = 0; r < n_ranks(); ++r) {
      sends(members_[i], r, ends(c, i).send + static_cast<uint64_t>(r) * bytes, bytes);
      receives(r, members_[i], ends(c, i).recv + static_cast<uint64_t>(r) * bytes, bytes);
    }
}

// In place, the root's own block is where it belongs.
void Merge::gather(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  const int root = static_cast<int>(task(c).root);
  uint8_t* const all = is_mine(root) ? ends(c, place_of(root)).recv : nullptr;
  const auto block = [&](int rank) { return all + static_cast<uint64_t>(rank) * bytes; };
  const auto stays = [&](int rank) { return rank == root && ends(c, place_of(root)).send == block(root); };
  for (size_t i = 0; i < size(); ++i)
    if (!stays(members_[i])) sends(members_[i], root, ends(c, i).send, bytes);
  for (int r = 0; all && r < n_ranks(); ++r)
    if (!stays(r)) receives(r, root, block(r), bytes);
}

void Merge::scatter(size_t c) {
  const uint64_t bytes = task(c).count * task(c).element_bytes;
  const int root = static_cast<int>(task(c).root);
  uint8_t* const all = is_mine(root) ? ends(c, place_of(root)).send : nullptr;
  const auto block = [&](int rank) { return all + static_cast<uint64_t>(rank) * bytes; };
  const auto stays = [&](int rank) { return rank == root && ends(c, place_of(root)).recv == block(root); };
  for (int r = 0; all && r < n_ranks(); ++r)
    if (!stays(r)) sends(root, r, block(r), bytes);
  for (size_t i = 0; i < size(); ++i)
    if (!stays(members_[i])) receives(root, members_[i], ends(c, i).recv, bytes);
}

}  // namespace gpucoll::coll
