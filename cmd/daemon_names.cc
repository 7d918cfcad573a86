#include "cmd/daemon_names.h"

#include <utility>

#include "cmd/output.h"
#include "proxier/watch/query.h"

namespace ipvsproxier::cmd {

netlink::Result<inspect::ClusterNames> names_of_daemon(ControlClient& daemon,
                                                       const inspect::ServiceQuery& query) {
  std::string target = "/v1/names?";
  if (query.ns) target += "namespace=" + watch::encode_query(*query.ns) + "&";
  if (query.service)
    target += "service=" + watch::encode_query(api::to_string(*query.service)) + "&";
  inspect::ClusterNames names;
  auto next = query.after ? to_string(*query.after) : "";
  do {
    const auto page =
        daemon.get(next.empty() ? target : target + "after=" + watch::encode_query(next));
    if (!page) return page.error();
    auto after = names.take_page(*page);
    if (!after) return daemon.stranger();
    next = *std::move(after);
  } while (!next.empty());
  return names;
}

std::optional<inspect::ClusterNames> names_if_known(const std::string& socket) {
  ControlClient daemon(socket);
  auto names = names_of_daemon(daemon);
  if (names) return *std::move(names);
  complain("names of the cluster are not known: " + to_string(names.error()));
  return std::nullopt;
}

netlink::Result<std::optional<inspect::ClusterNames>> names_for_view(
    bool wanted, const std::string& socket, const inspect::ServiceQuery& services) {
  if (!services.of_some()) return wanted ? names_if_known(socket) : std::nullopt;
  ControlClient daemon(socket);
  auto names = names_of_daemon(daemon, services);
  if (!names) return names.error();
  return std::optional(*std::move(names));
}

}  // namespace ipvsproxier::cmd
