#include "perf/messages.h"

namespace gpucoll::perf {
namespace {

constexpr int kTag = 1;  // that of the messages is 0

Status ping_pong(const Call& call, Carrier& carrier) {
  if (!begins(call)) GC_TRY(carrier.recv(call));
  GC_TRY(carrier.send(call));
  return begins(call) ? carrier.recv(call) : Status();
}

// The acknowledgement is MPI's, of host memory, whatever carries the messages.
Status one_way(const Call& call, Carrier& carrier, MPI_Comm comm) {
  const int partner = partner_of(call);
  int rc = MPI_SUCCESS;
  if (begins(call)) {
    GC_TRY(carrier.window(call, call.window, 0));
    rc = MPI_Recv(nullptr, 0, MPI_BYTE, partner, kTag, comm, MPI_STATUS_IGNORE);
  } else {
    GC_TRY(carrier.window(call, 0, call.window));
    rc = MPI_Send(nullptr, 0, MPI_BYTE, partner, kTag, comm);
  }
  if (rc == MPI_SUCCESS) return {};
  return Status::error(Code::remote, "the acknowledgement between ranks %d and %d failed with MPI error %d", call.rank,
                       partner, rc);
}

}  // namespace

int partner_of(const Call& call) {
  const Partners partners = partners_of(call);
  return partners.to < 0 ? partners.from : partners.to;
}

bool begins(const Call& call) { return call.rank < call.ranks / 2; }

int messages_of(const Call& call) { return call.collective == Collective::bandwidth ? call.window : 2 * call.window; }

Status exchange(const Call& call, Carrier& carrier, MPI_Comm comm) {
  switch (call.collective) {
    case Collective::latency: return ping_pong(call, carrier);
    case Collective::bandwidth: return one_way(call, carrier, comm);
    default: return carrier.window(call, call.window, call.window);
  }
}

}  // namespace gpucoll::perf
