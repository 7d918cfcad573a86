#pragma once

// A client for tests of HTTP servers that has no opinion: bytes out, bytes in, over TCP to this
// machine. Blocking; a read that takes longer than 10 s ends.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::test {

struct RawAnswer {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names as they were sent
  std::string body;
};

class RawHttp {
 public:
  // Not connected() if that is refused.
  explicit RawHttp(std::uint16_t port, std::string_view address = "127.0.0.1");

  // On a socket that was made before, when there were descriptors left.
  RawHttp(netlink::UniqueFd socket, std::uint16_t port, std::string_view address = "127.0.0.1");
  static netlink::UniqueFd make_socket(std::string_view address = "127.0.0.1");

  bool connected() const { return static_cast<bool>(fd_); }
  // False when the other end is gone.
  bool send(std::string_view bytes);
  // The next answer; of a HEAD request it has no body.
  RawAnswer read(bool with_body = true);
  // The other end closed, or closes within `wait`; what it sends meanwhile is dropped.
  bool ended(std::chrono::milliseconds wait);

  RawAnswer get(std::string_view target, std::string_view method = "GET");

 private:
  bool receive();

  netlink::UniqueFd fd_;
  std::string received_;
};

// One request on a connection of its own.
RawAnswer http_get(std::uint16_t port, std::string_view target, std::string_view method = "GET",
                   std::string_view address = "127.0.0.1");

}  // namespace ipvsproxier::test
