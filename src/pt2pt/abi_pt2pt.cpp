// The table of functions behind the component's point-to-point messages (abi/pt2pt.h).
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "base/mutant.h"
#include "base/observe/causes.h"
#include "base/params.h"
#include "mpi/error_class.h"
#include "mpi/message_causes.h"
#include "pt2pt/offer.h"
#include "pt2pt/pieces.h"
#include "pt2pt/take.h"

namespace gpucoll::pt2pt {
namespace {

using coll::mpi_class;
using State = proto::Offer;

int enabled() { return Outboxes::instance().own() != nullptr; }

int host_reaches(const void* memory) {
  const auto platform = gpu::platform();
  return platform && (*platform)->classify(memory).kind == gpu::MemoryKind::managed;
}

void uses_devices() {
  if (proto::Outbox* own = Outboxes::instance().own()) __atomic_store_n(&own->uses_devices, 1u, __ATOMIC_RELAXED);
}

int test(gc_transfer* transfer) {
  bool ended = true;
  const Code code = guarded("a message", [&]() -> Status {
    GC_TRY_AS(ended, transfer->advance());
    return {};
  });
  transfer->failed = code;
  return code != Code::ok || ended;
}

// Returns why there is no peer behind a blob.
int why_no_peer(const gc_process_blob* to) {
  if (!to) return GC_STAGE_BECAUSE(Cause::message_without_plugin);
  const auto& process = coll::MpiProcess::instance();
  if (process.is_on_other_node(*to)) return GC_STAGE_BECAUSE(Cause::message_between_nodes);
  return GC_STAGE_BECAUSE(process.outbox_of(*to) ? Cause::message_hidden_process : Cause::message_without_plugin);
}

int offer(const gc_process_blob* to, const gc_message_key* key, const gc_message_data* data, gc_send_mode mode,
          gc_envelope* envelope, gc_transfer** transfer) {
  const Peer* const peer = Outboxes::instance().find(to);
  if (!peer) return why_no_peer(to);
  std::unique_ptr<Offer> made;
  auto cause = Cause::none;
  const Code code = guarded("sending", [&]() -> Status {
    auto offer = Offer::make(*peer, *key, *data, mode, &cause);
    if (offer) {
      made = *std::move(offer);
      return {};
    }
    if (offer.status().code() == Code::invalid_argument) return std::move(offer).status();  // nor can the PML carry it
    cause = Cause::message_not_offered;
    coll::note_detail(cause, offer.status().what());
    return {};
  });
  if (code == Code::invalid_argument) return mpi_class(code);
  if (code != Code::ok || !made) return cause == Cause::none ? GC_STAGE : GC_STAGE_BECAUSE(cause);
  made->fill(envelope);
  *transfer = made.release();
  return MPI_SUCCESS;
}

void note(const gc_process_blob* to, const gc_message_key* key) {
  const Peer* const peer = Outboxes::instance().find(to);
  proto::OutboxSlot* const slot = peer ? Outboxes::instance().take_slot(*peer, *key, true) : nullptr;
  if (slot) set_state(*slot, State::offered);
  // Release: the PML gets the message after this.
  if (peer && !slot) __atomic_store_n(&Outboxes::instance().own()->has_unnoted, 1u, __ATOMIC_RELEASE);
}

State state_found(int matched) { return matched ? State::matched : State::offered; }
bool is_found(const proto::OutboxSlot& slot) { return state_of(slot) == State::offered; }
bool is_here(const proto::OutboxSlot& slot) { return is_found(slot) || state_of(slot) == State::matched; }

static_assert(gc_pieces::kWindow == GC_PIECES_WINDOW);
static_assert(proto::kLeastEnvelopeBytes == GC_LEAST_ENVELOPE_BYTES &&
              proto::kEnvelopeMagic[0] == GC_ENVELOPE_MAGIC_0 && proto::kEnvelopeMagic[1] == GC_ENVELOPE_MAGIC_1);

proto::Envelope envelope_in(const gc_envelope& bytes) {
  proto::Envelope envelope;
  std::memcpy(static_cast<void*>(&envelope), bytes.bytes, sizeof bytes.bytes);
  return envelope;
}

// Returns the slot that the beginning of an envelope names; null where it is none of this peer's.
proto::OutboxSlot* slot_of(const Peer& peer, const proto::Envelope& envelope) {
  proto::Outbox& outbox = peer.outbox();
  if (std::memcmp(envelope.secret, outbox.nonce, sizeof envelope.secret)) return nullptr;
  proto::OutboxSlot& slot = outbox.slot[envelope.slot];
  return is_here(slot) && slot.to == Outboxes::instance().own_id() && !slot.plain ? &slot : nullptr;
}

// Returns whether what names the slot is an envelope of `n` bytes, which came under this key.
bool fits(const Peer& peer, const proto::OutboxSlot& slot, const proto::Envelope& envelope, const gc_message_key& key,
          size_t n) {
  if (slot.context != key.context || slot.tag != key.tag) return false;
  if (n < proto::kEnvelopeBytes) return slot.bytes == n;
  return envelope.serial == slot.serial && std::memcmp(envelope.nonce, peer.outbox().nonce, sizeof envelope.nonce) == 0;
}

int is_envelope(const gc_process_blob* from, const gc_message_key* key, const gc_envelope* bytes, size_t n) {
  const proto::Envelope envelope = envelope_in(*bytes);
  if (std::memcmp(envelope.magic, proto::kEnvelopeMagic, sizeof envelope.magic)) return 0;
  const Peer* const peer = Outboxes::instance().find(from);
  if (peer) {
    const proto::OutboxSlot* const slot = slot_of(*peer, envelope);
    return slot && fits(*peer, *slot, envelope, *key, n);
  }
  if (!from || !coll::MpiProcess::instance().is_secret_of(*from, envelope.secret)) return 0;
  log::write(
      log::Level::error,
      "this process cannot look into a process that sends it device memory (see `verbose` 1 for the reason): set "
      "the parameter pt2pt_direct_bytes to off");
  return -1;
}

int take(const gc_process_blob* from, const gc_envelope* envelope, const gc_message_data* target, size_t* bytes,
         gc_transfer** transfer) {
  return mpi_class(guarded("receiving", [&]() -> Status {
    const Peer* const peer = Outboxes::instance().find(from);
    proto::OutboxSlot* const slot = peer ? slot_of(*peer, envelope_in(*envelope)) : nullptr;
    if (!slot) return Status::error(Code::internal, "an envelope names no message");
    *bytes = slot->bytes;
    *transfer = new Take(*peer, *slot, *target);
    (void)test(*transfer);  // so that its copy is in the next launch
    return {};
  }));
}

void noted_came(const gc_process_blob* from, const gc_message_key* key, int matched) {
  const Peer* const peer = Outboxes::instance().find(from);
  if (!peer) return;
  const auto plain = [&](const proto::OutboxSlot& slot) {
    return slot.plain && state_of(slot) == state_found(matched);
  };
  (void)Outboxes::instance().lead_on(*peer, *key, plain, [](const proto::OutboxSlot&) { return State::free; });
}

// Returns whether the PML has kEnvelopeBytes of a message: a smaller one has an envelope of its own size.
bool has_size_of_envelope(const proto::OutboxSlot& slot) { return slot.plain || slot.bytes >= proto::kEnvelopeBytes; }

// Ends the message of a small envelope, of which fewer bytes have come than tell one for certain. It names its slot all
// the same, and nobody but its receiver has to do with that; where not even its slot has come, the slot stays taken.
void cut_off_small(const Peer& peer, const gc_message_key& key, const proto::Envelope& envelope, size_t n,
                   size_t size) {
  constexpr size_t kNamed = offsetof(proto::Envelope, secret);
  proto::Outbox& outbox = peer.outbox();
  if (n < kNamed || std::memcmp(envelope.magic, proto::kEnvelopeMagic, sizeof envelope.magic)) return;
  if (std::memcmp(envelope.secret, outbox.nonce, std::min(n - kNamed, sizeof envelope.secret))) return;
  proto::OutboxSlot& slot = outbox.slot[envelope.slot];
  if (!is_here(slot) || slot.plain || slot.to != Outboxes::instance().own_id()) return;
  if (fits(peer, slot, envelope, key, size)) (void)Outboxes::instance().end_named(slot, is_here);
}

// Returns whether the slot's message is the one that the first n bytes of an envelope name, as far as these tell. A
// thread without a name may have ended that message, and the sender may have taken the slot for another one since.
// Fewer than 32 bytes do not tell the serial number: then only the order of slots keeps the messages apart, as the
// sender comes to a slot again behind all others.
bool is_named(const Peer& peer, const proto::OutboxSlot& slot, const proto::Envelope& envelope, size_t n) {
  proto::Envelope its = envelope;
  std::memcpy(its.nonce, peer.outbox().nonce, sizeof its.nonce);
  its.serial = slot.serial;
  return !std::memcmp(&its, &envelope, std::min(n, offsetof(proto::Envelope, rest))) || gc_mutant(511);
}

// Where the beginning of an envelope has been delivered, it names the slot; else the slot is that of the first message.
void cut_off(const gc_process_blob* from, const gc_message_key* key, const gc_envelope* bytes, size_t n, size_t size,
             int matched) {
  const Peer* const peer = Outboxes::instance().find(from);
  if (!peer) return;
  const proto::Envelope envelope = envelope_in(*bytes);
  if (size < proto::kEnvelopeBytes) return cut_off_small(*peer, *key, envelope, n, size);
  const bool named =
      n >= proto::kLeastEnvelopeBytes && !std::memcmp(envelope.magic, proto::kEnvelopeMagic, sizeof envelope.magic);
  Outboxes& outboxes = Outboxes::instance();
  if (proto::OutboxSlot* slot = named ? slot_of(*peer, envelope) : nullptr;
      slot && slot->context == key->context && slot->tag == key->tag) {
    const auto named_here = [&](const proto::OutboxSlot& its) {
      return is_here(its) && is_named(*peer, its, envelope, n);
    };
    if (outboxes.end_named(*slot, named_here)) return;
  }
  const auto found = [&](const proto::OutboxSlot& slot) {
    return state_of(slot) == state_found(matched) && has_size_of_envelope(slot);
  };
  (void)outboxes.lead_on(*peer, *key, found,
                         [](const proto::OutboxSlot& slot) { return slot.plain ? State::free : State::done; });
}

// A message with a slot would have been found, had it been there since the probe before.
size_t probed(const gc_process_blob* from, const gc_message_key* key, int matched, int again) {
  const Peer* const peer = Outboxes::instance().find(from);
  if (!peer) return GC_ENVELOPE_BYTES;  // a process without the plugin sends no envelopes
  const auto found = [](const proto::OutboxSlot& slot) { return is_found(slot) && has_size_of_envelope(slot); };
  const auto next = [](const proto::OutboxSlot&) { return State::matched; };
  Outboxes& outboxes = Outboxes::instance();
  const proto::OutboxSlot* const slot =
      matched ? outboxes.lead_on(*peer, *key, found, next) : outboxes.oldest(*peer, *key, found);
  const bool may_lack_slot = again && __atomic_load_n(&peer->outbox().has_unnoted, __ATOMIC_ACQUIRE);
  if (!slot) return may_lack_slot ? GC_ENVELOPE_BYTES : 0;
  return slot->plain || gc_mutant(212) ? GC_ENVELOPE_BYTES : slot->bytes;
}

void launch() { DeviceEnd::launch_copies(); }

int end(gc_transfer* transfer) {
  const Code code = transfer->failed;
  delete transfer;
  return mpi_class(code);
}

// ---- messages between nodes, in pieces ----

// From so many bytes on pieces are faster than the whole message (docs/adr/0050).
constexpr size_t kLeastInPieces = size_t{1} << 20;

size_t least_in_pieces(const gc_process_blob* to) {
  if (!to || !coll::MpiProcess::instance().takes_pieces(*to)) return 0;
  return std::max<size_t>(param_or(params().pt2pt_direct_bytes, kLeastInPieces), proto::kEnvelopeBytes);
}

void name_pieces(uint64_t serial, gc_envelope* envelope) {
  proto::Envelope filled = {};
  const proto::Outbox& own = *Outboxes::instance().own();
  std::memcpy(filled.magic, proto::kEnvelopeMagic, sizeof filled.magic);
  std::memcpy(filled.secret, own.nonce, sizeof filled.secret);
  filled.slot = static_cast<uint8_t>(serial);
  filled.serial = serial;
  std::memcpy(envelope->bytes, &filled, sizeof envelope->bytes);
}

int names_pieces(const gc_process_blob* from, const gc_envelope* bytes, size_t n, uint64_t* serial, uint64_t* mask) {
  const proto::Envelope envelope = envelope_in(*bytes);
  const auto& process = coll::MpiProcess::instance();
  if (std::memcmp(envelope.magic, proto::kEnvelopeMagic, sizeof envelope.magic)) return 0;
  if (!from || !process.takes_pieces(*from) || !process.is_secret_of(*from, envelope.secret)) return 0;
  const bool has_serial = n >= offsetof(proto::Envelope, rest);
  *serial = has_serial ? envelope.serial : envelope.slot;
  *mask = has_serial ? ~uint64_t{0} : 0xff;
  return 1;
}

size_t piece_of(size_t bytes) {
  constexpr size_t kUnit = size_t{64} << 10, kMost = size_t{512} << 10;
  return std::clamp((bytes / gc_pieces::kWindow + kUnit - 1) / kUnit * kUnit, kUnit, kMost);
}

// Runs a step of one side, and notes where it fails. Returns what the step returns, `otherwise` where it fails.
template <class Step>
int stepped(gc_pieces* pieces, int otherwise, const Step& step) {
  int result = otherwise;
  const Code code = guarded("a message", [&]() -> Status {
    GC_TRY_AS(result, step());
    return {};
  });
  if (code != Code::ok) pieces->fail(code);
  return result;
}

int pieces_begin(const gc_message_data* data, size_t bytes, size_t piece, int sends, gc_pieces** pieces) {
  return mpi_class(guarded(sends ? "sending" : "receiving", [&]() -> Status {
    auto made = std::make_unique<gc_pieces>(*data, bytes, piece, sends != 0);
    GC_TRY(made->begin());
    *pieces = made.release();
    return {};
  }));
}

int pieces_next(gc_pieces* pieces, void** memory, size_t* bytes) {
  const auto next = [&]() -> Result<int> {
    GC_TRY_AS(const bool there, pieces->next(memory, bytes));
    return there;
  };
  const bool had_failed = pieces->failed() != Code::ok;
  const int there = stepped(pieces, 0, next);
  return !there && !had_failed && pieces->failed() != Code::ok ? stepped(pieces, 0, next) : there;
}

void pieces_moved(gc_pieces* pieces, int moves) {
  if (!moves && pieces->failed() == Code::ok) pieces->fail(Code::remote);
  (void)stepped(pieces, 0, [&]() -> Result<int> {
    GC_TRY(pieces->moved());
    return 1;
  });
}

int pieces_ended(gc_pieces* pieces) {
  return stepped(pieces, 0, [&]() -> Result<int> {
    GC_TRY_AS(const bool ended, pieces->ended());
    return ended;
  });
}

int pieces_end(gc_pieces* pieces, int leaves_memory) {
  const Code code = pieces->failed();
  if (leaves_memory) pieces->leave_memory();
  delete pieces;
  return mpi_class(code);
}

int is_gone(const gc_process_blob* other) { return other && coll::MpiProcess::instance().is_known_to_be_gone(*other); }

int runs_this_version(const gc_process_blob* other) {
  return other && coll::MpiProcess::instance().runs_this_version(*other);
}

}  // namespace
}  // namespace gpucoll::pt2pt

extern "C" const gc_pt2pt_abi* gpucoll_pt2pt_abi(uint32_t version) {
  using namespace gpucoll::pt2pt;
  static const gc_pt2pt_abi abi = {GC_ABI_VERSION,
                                   sizeof(gc_pt2pt_abi),
                                   enabled,
                                   host_reaches,
                                   uses_devices,
                                   offer,
                                   note,
                                   is_envelope,
                                   take,
                                   noted_came,
                                   cut_off,
                                   probed,
                                   test,
                                   launch,
                                   end,
                                   least_in_pieces,
                                   name_pieces,
                                   names_pieces,
                                   piece_of,
                                   pieces_begin,
                                   pieces_next,
                                   pieces_moved,
                                   pieces_ended,
                                   pieces_end,
                                   is_gone,
                                   runs_this_version};
  return version == GC_ABI_VERSION ? &abi : nullptr;
}
