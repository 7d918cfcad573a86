#pragma once

// Writes addresses and ports as numbers or as names.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "netlink/ip_address.h"

namespace ipvsproxier::ctl {

// Looks up names. One thread.
class AddressNames {
 public:
  virtual ~AddressNames() = default;

  // nullopt: no name.
  virtual std::optional<std::string> host(const netlink::IpAddress& address) = 0;
  virtual std::optional<std::string> service(std::uint16_t port, netlink::Protocol protocol) = 0;
};

// This host's names (nsswitch.conf: files, DNS). Blocks as long as the resolver; each name is
// looked up once. One thread.
class SystemNames final : public AddressNames {
 public:
  std::optional<std::string> host(const netlink::IpAddress& address) override;
  std::optional<std::string> service(std::uint16_t port, netlink::Protocol protocol) override;

 private:
  std::map<netlink::IpAddress, std::optional<std::string>> hosts_;
  std::map<std::pair<std::uint16_t, netlink::Protocol>, std::optional<std::string>> services_;
};

// "10.0.0.1:80", "[fd00::1]:80", "web.example.org:http". Numbers without `names`; without a
// protocol the port is a number. At most 59 characters, which is ipvsadm's limit.
std::string address_text(const netlink::IpAddress& address, std::uint16_t port,
                         std::optional<netlink::Protocol> protocol, AddressNames* names);

}  // namespace ipvsproxier::ctl
