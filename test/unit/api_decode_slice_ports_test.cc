#include <catch2/catch.hpp>

#include "test/unit/decoded_text.h"

namespace ipvsproxier::api {
namespace {

using netlink::Protocol;
using test::decode;
using test::lines_of;
using test::slice_with;
using Lines = std::vector<std::string>;

// The API server refuses no such number.
TEST_CASE("a port number of a slice that is none costs that port alone") {
  Problems problems;
  const auto slice = decode(
      slice_with("addressType: IPv4\nports: [{name: a, port: 65536}, {name: b, port: -1}, "
                 "{name: c, port: 80}, {name: d, port: 99999999999999999999}, {name: e, port: x}, "
                 "{name: f, port: 1.5}, {name: g, port: 65535}]\n"
                 "endpoints: [{addresses: [10.0.0.1]}]\n"),
      problems);
  REQUIRE(slice);
  CHECK(std::get<EndpointSlice>(*slice).endpoints.size() == 1);
  CHECK(std::get<EndpointSlice>(*slice).ports ==
        std::vector<EndpointPort>{{"c", Protocol::tcp, 80}, {"g", Protocol::tcp, 65535}});
  const std::string start = "error: f: EndpointSlice shop/web-1: ports[";
  const std::string middle = "].port: must be a whole number from 1 to 65535, not ";
  const std::string end = "; this port is left out";
  CHECK(lines_of(problems) ==
        Lines{start + "0" + middle + "65536" + end, start + "1" + middle + "-1" + end,
              start + "3" + middle + "1e+20" + end, start + "4" + middle + "\"x\"" + end,
              start + "5" + middle + "1.5" + end});
}

}  // namespace
}  // namespace ipvsproxier::api
