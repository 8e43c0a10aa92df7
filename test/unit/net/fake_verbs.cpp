// Stands for libibverbs in tests: RC queue pairs between threads of one process. What is sent is there at once. Its
// completion comes some polls later, and only until then the memory that it was sent from must stay as it is, as a real
// device may send it again. Queues have the room that they were made with, keys are checked, and a queue pair that is
// not ready to receive loses what comes.
#include "fake_verbs.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

// The header has macros of these names.
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

namespace {

FakeVerbs control;

struct Cq : ibv_cq {
  struct Sent {
    ibv_wc done;
    int polls;
    const uint8_t* from;
    std::vector<uint8_t> was;
  };
  std::deque<Sent> sent;
  std::deque<ibv_wc> received;
};

struct Qp : ibv_qp {
  ibv_qp_state now = IBV_QPS_RESET;
  uint32_t peer = 0, most_sends = 0, most_receives = 0, sends = 0, receives = 0, unsignaled = 0, most_inline = 0;
};

// A message that comes late: the data, and the request without them.
struct Late {
  uint32_t peer;
  ibv_send_wr wr;
  std::vector<uint8_t> data;
  int polls;
};

struct World {
  std::mutex mutex;
  std::map<uint32_t, Qp*> pairs;
  std::map<uint32_t, ibv_mr*> regions;
  std::map<uint32_t, int> access;
  std::deque<Late> late;
  uint32_t next = 100, random = 1;
};
World& world() {
  static World* const w = new World;
  return *w;
}

// REQUIRES, as all that follow: the mutex.
bool holds(uint32_t key, uint64_t address, uint64_t bytes, int access) {
  const auto region = world().regions.find(key);
  if (region == world().regions.end() || (world().access[key] & access) != access) return false;
  const auto begin = reinterpret_cast<uint64_t>(region->second->addr);
  return address >= begin && address + bytes <= begin + region->second->length;
}

int index_of(const ibv_context* context);

bool writes(const ibv_send_wr& wr) { return wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }

// Returns a queue pair that takes what comes, or null.
Qp* receiver_of(uint32_t number) {
  const auto found = world().pairs.find(number);
  const bool takes =
      found != world().pairs.end() && found->second->now >= IBV_QPS_RTR && found->second->now != IBV_QPS_ERR;
  return takes ? found->second : nullptr;
}

ibv_wc_status deliver(Qp* peer, const ibv_send_wr& wr, const void* data, uint32_t bytes) {
  if (writes(wr) && bytes && !holds(wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, bytes, IBV_ACCESS_REMOTE_WRITE))
    return IBV_WC_REM_ACCESS_ERR;
  if (bytes) std::memcpy(reinterpret_cast<void*>(wr.wr.rdma.remote_addr), data, bytes);
  if (wr.opcode == IBV_WR_RDMA_WRITE) return IBV_WC_SUCCESS;
  if (peer->receives == 0) {  // a real device would send again until there is one
    ++control.violations;
    return IBV_WC_RNR_RETRY_EXC_ERR;
  }
  --peer->receives;
  ibv_wc come = {};
  come.opcode = writes(wr) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  come.wc_flags = IBV_WC_WITH_IMM;
  come.imm_data = wr.imm_data;
  come.byte_len = bytes;
  static_cast<Cq*>(peer->recv_cq)->received.push_back(come);
  return IBV_WC_SUCCESS;
}

void deliver_late() {
  if (control.holds_late) return;
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce && !world().late.empty() && world().late.front().polls-- <= 0; ++i) {
    const Late late = std::move(world().late.front());
    world().late.pop_front();
    if (Qp* const peer = receiver_of(late.peer))
      deliver(peer, late.wr, late.data.data(), static_cast<uint32_t>(late.data.size()));
  }
}

ibv_wc_status carry(Qp* pair, const ibv_send_wr& wr) {
  const int device = index_of(pair->context);
  ++control.sends[device];
  Qp* const peer = receiver_of(pair->peer);
  if (control.cut || control.silent[device] || !peer) return IBV_WC_RETRY_EXC_ERR;
  const uint32_t bytes = wr.num_sge ? wr.sg_list->length : 0;
  if (bytes > control.most_bytes) return IBV_WC_RETRY_EXC_ERR;
  if (wr.num_sge && !(wr.send_flags & IBV_SEND_INLINE) && !holds(wr.sg_list->lkey, wr.sg_list->addr, bytes, 0))
    return IBV_WC_LOC_PROT_ERR;
  if (writes(wr) && control.writes_until_fault >= 0 && control.writes_until_fault-- == 0) return IBV_WC_REM_ACCESS_ERR;
  const auto* const data = bytes ? reinterpret_cast<const uint8_t*>(wr.sg_list->addr) : nullptr;
  const bool fails = control.sends_until_fault[device] >= 0 && control.sends_until_fault[device]-- == 0;
  if (!fails) return deliver(peer, wr, data, bytes);
  if (control.fault[device] == FakeVerbs::unacknowledged) deliver(peer, wr, data, bytes);
  constexpr int kLatePolls = 500;
  if (control.fault[device] == FakeVerbs::late)
    world().late.push_back({pair->peer, wr, std::vector<uint8_t>(data, data + bytes), kLatePolls});
  return IBV_WC_RETRY_EXC_ERR;
}

