// KernelJudge sees what is wrong, and only that.

#include <catch2/catch.hpp>

#include "test/kernel/kernel_judge.h"
#include "test/kernel/kernel_state.h"

namespace ipvsproxier::test {
namespace {

using netlink::AddServer;
using netlink::AddService;
using netlink::DeleteServer;
using netlink::EditServer;
using netlink::IpAddress;
using netlink::RealServer;
using netlink::VirtualService;

const VirtualService kService{
    .key = {.address = IpAddress::parse("10.96.0.10").value(), .port = 80}, .scheduler = "rr"};

RealServer server_of(const char* address, std::uint32_t weight) {
  return {.key = {IpAddress::parse(address).value(), 8080}, .weight = weight};
}

Facts with(const std::vector<const char*>& servers) {
  Facts facts{service_fact(kService)};
  for (const auto* one : servers) facts.insert(server_fact(kService.key, server_of(one, 1).key));
  return facts;
}

TEST_CASE("the judge lets old and new be, and tells what is neither", "[content]") {
  const FreshNetns netns;
  IpvsView ipvs(netns.netns());
  KernelJudge judge(netns.netns(), {});
  judge.announce(with({"10.244.1.1"}));
  judge.look();
  CHECK(judge.verdict() == "");
  ipvs.apply(AddService{kService});
  ipvs.apply(AddServer{kService.key, server_of("10.244.1.1", 1)});
  REQUIRE(judge.reached());
  // One goes, drained first, and one comes.
  judge.announce(with({"10.244.1.2"}));
  ipvs.apply(EditServer{kService.key, server_of("10.244.1.1", 0)});
  ipvs.apply(AddServer{kService.key, server_of("10.244.1.2", 1)});
  judge.look();
  ipvs.apply(DeleteServer{kService.key, server_of("10.244.1.1", 1).key});
  REQUIRE(judge.reached());
  CHECK(judge.verdict() == "");

  SECTION("what is missing") {
    ipvs.apply(DeleteServer{kService.key, server_of("10.244.1.2", 1).key});
    judge.look();
    CHECK(judge.verdict() ==
          "- " + server_fact(kService.key, server_of("10.244.1.2", 1).key) + "\n");
  }
  SECTION("what was true once") {
    ipvs.apply(AddServer{kService.key, server_of("10.244.1.1", 1)});
    judge.look();
    CHECK(judge.verdict() ==
          "+ " + server_fact(kService.key, server_of("10.244.1.1", 1).key) + "\n");
  }
  SECTION("what stays, but takes no connections") {
    ipvs.apply(EditServer{kService.key, server_of("10.244.1.2", 0)});
    judge.look();
    CHECK_THAT(judge.verdict(), Catch::Contains("weight 0"));
  }
}

}  // namespace
}  // namespace ipvsproxier::test
