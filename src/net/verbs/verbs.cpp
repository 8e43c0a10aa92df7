// The verbs transport: each end has all lanes' blocks in host memory of its own, mapped for its kernels and registered
// with the RDMA devices that are nearest to the GPU. It has a queue pair for each of these (a rail), as many as the end
// with fewer devices, and the lanes take the rails in turn. The sending end writes what its kernels have put into slots
// into the same slots of the receiving end, which sees it complete and stores the tail; heads go back as immediate data
// (format/step_immediate.h).
//
// No queue overflows. Kernels fill at most kSteps steps of a lane beyond the head that the sending end has stored, and
// it stores one only once the receiving end has told it and its own writes up to there are complete. So at most kSteps
// slices of a lane, and kSteps heads, are under way, and both queues of a rail have room for those of all lanes.
//
// Failover. An end that finds a rail broken gives it up, for good. It destroys its queue pair, so nothing late comes
// into a slot, or is read from one. The sending end says so over all other rails; the receiving end says for each lane
// of the rail over which one the lane goes on, and behind which step. Only then does the sending end send again what
// was sent from there on. The receiving end's notice names all rails that it has given up, and the sending end gives
// them up, too, before it takes anything else: so nothing older than a notice is taken after it.
#include "net/host_blocks.h"
#include "net/transport.h"
#include "net/verbs/devices.h"
#include "net/verbs/receiver.h"
#include "net/verbs/sender.h"

namespace gpucoll::net {
namespace {

class VerbsTransport final : public Transport {
 public:
  const char* name() const override { return "verbs"; }
  Status usable() override { return VerbsDevices::instance().status(); }
  Result<std::unique_ptr<LinkEnd>> make_end(Side side, const LinkShape& shape, MemoryPort& memory) override {
    return side == Side::send ? make_prepared<VerbsSender>(shape, memory) : make_prepared<VerbsReceiver>(shape, memory);
  }
};

}  // namespace

Transport& verbs_transport() {
  static VerbsTransport transport;
  return transport;
}

}  // namespace gpucoll::net
