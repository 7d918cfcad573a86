#pragma once

// FakeIpvsReader: a table that is given, read in the order in which it was given. It counts how
// many real servers it handed on. Values that tests of listings share.

#include <string>
#include <utility>
#include <vector>

#include "netlink/ipvs/ipvs_reader.h"

namespace ipvsproxier::test {

class FakeIpvsReader final : public netlink::IpvsReader {
 public:
  using Entry = std::pair<netlink::ServiceReading, std::vector<netlink::ServerReading>>;

  explicit FakeIpvsReader(std::vector<Entry> table) : table_(std::move(table)) {}

  netlink::Result<netlink::IpvsInfo> info() override {
    return netlink::IpvsInfo{.version = 0x010201, .connection_table_size = 4096};
  }

  netlink::Status services(
      const std::function<netlink::Status(const netlink::ServiceReading&)>& each) override {
    for (const auto& [service, servers] : table_)
      if (auto status = each(service); !status) return status;
    return {};
  }

  netlink::Status servers(
      const netlink::VirtualServiceKey& key,
      const std::function<netlink::Status(const netlink::ServerReading&)>& each) override {
    for (const auto& [service, servers] : table_)
      if (service.service.key == key)
        for (const auto& server : servers) {
          ++servers_read_;
          if (auto status = each(server); !status) return status;
        }
    return {};
  }

  netlink::Result<netlink::IpvsTimeouts> timeouts() override { return netlink::IpvsTimeouts{}; }
  netlink::Result<std::vector<netlink::SyncDaemon>> daemons() override {
    return std::vector<netlink::SyncDaemon>{};
  }

  int servers_read() const { return servers_read_; }

 private:
  std::vector<Entry> table_;
  int servers_read_ = 0;
};

inline netlink::ServiceReading read_service(const std::string& ip, std::uint16_t port,
                                            netlink::Protocol protocol = netlink::Protocol::tcp) {
  const auto address = *netlink::IpAddress::parse(ip);
  return {.service = {.key = {.address = address, .protocol = protocol, .port = port},
                      .scheduler = "rr",
                      .netmask_bits = address_bits(address.family())}};
}

inline netlink::ServiceReading read_mark(std::uint32_t mark, netlink::Family family) {
  return {.service = {.key = {.address = netlink::IpAddress::any(family), .fwmark = mark},
                      .scheduler = "wlc",
                      .netmask_bits = address_bits(family)}};
}

inline netlink::ServerReading read_server(const std::string& ip, std::uint16_t port,
                                          std::uint32_t weight = 1) {
  return {.listed = {.server = {.key = {*netlink::IpAddress::parse(ip), port}, .weight = weight}}};
}

}  // namespace ipvsproxier::test
