#include "cmd/ipvsctl_list.h"

#include "cmd/daemon_names.h"
#include "cmd/system_names.h"
#include "netlink/ipvs_connections.h"
#include "netlink/ipvs_reader_kernel.h"

namespace ipvsproxier::cmd {

namespace {

using KnownNames = std::optional<inspect::ClusterNames>;

// `names` must outlive the form.
std::unique_ptr<inspect::TableForm> form_of(const ListOptions& options,
                                            inspect::AddressNames* addresses,
                                            const KnownNames& names) {
  const auto* const known = options.names && names ? &*names : nullptr;
  const auto with_names = [&](std::unique_ptr<inspect::TableForm> form) {
    return known != nullptr ? inspect::named_form(std::move(form), *known) : std::move(form);
  };
  switch (options.format) {
    case ListFormat::wide:
      return with_names(inspect::wide_form(addresses));
    case ListFormat::json:
      return inspect::json_form(known);
    case ListFormat::yaml:
      return inspect::yaml_form(known);
    case ListFormat::save:
      return inspect::save_form();
    case ListFormat::text:
      break;
  }
  return with_names(inspect::text_form({options.columns, options.exact, addresses}));
}

netlink::Status list_from_kernel(const ListOptions& options, inspect::AddressNames* addresses,
                                 const inspect::TextSink& sink) {
  const auto reader = netlink::KernelIpvsReader::open();
  if (!reader) return reader.error();
  if (options.subject == ListSubject::timeouts) {
    const auto timeouts = (*reader)->timeouts();
    if (!timeouts) return timeouts.error();
    return sink(inspect::timeout_text(*timeouts));
  }
  if (options.subject == ListSubject::daemons) {
    const auto daemons = (*reader)->daemons();
    if (!daemons) return daemons.error();
    return sink(inspect::daemon_text(*daemons));
  }
  const auto names = names_for_view(options.names, options.socket, options.services);
  if (!names) return names.error();
  auto filter = options.filter;
  if (options.services.of_some()) filter.named = &**names;
  const auto form = form_of(options, addresses, *names);
  return list_table(**reader, filter, options.sorted, *form, sink);
}

}  // namespace

netlink::Status run_list(const ListOptions& options, const inspect::TextSink& sink) {
  SystemNames system;
  inspect::AddressNames* addresses = options.resolve ? &system : nullptr;
  if (options.subject != ListSubject::connections)
    return list_from_kernel(options, addresses, sink);
  netlink::ConnectionFile connections("/proc/net/ip_vs_conn");
  return list_connections(connections, options.filter, options.persistence, addresses, sink);
}

}  // namespace ipvsproxier::cmd
