#include "cmd/ipvsctl/commands.h"

#include "cmd/ipvsctl/names/address_names.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "netlink/ipvs/ipvs_connections.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"

namespace ipvsproxier::ctl {

namespace {

using KnownNames = std::optional<ClusterNames>;

// `names` must outlive the form.
std::unique_ptr<TableForm> form_of(const ListOptions& options, AddressNames* addresses,
                                   const KnownNames& names) {
  const auto* const known = options.names && names ? &*names : nullptr;
  const auto with_names = [&](std::unique_ptr<TableForm> form) {
    return known != nullptr ? named_form(std::move(form), *known) : std::move(form);
  };
  switch (options.format) {
    case ListFormat::wide:
      return with_names(wide_form(addresses));
    case ListFormat::json:
      return json_form(known);
    case ListFormat::yaml:
      return yaml_form(known);
    case ListFormat::save:
      return save_form();
    case ListFormat::text:
      break;
  }
  return with_names(text_form({options.columns, options.exact, addresses}));
}

netlink::Status list_from_kernel(const ListOptions& options, AddressNames* addresses,
                                 const TextSink& sink) {
  const auto reader = netlink::KernelIpvsReader::open();
  if (!reader) return reader.error();
  if (options.subject == ListSubject::timeouts) {
    const auto timeouts = (*reader)->timeouts();
    if (!timeouts) return timeouts.error();
    return sink(timeout_text(*timeouts));
  }
  if (options.subject == ListSubject::daemons) {
    const auto daemons = (*reader)->daemons();
    if (!daemons) return daemons.error();
    return sink(daemon_text(*daemons));
  }
  const auto names = names_for_view(options.names, options.socket, options.services);
  if (!names) return names.error();
  auto filter = options.filter;
  if (options.services.of_some()) filter.named = &**names;
  const auto form = form_of(options, addresses, *names);
  return list_table(**reader, filter, options.sorted, *form, sink);
}

}  // namespace

netlink::Status run_list(const ListOptions& options, const TextSink& sink) {
  SystemNames system;
  AddressNames* addresses = options.resolve ? &system : nullptr;
  if (options.subject != ListSubject::connections)
    return list_from_kernel(options, addresses, sink);
  netlink::ConnectionFile connections("/proc/net/ip_vs_conn");
  return list_connections(connections, options.filter, options.persistence, addresses, sink);
}

}  // namespace ipvsproxier::ctl
