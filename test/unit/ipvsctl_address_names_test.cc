#include "cmd/ipvsctl/names/address_names.h"

#include <netdb.h>

#include <catch2/catch.hpp>

namespace ipvsproxier::ctl {
namespace {

using netlink::IpAddress;
using netlink::Protocol;

TEST_CASE("system names: ports by protocol, as /etc/services has them") {
  SystemNames names;
  // A system without that file knows none.
  const bool has_file = getservbyname("domain", "udp") != nullptr;
  CHECK(names.service(53, Protocol::udp) ==
        (has_file ? std::optional<std::string>("domain") : std::nullopt));
  CHECK(names.service(53, Protocol::udp) == names.service(53, Protocol::udp));
  CHECK_FALSE(names.service(65432, Protocol::tcp));
  CHECK_FALSE(names.service(53, Protocol::sctp));
}

TEST_CASE("system names: this host itself has one") {
  SystemNames names;
  CHECK(names.host(*IpAddress::parse("127.0.0.1")) == "localhost");
}

}  // namespace
}  // namespace ipvsproxier::ctl
