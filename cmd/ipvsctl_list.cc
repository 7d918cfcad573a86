#include "cmd/ipvsctl_list.h"

#include "cmd/system_names.h"
#include "netlink/ipvs_connections.h"
#include "netlink/ipvs_reader_kernel.h"

namespace ipvsproxier::cmd {

namespace {

std::unique_ptr<inspect::TableForm> form_of(const ListOptions& options,
                                            inspect::AddressNames* names) {
  switch (options.format) {
    case ListFormat::wide:
      return inspect::wide_form(names);
    case ListFormat::json:
      return inspect::json_form();
    case ListFormat::yaml:
      return inspect::yaml_form();
    case ListFormat::save:
      return inspect::save_form();
    case ListFormat::text:
      break;
  }
  return inspect::text_form({options.columns, options.exact, names});
}

netlink::Status list_from_kernel(const ListOptions& options, inspect::AddressNames* names,
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
  const auto form = form_of(options, names);
  return list_table(**reader, options.filter, options.sorted, *form, sink);
}

}  // namespace

netlink::Status run_list(const ListOptions& options, const inspect::TextSink& sink) {
  SystemNames system;
  inspect::AddressNames* names = options.numeric ? nullptr : &system;
  if (options.subject != ListSubject::connections) return list_from_kernel(options, names, sink);
  netlink::ConnectionFile connections("/proc/net/ip_vs_conn");
  return list_connections(connections, options.filter, options.persistence, names, sink);
}

}  // namespace ipvsproxier::cmd
