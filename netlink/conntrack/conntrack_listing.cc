#include "netlink/conntrack/conntrack_listing.h"

#include <cerrno>

#include "netlink/conntrack/conntrack_codec.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

bool refuses_filter(const Error& error) {
  return error.sys_errno == EINVAL || error.sys_errno == EOPNOTSUPP || error.sys_errno == ERANGE;
}

bool is_no_subsystem(const Error& error) {
  return error.sys_errno == EINVAL || error.sys_errno == EPROTONOSUPPORT;
}

Error no_subsystem(const Error& error) {
  return Error{ErrorKind::missing, error.sys_errno,
               "this kernel offers no listing of tracked flows: load module "
               "nf_conntrack_netlink (modprobe nf_conntrack_netlink) on the host"};
}

// Appends the flows that match the query. `filter` is the filter given to the kernel. A kernel
// without it (before 5.8) also sends other flows: these reveal it, and the dump then holds all
// flows.
Status FlowListing::take(const Dump& dump, const Bytes& request,
                         const std::optional<FlowEnd>& filter, const FlowQuery& query,
                         std::vector<Flow>& flows) {
  const auto before = static_cast<std::ptrdiff_t>(flows.size());
  return dump(
      request, [&] { flows.erase(flows.begin() + before, flows.end()); },
      [&](ByteView payload) -> Status {
        const auto flow = decode_listed(payload, query.protocol);
        if (!flow) return flow.error();
        const bool fits = *flow && (!filter || (*flow)->destination == *filter);
        if (filters_ && !fits && !is_filtered_for(payload, query.protocol, filter))
          filters_ = false;
        if (*flow && flows.size() < query.most && query.matches(**flow)) flows.push_back(**flow);
        return {};
      });
}

Status FlowListing::list_filtered(const Dump& dump, const FlowQuery& query,
                                  std::vector<Flow>& flows) {
  const auto& family = query.family;
  const auto& destinations = query.destinations;
  if (destinations.empty() || destinations.size() > kAskedOneByOne)
    return take(dump, encode_list_flows(family, query.protocol, std::nullopt), std::nullopt, query,
                flows);
  for (const auto& one : destinations) {
    auto status = take(dump, encode_list_flows(family, query.protocol, one), one, query, flows);
    if (!status || !filters_) return status;
  }
  return {};
}

Result<std::vector<Flow>> FlowListing::list(const FlowQuery& query, const Dump& dump) {
  std::vector<Flow> flows;
  bool filtered = filters_;
  Status status;
  if (filtered) {
    status = list_filtered(dump, query, flows);
    if (!status && refuses_filter(status.error())) filtered = filters_ = false;
  }
  if (!filtered) status = take(dump, encode_list_flows(query.family), std::nullopt, query, flows);
  if (!status && is_no_subsystem(status.error())) {
    filters_ = true;  // the next module to be loaded may have the filter
    status = no_subsystem(status.error());
  }
  if (!status)
    return in_context(status.error(), "list " + std::string(to_string(query.protocol)) + " flows");
  keep_each_once(flows);
  return flows;
}

}  // namespace ipvsproxier::netlink
