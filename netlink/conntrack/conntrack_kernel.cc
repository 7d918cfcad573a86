#include "netlink/conntrack/conntrack_kernel.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>

#include "netlink/conntrack/conntrack_codec.h"
#include "netlink/conntrack/conntrack_listing.h"

namespace ipvsproxier::netlink {

namespace {

Error failed(const Error& error, std::string_view what) {
  return in_context(is_no_subsystem(error) ? no_subsystem(error) : error, what);
}

Status ask_count(NlChannel& channel) {
  const auto count = channel.query(Operation::generic, encode_get_flow_count());
  return count ? Status{} : count.error();
}

}  // namespace

Result<std::unique_ptr<KernelConntrackTable>> KernelConntrackTable::open(const NlOptions& options) {
  auto table = std::make_unique<KernelConntrackTable>(NlOpening{}, options);
  if (const auto open = table->ready(); !open) return open.error();
  return table;
}

KernelConntrackTable::KernelConntrackTable(const NlOpening& opening, const NlOptions& options)
    : channel_(NETLINK_NETFILTER, options, opening, ask_count),
      parts_(NETLINK_NETFILTER, options, {.before = opening.before}) {}

Status KernelConntrackTable::ready() {
  auto open = channel_.ready();
  if (open) return open;
  return is_no_subsystem(open.error()) ? no_subsystem(open.error())
                                       : in_context(open.error(), "open conntrack");
}

Result<std::size_t> KernelConntrackTable::count() {
  const auto answer = channel_.query(Operation::generic, encode_get_flow_count());
  if (!answer) return failed(answer.error(), "count tracked flows");
  return decode_flow_count(*answer);
}

Result<ConntrackTable::FlowsPart> KernelConntrackTable::begin_list(
    Family family, const std::set<Protocol>& protocols) {
  if (const auto open = ready(); !open) return in_context(open.error(), "list flows");
  protocols_ = protocols;
  if (const auto begun = parts_.begin_dump(encode_list_flows(family)); !begun)
    return failed(begun.error(), "list flows");
  return next_list();
}

Result<ConntrackTable::FlowsPart> KernelConntrackTable::next_list() {
  constexpr int kDatagramsAPart = 4;  // each has some 150 flows
  FlowsPart part;
  for (int i = 0; i < kDatagramsAPart && !part.last; ++i) {
    const auto more = parts_.next_of_dump(Operation::generic, [&](ByteView payload) -> Status {
      for (const auto protocol : protocols_) {
        const auto flow = decode_listed(payload, protocol);
        if (!flow) return flow.error();
        if (*flow) part.flows.push_back(**flow);
      }
      return {};
    });
    if (!more) {
      parts_.end_dump();
      return failed(more.error(), "list flows");
    }
    part.last = !*more;
  }
  return part;
}

Result<std::vector<Flow>> KernelConntrackTable::list(const FlowQuery& query) {
  return listing_.list(query, [this](const Bytes& request, const auto& begin, const auto& each) {
    return channel_.stream_whole(Operation::generic, request, begin, each);
  });
}

Result<std::vector<TrackedFlow>> KernelConntrackTable::list_to(Protocol protocol,
                                                               const FlowEnd& destination) {
  std::vector<TrackedFlow> flows;
  const auto dump = [&](const Bytes& request) {
    return channel_.stream_whole(
        Operation::generic, request, [&] { flows.clear(); },
        [&](ByteView payload) -> Status {
          const auto flow = decode_flow(payload, protocol);
          if (!flow) return flow.error();
          if (*flow && (*flow)->destination == destination) flows.push_back(**flow);
          return {};
        });
  };
  auto status = dump(encode_list_flows(destination.address.family(), protocol, destination));
  if (!status && refuses_filter(status.error()))
    status = dump(encode_list_flows(destination.address.family()));
  if (!status) return in_context(status.error(), "list tracked flows");
  keep_each_once(flows);
  return flows;
}

std::vector<Status> KernelConntrackTable::remove(std::span<const Flow> flows) {
  if (const auto open = ready(); !open) return std::vector<Status>(flows.size(), open);
  std::vector<Bytes> requests;
  requests.reserve(flows.size());
  for (const auto& flow : flows) requests.push_back(encode_remove_flow(flow));
  auto outcomes = channel_.transact(Operation::generic, requests);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (outcomes[i]) continue;
    // ENOENT: the flow is gone, or another flow has taken its place.
    if (outcomes[i].error().sys_errno == ENOENT)
      outcomes[i] = Status{};
    else if (outcomes[i].error().kind != ErrorKind::timeout)  // one message covers all timeouts
      outcomes[i] = in_context(outcomes[i].error(), "remove " + to_string(flows[i]));
  }
  return outcomes;
}

}  // namespace ipvsproxier::netlink