// Gives up the receives at once: their completions come before that of what has failed.
void fail(Qp* pair) {
  pair->now = IBV_QPS_ERR;
  ibv_wc flushed = {};
  flushed.opcode = IBV_WC_RECV;
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  for (; pair->receives > 0; --pair->receives) static_cast<Cq*>(pair->recv_cq)->received.push_back(flushed);
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  std::lock_guard lock(world().mutex);
  auto* const pair = static_cast<Qp*>(qp);
  for (; wr; wr = wr->next) {
    *bad = wr;
    if (pair->now != IBV_QPS_RTS && pair->now != IBV_QPS_ERR) return EINVAL;
    const uint32_t bytes = wr->num_sge ? wr->sg_list->length : 0;
    if (pair->sends == pair->most_sends) return ENOMEM;
    if ((wr->send_flags & IBV_SEND_INLINE) && bytes > pair->most_inline) return EINVAL;
    ++pair->sends;
    const ibv_wc_status status = pair->now == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : carry(pair, *wr);
    if (status != IBV_WC_SUCCESS && pair->now != IBV_QPS_ERR) fail(pair);
    ++pair->unsignaled;
    if (!(wr->send_flags & IBV_SEND_SIGNALED) && status == IBV_WC_SUCCESS) continue;
    world().random = world().random * 1664525 + 1013904223;
    Cq::Sent sent = {{}, static_cast<int>(world().random >> 24) % 8, nullptr, {}};
    sent.done.status = status;
    sent.done.wr_id = wr->wr_id;
    sent.done.qp_num = pair->qp_num;
    sent.done.byte_len = std::exchange(pair->unsignaled, 0);  // requests that are over with it
    if (bytes && status == IBV_WC_SUCCESS) {
      sent.from = reinterpret_cast<const uint8_t*>(wr->sg_list->addr);
      sent.was.assign(sent.from, sent.from + bytes);
    }
    static_cast<Cq*>(pair->send_cq)->sent.push_back(std::move(sent));
  }
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr*, ibv_recv_wr**) {
  std::lock_guard lock(world().mutex);
  auto* const pair = static_cast<Qp*>(qp);
  if (pair->receives == pair->most_receives) return ENOMEM;
  ++pair->receives;
  return 0;
}

int poll_cq(ibv_cq* cq, int, ibv_wc* wc) {
  std::lock_guard lock(world().mutex);
  auto* const queue = static_cast<Cq*>(cq);
  if (control.gone) return -1;
  deliver_late();
  if (!queue->received.empty()) {
    *wc = queue->received.front();
    queue->received.pop_front();
    return 1;
  }
  if (queue->sent.empty() || queue->sent.front().polls-- > 0) return 0;
  const Cq::Sent& sent = queue->sent.front();
  if (sent.from && std::memcmp(sent.from, sent.was.data(), sent.was.size())) ++control.violations;
  *wc = sent.done;
  if (const auto pair = world().pairs.find(wc->qp_num); pair != world().pairs.end())
    pair->second->sends -= wc->byte_len;
  queue->sent.pop_front();
  return 1;
}

struct Device : ibv_device {
  Device() : ibv_device() { transport_type = IBV_TRANSPORT_IB; }
  int index() const;
} all_devices[FakeVerbs::kMostDevices];
int Device::index() const { return static_cast<int>(this - all_devices); }
int index_of(const ibv_context* context) { return static_cast<const Device*>(context->device)->index(); }

