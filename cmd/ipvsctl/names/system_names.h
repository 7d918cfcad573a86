#pragma once

// SystemNames: this host's names of addresses and ports (nsswitch.conf: files, DNS). Blocks as long
// as the resolver; each name is looked up once. One thread.

#include <map>
#include <utility>

#include "cmd/ipvsctl/names/address_names.h"

namespace ipvsproxier::ctl {

class SystemNames final : public AddressNames {
 public:
  std::optional<std::string> host(const netlink::IpAddress& address) override;
  std::optional<std::string> service(std::uint16_t port, netlink::Protocol protocol) override;

 private:
  std::map<netlink::IpAddress, std::optional<std::string>> hosts_;
  std::map<std::pair<std::uint16_t, netlink::Protocol>, std::optional<std::string>> services_;
};

}  // namespace ipvsproxier::ctl
