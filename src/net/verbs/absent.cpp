// Stands for the verbs transport where gpucoll was built without verbs' headers.
#include "net/transport.h"

namespace gpucoll::net {
namespace {

Status absent() {
  return Status::error(Code::unsupported,
                       "this gpucoll was built without verbs: install libibverbs-dev and configure it again");
}

class AbsentTransport final : public Transport {
 public:
  const char* name() const override { return "verbs"; }
  Status usable() override { return absent(); }
  Result<std::unique_ptr<LinkEnd>> make_end(Side, const LinkShape&, MemoryPort&) override { return absent(); }
};

}  // namespace

Transport& verbs_transport() {
  static AbsentTransport transport;
  return transport;
}

}  // namespace gpucoll::net
