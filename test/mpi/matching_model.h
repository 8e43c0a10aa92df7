// What the ranks of the matching test send and receive, drawn from a seed that all of them share, and MPI's rules of
// matching as a reference: which message each receive must get.
//
// Thread safety: none. Invariants: each message of a round has its receive in the same round, and a send that may wait
// for its receive goes to one that has been posted before.
#pragma once
#include <algorithm>
#include <iterator>
#include <vector>

#include "generated_types.h"

namespace matching {
using generated::Random;
using generated::u;

constexpr int kAny = -1;  // source or tag
constexpr int kTags = 4;

enum class Mode {
  // These wait for a receive that has been posted, and the ready ones need it.
  send,
  ssend,
  rsend,
  irsend,
  rsend_init,
  // These may be sent before.
  isend,
  issend,
  bsend,
  ibsend,
  send_init,
  ssend_init,
  bsend_init,
  freed,  // MPI_Isend, and the request is freed at once
};
inline bool is_buffered(Mode m) { return m == Mode::bsend || m == Mode::ibsend || m == Mode::bsend_init; }
inline bool is_persistent(Mode m) {
  return m == Mode::send_init || m == Mode::ssend_init || m == Mode::bsend_init || m == Mode::rsend_init;
}

enum class Way { irecv, recv_init, recv, probe, iprobe, mprobe, improbe };
constexpr int kEarlyWays = 2, kWays = 7;

// In the order in which their sender sends them.
struct Message {
  int comm, from, to, tag;
  size_t bytes;
  Mode mode = Mode::isend;
};

// In the order in which their rank posts them. Early ones are posted before the rank sends anything.
struct Receive {
  int comm, to, from, tag;
  size_t capacity = 0;
  bool early = false, exact = false;  // exact: its buffer is no longer than the capacity says
  Way way = Way::recv;
};

struct Round {
  std::vector<Message> messages;
  std::vector<Receive> receives;
  bool ready = false;     // the ranks wait for each other between early receives and sends
  bool together = false;  // and at the end
  int turns = 1;          // persistent requests are started as often
};

// ---- the rules ----

// Returns the message that each receive gets, or -1. Messages of one sender do not overtake each other, nor do receives
// of one rank: so of a receive and a message that fit, the first of either always go together, whenever they come.
// REQUIRES: each receive names its source; for one from any source, that is what its status says.
inline std::vector<int> match(const std::vector<Receive>& receives, const std::vector<Message>& messages) {
  std::vector<int> got;
  std::vector<bool> taken(messages.size());
  for (const Receive& r : receives) {
    size_t i = 0;
    const auto fits = [&](const Message& m) {
      return m.comm == r.comm && m.to == r.to && m.from == r.from && (r.tag == kAny || r.tag == m.tag);
    };
    while (i < messages.size() && (taken[i] || !fits(messages[i]))) i++;
    got.push_back(i < messages.size() ? static_cast<int>(i) : -1);
    if (i < messages.size()) taken[i] = true;
  }
  return got;
}

// ---- drawing ----

inline size_t draw_size(Random& random) {
  static const std::vector<size_t> edges = {0, 1, 8, 113, 113, 4096, 4096, 65536};
  if (random.one_in(90)) return (size_t{1} << 20) + static_cast<size_t>(random.below(3)) - 1;
  if (random.one_in(20)) return static_cast<size_t>(random.below(200000));
  if (random.one_in(3)) return static_cast<size_t>(random.below(300));
  const size_t edge = random.of(edges);
  return edge < 2 ? edge : edge + static_cast<size_t>(random.below(3)) - 1;
}

template <class T>
void shuffle(std::vector<T>& all, Random& random) {
  for (size_t i = all.size(); i-- > 1;) std::swap(all[i], all[random.next() % (i + 1)]);
}

// Receives of one rank that name their sources. What gets nothing is left out, and what nobody gets is received last.
inline std::vector<Receive> from_each(const std::vector<Message>& messages, Random& random) {
  std::vector<Receive> wanted, all;
  for (const Message& m : messages) wanted.push_back({m.comm, m.to, m.from, random.one_in(3) ? kAny : m.tag});
  shuffle(wanted, random);
  const std::vector<int> got = match(wanted, messages);
  std::vector<bool> taken(messages.size());
  for (size_t i = 0; i < wanted.size(); i++) {
    if (got[i] < 0) continue;
    taken[static_cast<size_t>(got[i])] = true;
    all.push_back(wanted[i]);
  }
  for (size_t i = 0; i < messages.size(); i++)
    if (!taken[i]) all.push_back({messages[i].comm, messages[i].to, messages[i].from, messages[i].tag});
  return all;
}

// Receives of one rank from any source: those of any tag come last, so that all get a message, whoever comes first.
inline std::vector<Receive> from_any(std::vector<Message> messages, Random& random) {
  std::vector<Receive> all;
  shuffle(messages, random);
  const size_t named = random.next() % (messages.size() + 1);
  for (size_t i = 0; i < messages.size(); i++)
    all.push_back({messages[i].comm, messages[i].to, kAny, i < named ? messages[i].tag : kAny});
  return all;
}

// Whether a receive may have too little room for its message. Open MPI 4.1 does not tell it, with host memory either,
// of messages to itself, and in MPI_Waitall of persistent receives; of long messages it writes beyond the receive's
// buffer.
inline bool may_be_short(const Receive& r, const Message& m) {
  return m.from != m.to && m.bytes > 1 && m.bytes < 1000 && r.way != Way::recv_init;
}

// Room for the message, for more, or, where it is known which one comes, for less.
inline void draw_room(Receive& r, const Message* known, size_t most, Random& random) {
  r.capacity = (known ? known->bytes : most) + static_cast<size_t>(random.one_in(3) ? random.below(200) : 0);
  if (!known || !may_be_short(r, *known) || !random.one_in(10)) return;
  r.exact = true;
  r.capacity = random.one_in(3) ? known->bytes - 1 : 1 + random.next() % (known->bytes - 1);
}

// The messages of one communicator to one rank: how they are received.
inline std::vector<Receive> draw_receives(const std::vector<Message>& messages, Random& random) {
  const bool any = random.one_in(3);
  std::vector<Receive> all = any ? from_any(messages, random) : from_each(messages, random);
  const std::vector<int> got = any ? std::vector<int>(all.size(), -1) : match(all, messages);
  const size_t early = random.one_in(3) ? all.size() : random.next() % (all.size() + 1);
  size_t most = 0;
  for (const Message& m : messages) most = std::max(most, m.bytes);
  for (size_t i = 0; i < all.size(); i++) {
    all[i].early = i < early;
    all[i].way = static_cast<Way>(random.below(all[i].early ? kEarlyWays : kWays));
    draw_room(all[i], any ? nullptr : &messages[static_cast<size_t>(got[i])], most, random);
  }
  return all;
}

inline Mode draw_mode(const Message& m, bool posted, bool ready, Random& random) {
  for (;;) {
    const Mode mode = static_cast<Mode>(random.below(static_cast<int>(Mode::freed) + 1));
    if (mode < Mode::isend && !posted) continue;
    if (mode >= Mode::rsend && mode < Mode::isend && !ready) continue;
    if (is_buffered(mode) && m.bytes > 70000) continue;
    return mode;
  }
}

// Modes for the messages of one communicator to one rank.
inline void draw_modes(std::vector<Message*>& messages, const std::vector<Receive>& receives, bool ready,
                       Random& random) {
  std::vector<Message> values;
  for (const Message* m : messages) values.push_back(*m);
  const std::vector<int> got = match(receives, values);
  std::vector<bool> posted(messages.size(),
                           std::all_of(receives.begin(), receives.end(), [](const Receive& r) { return r.early; }));
  for (size_t i = 0; i < receives.size(); i++)
    if (got[i] >= 0) posted[static_cast<size_t>(got[i])] = receives[i].early;
  for (size_t i = 0; i < messages.size(); i++) messages[i]->mode = draw_mode(*messages[i], posted[i], ready, random);
}

// `may(comm, from, to)` says who can send to whom.
template <class May>
Round draw_round(int comms, int ranks, May&& may, Random& random) {
  Round round;
  round.ready = random.one_in(3);
  round.turns = random.one_in(4) ? 2 : 1;
  for (int n = 1 + random.below(10 * ranks); n > 0; n--) {
    const int comm = random.below(comms), from = random.below(ranks), to = random.below(ranks);
    if (may(comm, from, to)) round.messages.push_back({comm, from, to, random.below(kTags), draw_size(random)});
  }
  for (int comm = 0; comm < comms; comm++) {
    for (int to = 0; to < ranks; to++) {
      std::vector<Message*> messages;
      std::vector<Message> values;
      for (Message& m : round.messages)
        if (m.comm == comm && m.to == to) messages.push_back(&m), values.push_back(m);
      if (messages.empty()) continue;
      const std::vector<Receive> receives = draw_receives(values, random);
      draw_modes(messages, receives, round.ready, random);
      round.receives.insert(round.receives.end(), receives.begin(), receives.end());
    }
  }
  // Whoever goes ahead sends messages of the next round; a receive from any source must not get one.
  round.together = random.one_in(4);
  for (const Receive& r : round.receives) round.together |= r.from == kAny;
  for (const Message& m : round.messages) round.together |= m.mode == Mode::freed;
  return round;
}

}  // namespace matching
