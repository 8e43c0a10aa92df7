// Plays a process on another node that sends over a channel: any bytes, in pieces of any size. Messages of boards go on
// to the copy of that process's board. The first byte says how the rest is cut.
#include <optional>

#include "input.h"
#include "mpi/remote_process.h"
#include "net/tcp/channel.h"

using namespace gpucoll;

namespace {

coll::RemoteProcess make_process() {
  auto board = core::Board::create_copy();
  if (!board) __builtin_trap();
  return coll::RemoteProcess(*std::move(board));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gpucoll_test::Input input(data, bytes);
  const size_t piece = input.take<uint8_t>() + 1u;
  coll::RemoteProcess process = make_process();
  net::MessageReader reader;
  net::MessageReader::Message message;
  while (input.left() > 0 && !reader.broken()) {
    const size_t now = std::min(piece, input.left());
    reader.feed(input.at(), now);
    input.skip(now);
    while (reader.next(&message))
      if (!process.take(static_cast<proto::BoardMessage>(message.kind), message.payload, message.bytes)) return 0;
  }
  return 0;
}
