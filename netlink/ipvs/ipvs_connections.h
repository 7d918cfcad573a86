#pragma once

// IPVS connections, read from /proc: the kernel has no netlink message for them. Source:
// net/netfilter/ipvs/ip_vs_conn.c (Linux 6.1).
//
//   Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
//   TCP 0A000001 8F4A 0A600001 01BB 0A0A0002 192B ESTABLISHED     899
//   UDP fd00:0000:...:0001 8F4A fd00:... 0035 fd00:... 0035 UDP             299
//
// Addresses are hexadecimal numbers (IPv4) or IPv6 text; both may stand in one line, since a
// connection over IPv4 may go to an IPv6 server.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

struct IpvsConnection {
  std::string protocol;  // "TCP", "UDP", "SCTP", "IP" and others
  IpAddress client_address;
  std::uint16_t client_port = 0;
  IpAddress virtual_address;
  std::uint16_t virtual_port = 0;
  IpAddress server_address;
  std::uint16_t server_port = 0;
  std::string state;
  std::uint32_t expires = 0;       // seconds
  std::string persistence_engine;  // "" for none
  std::string persistence_data;    // up to its first blank

  friend bool operator==(const IpvsConnection&, const IpvsConnection&) = default;
};

// Parses one line without its line end. `malformed` for anything else, including the title line.
Result<IpvsConnection> parse_connection(std::string_view line);

class ConnectionSource {
 public:
  virtual ~ConnectionSource() = default;
  // Calls `each` for every connection in the kernel's order until `each` fails; that failure is the
  // result. Memory does not grow with the listing.
  virtual Status connections(const std::function<Status(const IpvsConnection&)>& each) = 0;
};

// Reads a file of the format above: /proc/net/ip_vs_conn. `missing` if the file does not exist: the
// kernel has no IPVS or the module is not loaded.
class ConnectionFile final : public ConnectionSource {
 public:
  explicit ConnectionFile(std::string path) : path_(std::move(path)) {}
  Status connections(const std::function<Status(const IpvsConnection&)>& each) override;

 private:
  std::string path_;
};

}  // namespace ipvsproxier::netlink
