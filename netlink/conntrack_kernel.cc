#include "netlink/conntrack_kernel.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>

#include "netlink/conntrack_codec.h"

namespace ipvsproxier::netlink {

namespace {

// nfnetlink.c, nfnetlink_rcv_msg: EINVAL for a subsystem that is not there, even after asking for
// its module; af_netlink.c, netlink_create: EPROTONOSUPPORT without nfnetlink.
bool is_no_subsystem(const Error& error) {
  return error.sys_errno == EINVAL || error.sys_errno == EPROTONOSUPPORT;
}

Error cannot_open(Error error) {
  if (is_no_subsystem(error))
    return Error{ErrorKind::missing, error.sys_errno,
                 "this kernel offers no listing of tracked flows: load module "
                 "nf_conntrack_netlink (modprobe nf_conntrack_netlink) on the host"};
  return in_context(std::move(error), "open conntrack");
}

// ctnetlink_alloc_filter and the policy before it.
bool refuses_filter(const Error& error) {
  return error.sys_errno == EINVAL || error.sys_errno == EOPNOTSUPP || error.sys_errno == ERANGE;
}

}  // namespace

Result<std::unique_ptr<KernelConntrackTable>> KernelConntrackTable::open(const NlOptions& options) {
  auto channel = NlChannel::open(NETLINK_NETFILTER, options);
  if (!channel) return cannot_open(channel.error());
  if (const auto count = channel->query(Operation::generic, encode_get_flow_count()); !count)
    return cannot_open(count.error());
  return std::unique_ptr<KernelConntrackTable>(new KernelConntrackTable(std::move(*channel)));
}

Status KernelConntrackTable::dump(const Bytes& request, Family family,
                                  const std::optional<FlowEnd>& destination,
                                  std::vector<UdpFlow>& flows) {
  return channel_.dump(Operation::generic, request, [&](ByteView payload) -> Status {
    const auto flow = decode_udp_flow(payload);
    if (!flow) return flow.error();
    // The kernel's filter is only there to send less.
    if (*flow && (*flow)->destination.address.family() == family &&
        (!destination || (*flow)->destination == *destination))
      flows.push_back(**flow);
    return {};
  });
}

Result<std::vector<UdpFlow>> KernelConntrackTable::list_udp(
    Family family, const std::optional<FlowEnd>& destination) {
  std::vector<UdpFlow> flows;
  if (destination && destination->address.family() != family) return flows;
  Status status;
  if (filters_) {
    status = dump(encode_list_udp_flows(family, destination), family, destination, flows);
    if (!status && refuses_filter(status.error())) filters_ = false;
  }
  if (!filters_) status = dump(encode_list_flows(family), family, destination, flows);
  if (!status) return in_context(status.error(), "list UDP flows");
  // A flow comes twice if the kernel resizes its table during the dump.
  std::ranges::sort(flows);
  flows.erase(std::unique(flows.begin(), flows.end()), flows.end());
  return flows;
}

Result<std::vector<TrackedFlow>> KernelConntrackTable::list_to(Protocol protocol,
                                                               const FlowEnd& destination) {
  std::vector<TrackedFlow> flows;
  const auto keep = [&](ByteView payload) -> Status {
    const auto flow = decode_flow(payload, protocol);
    if (!flow) return flow.error();
    if (*flow && (*flow)->destination == destination) flows.push_back(**flow);
    return {};
  };
  auto status =
      channel_.dump(Operation::generic, encode_list_flows_to(protocol, destination), keep);
  if (!status && refuses_filter(status.error()))
    status =
        channel_.dump(Operation::generic, encode_list_flows(destination.address.family()), keep);
  if (!status) return in_context(status.error(), "list tracked flows");
  std::ranges::sort(flows);
  flows.erase(std::unique(flows.begin(), flows.end()), flows.end());
  return flows;
}

std::vector<Status> KernelConntrackTable::remove(std::span<const UdpFlow> flows) {
  std::vector<Bytes> requests;
  requests.reserve(flows.size());
  for (const auto& flow : flows) requests.push_back(encode_remove_flow(flow));
  auto outcomes = channel_.transact(Operation::generic, requests);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (outcomes[i]) continue;
    // Gone, or another flow has its place.
    if (outcomes[i].error().sys_errno == ENOENT)
      outcomes[i] = Status{};
    else
      outcomes[i] = in_context(outcomes[i].error(), "remove " + to_string(flows[i]));
  }
  return outcomes;
}

}  // namespace ipvsproxier::netlink
