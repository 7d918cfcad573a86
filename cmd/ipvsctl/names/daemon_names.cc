#include "cmd/ipvsctl/names/daemon_names.h"

#include <utility>

#include "cmd/ipvsctl/output.h"
#include "proxier/access/transport.h"

namespace ipvsproxier::ctl {

netlink::Result<ClusterNames> names_of_daemon(ControlClient& daemon,
                                              const inspect::ServiceQuery& query) {
  std::string target = "/v1/names?";
  if (query.ns) target += "namespace=" + access::encode_query(*query.ns) + "&";
  if (query.service)
    target += "service=" + access::encode_query(api::to_string(*query.service)) + "&";
  ClusterNames names;
  auto next = query.after ? to_string(*query.after) : "";
  do {
    const auto page =
        daemon.get(next.empty() ? target : target + "after=" + access::encode_query(next));
    if (!page) return page.error();
    auto after = names.take_page(*page);
    if (!after) return daemon.stranger();
    next = *std::move(after);
  } while (!next.empty());
  return names;
}

std::optional<ClusterNames> names_if_known(const std::string& socket) {
  ControlClient daemon(socket);
  auto names = names_of_daemon(daemon);
  if (names) return *std::move(names);
  complain("names of the cluster are not known: " + to_string(names.error()));
  return std::nullopt;
}

netlink::Result<std::optional<ClusterNames>> names_for_view(bool wanted, const std::string& socket,
                                                            const inspect::ServiceQuery& services) {
  if (!services.of_some()) return wanted ? names_if_known(socket) : std::nullopt;
  ControlClient daemon(socket);
  auto names = names_of_daemon(daemon, services);
  if (!names) return names.error();
  return std::optional(*std::move(names));
}

}  // namespace ipvsproxier::ctl
