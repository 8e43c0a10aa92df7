#include "net/verbs/queue_pair.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/mutant.h"
#include "base/observe/counters.h"
#include "base/params.h"

namespace gpucoll::net {
namespace {

constexpr uint32_t kMostInline = 16;
// How long a sender waits that has found no receive posted, by verbs' table. It does not happen: see verbs.cpp.
constexpr uint8_t kReceiverNotReady = 12;
// How long the reason may take to come after its consequences.
constexpr auto kReasonComes = std::chrono::milliseconds(200);

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(VerbsDevice& device, int sends, int receives) {
  if (sends > device.most_requests() || receives > device.most_requests())
    return Status::error(Code::unsupported,
                         "%s takes %d requests a queue, fewer than the %d that this connection needs",
                         device.name().c_str(), device.most_requests(), std::max(sends, receives));
  std::unique_ptr<QueuePair> made(new QueuePair(device));
  GC_TRY(made->make(sends, receives));
  return made;
}

Status QueuePair::make(int sends, int receives) {
  const VerbsLibrary& library = device_.library();
  queue_ = library.create_cq(device_.context(), sends + receives, nullptr, nullptr, 0);
  if (!queue_) return Status::system(errno, "%s gives no completion queue", device_.name().c_str());
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = queue_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = static_cast<uint32_t>(sends);
  attributes.cap.max_recv_wr = static_cast<uint32_t>(receives);
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = kMostInline;
  pair_ = library.create_qp(device_.domain(), &attributes);
  if (!pair_) {  // some devices take nothing inline
    attributes.cap.max_inline_data = 0;
    pair_ = library.create_qp(device_.domain(), &attributes);
  }
  if (!pair_) return Status::system(errno, "%s gives no queue pair", device_.name().c_str());
  inlines_ = attributes.cap.max_inline_data >= kMostInline;
  packet_number_ = std::random_device()() & 0xffffff;
  GC_TRY(reset_to_init());
  for (int i = 0; i < receives; ++i) GC_TRY(receive_again());
  return {};
}

QueuePair::~QueuePair() {
  destroy().ignore();  // nothing uses its memory any more
  if (queue_) device_.library().destroy_cq(queue_);
}

Status QueuePair::destroy() {
  if (!pair_) return {};
  if (const int error = device_.library().destroy_qp(pair_))
    return Status::system(error, "%s keeps its queue pair", device_.name().c_str());
  pair_ = nullptr;
  return {};
}

Status QueuePair::reset_to_init() {
  ibv_qp_attr to = {};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = static_cast<uint8_t>(device_.port());
  to.pkey_index = static_cast<uint16_t>(params().verbs_pkey_index);
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error =
      device_.library().modify_qp(pair_, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return {};
  return Status::system(error, "%s does not take the partition key with index %lld (parameter verbs_pkey_index)",
                        device_.name().c_str(), static_cast<long long>(params().verbs_pkey_index));
}

QueuePairAddress QueuePair::address() const noexcept {
  QueuePairAddress address = {};
  std::memcpy(address.gid, device_.gid().raw, sizeof address.gid);
  address.number = pair_->qp_num;
  address.packet_number = packet_number_;
  address.lid = device_.attributes().lid;
  address.roce = device_.roce();
  address.mtu = static_cast<uint8_t>(device_.attributes().active_mtu);
  return address;
}

Status QueuePair::connect(const QueuePairAddress& peer) {
  const char* const name = device_.name().c_str();
  if (static_cast<bool>(peer.roce) != device_.roce())
    return Status::error(Code::unsupported, "%s is of %s and the other side's device is not", name,
                         device_.roce() ? "RoCE" : "InfiniBand");
  ibv_qp_attr to = {};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = std::min(device_.attributes().active_mtu, static_cast<ibv_mtu>(peer.mtu));
  packet_bytes_ = uint32_t{128} << to.path_mtu;  // IBV_MTU_256 is 1
  to.dest_qp_num = peer.number;
  to.rq_psn = peer.packet_number;
  to.max_dest_rd_atomic = 1;
  to.min_rnr_timer = kReceiverNotReady;
  to.ah_attr.port_num = static_cast<uint8_t>(device_.port());
  to.ah_attr.sl = static_cast<uint8_t>(params().verbs_service_level);
  to.ah_attr.dlid = peer.lid;
  if (device_.roce() || params().verbs_gid_index != kAuto) {
    to.ah_attr.is_global = 1;
    std::memcpy(to.ah_attr.grh.dgid.raw, peer.gid, sizeof peer.gid);
    to.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_.gid_index());
    to.ah_attr.grh.hop_limit = 255;
    to.ah_attr.grh.traffic_class = static_cast<uint8_t>(params().verbs_traffic_class);
  }
  const VerbsLibrary& library = device_.library();
  if (const int error = library.modify_qp(pair_, &to,
                                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return Status::system(error, "%s finds no way to the other side's device (queue pair to RTR)", name);
  to = {};
  to.qp_state = IBV_QPS_RTS;
  to.sq_psn = packet_number_;
  to.timeout = static_cast<uint8_t>(params().verbs_timeout);
  to.retry_cnt = static_cast<uint8_t>(params().verbs_retries);
  to.rnr_retry = 7;  // without end: the receiver lives, as it answers
  to.max_rd_atomic = 1;
  if (const int error = library.modify_qp(pair_, &to,
                                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
    return Status::system(error, "%s cannot send (queue pair to RTS)", name);
  return {};
}

Status QueuePair::receive_again() {
  ibv_recv_wr request = {}, *bad = nullptr;
  if (const int error = ibv_post_recv(pair_, &request, &bad))
    return Status::system(error, "%s takes no receive", device_.name().c_str());
  return {};
}

Status QueuePair::post(ibv_send_wr* request) {
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(pair_, request, &bad))
    return Status::system(error, "%s takes no more to send", device_.name().c_str());
  count(Counter::network_writes);
  if (request->num_sge) count(Counter::network_bytes, request->sg_list->length);
  return {};
}

Status QueuePair::write(const Local& from, const Remote& to) {
  ibv_sge part = {reinterpret_cast<uint64_t>(from.data), from.bytes, from.key};
  ibv_send_wr request = {};
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  if (inlines_ && from.bytes <= kMostInline) request.send_flags = IBV_SEND_INLINE;
  request.wr.rdma = {to.address, to.key};
  return post(&request);
}

Status QueuePair::write_with_immediate(const Local& from, const Remote& to, uint32_t immediate, uint64_t id) {
  ibv_sge part = {reinterpret_cast<uint64_t>(from.data), from.bytes, from.key};
  ibv_send_wr request = {};
  request.wr_id = id;
  request.sg_list = &part;
  request.num_sge = from.bytes ? 1 : 0;  // a part of 0 bytes would be 2 GiB
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(immediate);
  request.wr.rdma = {to.address, to.key};
  return post(&request);
}

Status QueuePair::send_immediate(uint32_t immediate, uint64_t id) {
  ibv_send_wr request = {};
  request.wr_id = id;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(immediate);
  return post(&request);
}

Status QueuePair::failure(const ibv_wc& completion) const {
  const char* const name = device_.name().c_str();
  const char* const text = device_.library().wc_status_str(completion.status);
  if (completion.status == IBV_WC_WR_FLUSH_ERR)  // a device need not say more where its port goes down
    return Status::error(Code::remote, "%s, which is %s, has given the connection up (%s)", name, device_.port_state(),
                         text);
  if (completion.status != IBV_WC_RETRY_EXC_ERR)
    return Status::error(Code::remote, "%s reports '%s' (vendor's code %u)", name, text, completion.vendor_err);
  return Status::error(Code::remote,
                       "the other side's device does not answer %s, which is %s (%s): its link is down or its process "
                       "has died; else raise the parameters verbs_timeout and verbs_retries, or set transport to tcp",
                       name, device_.port_state(), text);
}

// A request was given up, as another one has failed: that one's completion tells the reason, and may come later.
// Returns an error once it should have come.
Status QueuePair::flushed() {
  const auto now = std::chrono::steady_clock::now();
  if (!flushed_at_) flushed_at_ = now;
  if (now - *flushed_at_ < kReasonComes && !gc_mutant(192)) return {};
  ibv_wc completion = {};
  completion.status = IBV_WC_WR_FLUSH_ERR;
  return failure(completion);
}

Result<bool> QueuePair::poll(Completion* completion) {
  ibv_wc polled = {};
  int n;
  do {
    n = ibv_poll_cq(queue_, 1, &polled);
    if (n < 0) return Status::error(Code::remote, "%s has failed", device_.name().c_str());
    if (n > 0 && polled.status == IBV_WC_WR_FLUSH_ERR) GC_TRY(flushed());
  } while (n > 0 && polled.status == IBV_WC_WR_FLUSH_ERR);
  if (n == 0) {
    if (flushed_at_) GC_TRY(flushed());
    return false;
  }
  if (polled.status != IBV_WC_SUCCESS) return failure(polled);
  *completion = {};
  completion->received = polled.opcode & IBV_WC_RECV;
  if (!completion->received) {
    completion->id = polled.wr_id;
    return true;
  }
  if (!(polled.wc_flags & IBV_WC_WITH_IMM)) return Status::error(Code::remote, "it sends without immediate data");
  completion->written = polled.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  completion->immediate = ntohl(polled.imm_data);
  completion->bytes = polled.byte_len;
  GC_TRY(receive_again());
  return true;
}

}  // namespace gpucoll::net