ibv_gid gid_of(bool ipv4) {
  ibv_gid gid = {};
  if (ipv4) {
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 10;
    gid.raw[15] = 1;
  } else {
    gid.raw[0] = 0xfe;
    gid.raw[1] = 0x80;
    gid.raw[15] = 1;
  }
  return gid;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

FakeVerbs* fake_verbs() { return &control; }

ibv_device** ibv_get_device_list(int* count) {
  *count = control.devices;
  auto** const list = new ibv_device* [FakeVerbs::kMostDevices + 1] {};
  for (int i = 0; i < control.devices; ++i) {
    Device& device = all_devices[i];
    std::snprintf(device.name, sizeof device.name, "fake_%d", i);
    std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "%s",
                  control.directories[i] ? control.directories[i] : "");
    list[i] = &device;
  }
  return list;
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new ibv_context();
  context->device = device;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  context->ops.poll_cq = poll_cq;
  return context;
}
int ibv_fork_init() { return 0; }
int ibv_close_device(ibv_context* context) {
  delete context;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_qp_wr = control.most_requests;
  return 0;
}
int ibv_query_port(ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* compat) {
  if (port != 1) return EINVAL;
  auto* const attributes = reinterpret_cast<ibv_port_attr*>(compat);
  attributes->state = control.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->link_layer = control.infiniband[index_of(context)] ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  attributes->active_mtu = IBV_MTU_1024;
  attributes->active_width = 2;
  attributes->active_speed = static_cast<uint8_t>(control.speeds[index_of(context)]);
  attributes->max_msg_sz = 1 << 20;
  attributes->gid_tbl_len = 8;
  return 0;
}
// Even indices are of RoCE v1, odd ones of v2; 2 and 3 have IPv4, the others are not used.
int _ibv_query_gid_ex(ibv_context* context, uint32_t, uint32_t index, ibv_gid_entry* entry, uint32_t, size_t) {
  if (index > (control.few_gids[index_of(context)] ? 0 : 3)) return ENODATA;
  entry->gid = gid_of(index >= 2);
  entry->gid_index = index;
  entry->gid_type = index % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* const domain = new ibv_pd();
  domain->context = context;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* domain) {
  delete domain;
  return 0;
}
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t bytes, int access) {
  std::lock_guard lock(world().mutex);
  if (!control.registers || control.full[index_of(domain->context)]) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* const region = new ibv_mr();
  region->context = domain->context;
  region->addr = address;
  region->length = bytes;
  region->lkey = region->rkey = world().next++;
  world().regions[region->lkey] = region;
  world().access[region->lkey] = access;
  return region;
}
int ibv_dereg_mr(ibv_mr* region) {
  std::lock_guard lock(world().mutex);
  world().regions.erase(region->lkey);
  delete region;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int, void*, ibv_comp_channel*, int) {
  auto* const queue = new Cq();
  queue->context = context;
  return queue;
}
int ibv_destroy_cq(ibv_cq* queue) {
  delete static_cast<Cq*>(queue);
  return 0;
}
ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  std::lock_guard lock(world().mutex);
  if (control.nothing_inline && attributes->cap.max_inline_data) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const pair = new Qp();
  pair->context = domain->context;
  pair->send_cq = attributes->send_cq;
  pair->recv_cq = attributes->recv_cq;
  pair->qp_num = world().next++;
  pair->most_sends = attributes->cap.max_send_wr;
  pair->most_receives = attributes->cap.max_recv_wr;
  pair->most_inline = attributes->cap.max_inline_data;
  world().pairs[pair->qp_num] = pair;
  return pair;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  std::lock_guard lock(world().mutex);
  auto* const pair = static_cast<Qp*>(qp);
  if (!(mask & IBV_QP_STATE)) return EINVAL;
  pair->now = attributes->qp_state;
  if (mask & IBV_QP_PKEY_INDEX) control.pkey_index = attributes->pkey_index;
  if (mask & IBV_QP_DEST_QPN) pair->peer = attributes->dest_qp_num;
  if (mask & IBV_QP_AV) {
    control.service_level = attributes->ah_attr.sl;
    control.traffic_class = attributes->ah_attr.grh.traffic_class;
  }
  if (mask & IBV_QP_TIMEOUT) control.timeout = attributes->timeout;
  if (mask & IBV_QP_RETRY_CNT) control.retries = attributes->retry_cnt;
  return 0;
}
int ibv_destroy_qp(ibv_qp* pair) {
  std::lock_guard lock(world().mutex);
  if (control.keeps_pairs[index_of(pair->context)]) return EIO;
  world().pairs.erase(pair->qp_num);
  delete static_cast<Qp*>(pair);
  return 0;
}
const char* ibv_wc_status_str(ibv_wc_status status) {
  if (status == IBV_WC_RETRY_EXC_ERR) return "transport retry counter exceeded";
  return status == IBV_WC_REM_ACCESS_ERR ? "remote access error" : "an error";
}

}  // extern "C"
#pragma GCC visibility pop
