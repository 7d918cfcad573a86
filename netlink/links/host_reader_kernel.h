#pragma once

// KernelHostReader: reads the network namespace in which it was opened, over rtnetlink and
// sock_diag. One thread. Opening, reading and destroying change nothing.

#include <memory>

#include "netlink/links/host_reader.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

class KernelHostReader final : public HostReader {
 public:
  static Result<std::unique_ptr<KernelHostReader>> open(const NlOptions& options = {});

  Result<std::vector<LinkRecord>> links() override;
  Result<std::vector<AddressRecord>> addresses() override;
  Result<Route> route(const RouteQuestion& question) override;
  Result<std::vector<Listener>> listeners() override;

 private:
  KernelHostReader(NlChannel routing, NlChannel sockets)
      : routing_(std::move(routing)), sockets_(std::move(sockets)) {}

  NlChannel routing_;
  NlChannel sockets_;
};

}  // namespace ipvsproxier::netlink
