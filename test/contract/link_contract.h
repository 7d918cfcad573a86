#pragma once

// What every LinkTable must do, in a namespace that has nothing but `lo`. See ipvs_contract.h for
// how to call it.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "netlink/links/link_table.h"

namespace ipvsproxier::test {

inline constexpr std::string_view kLink = "kube-ipvs0";

inline std::vector<std::string> addresses_of(netlink::LinkTable& table, std::string_view link) {
  const auto listed = table.list_addresses();
  if (!listed) FAIL(to_string(listed.error()));
  std::vector<std::string> result;
  for (const auto& one : *listed)
    if (one.link == link)
      result.push_back(one.address.to_string() + "/" + std::to_string(one.prefix_length));
  std::ranges::sort(result);
  return result;
}

inline netlink::AddressOp address_op(bool add, const std::string& ip) {
  const auto parsed = netlink::IpAddress::parse(ip);
  REQUIRE(parsed);
  return {add, *parsed};
}

inline void all_succeed(const std::vector<netlink::Status>& outcomes) {
  for (const auto& outcome : outcomes)
    if (!outcome) FAIL(to_string(outcome.error()));
}

inline netlink::LoopSpec loop_spec() {
  const auto address = [](const char* text) { return *netlink::IpAddress::parse(text); };
  return {.first = "kube-local0",
          .second = "kube-local1",
          .ways = {{address("127.0.0.1"), address("169.254.107.1"), address("169.254.107.2"),
                    *netlink::IpPrefix::parse("169.254.107.0/30")},
                   {address("::1"), address("fd69:7076:7301::1"), address("fd69:7076:7301::2"),
                    *netlink::IpPrefix::parse("fd69:7076:7301::/126")}}};
}

inline void link_contract(netlink::LinkTable& table) {
  using namespace netlink;

  SECTION("the dummy is created once") {
    const auto first = table.ensure_dummy(kLink);
    if (!first) FAIL(to_string(first.error()));
    CHECK(*first);
    const auto second = table.ensure_dummy(kLink);
    REQUIRE(second);
    CHECK_FALSE(*second);
    CHECK(addresses_of(table, kLink).empty());
  }
  SECTION("a link of the name that is no dummy is left alone") {
    const auto result = table.ensure_dummy("lo");
    REQUIRE_FALSE(result);
    CHECK(result.error().kind == ErrorKind::already);
    CHECK(result.error().where.find("not a dummy") != std::string::npos);
    CHECK(addresses_of(table, "lo") == std::vector<std::string>{"127.0.0.1/8", "::1/128"});
  }
  SECTION("the dummy is removed once, with its addresses") {
    REQUIRE(table.ensure_dummy(kLink));
    all_succeed(table.apply(kLink, std::vector{address_op(true, "10.0.0.1")}));
    const auto has_link = [&] {
      const auto names = table.list_links();
      if (!names) FAIL(to_string(names.error()));
      CHECK(std::ranges::count(*names, "lo") == 1);
      return std::ranges::count(*names, kLink) == 1;
    };
    CHECK(has_link());
    const auto first = table.remove_dummy(kLink);
    if (!first) FAIL(to_string(first.error()));
    CHECK(*first);
    CHECK_FALSE(has_link());
    CHECK(addresses_of(table, kLink).empty());
    const auto second = table.remove_dummy(kLink);
    REQUIRE(second);
    CHECK_FALSE(*second);
    const auto other = table.remove_dummy("lo");
    REQUIRE_FALSE(other);
    CHECK(other.error().kind == ErrorKind::already);
    CHECK(other.error().where.find("remove dummy link lo") != std::string::npos);
    CHECK(has_link() == false);
  }
  SECTION("a name that no link can have is refused") {
    const auto result = table.ensure_dummy("a-name-that-is-too-long");
    REQUIRE_FALSE(result);
    CHECK(result.error().kind == ErrorKind::malformed);
  }
  SECTION("without the link, additions are missing and removals succeed") {
    const std::vector ops = {address_op(true, "10.0.0.1"), address_op(false, "10.0.0.1")};
    const auto outcomes = table.apply(kLink, ops);
    REQUIRE(outcomes.size() == 2);
    REQUIRE_FALSE(outcomes[0]);
    CHECK(outcomes[0].error().kind == ErrorKind::missing);
    CHECK(outcomes[0].error().where.find("add address 10.0.0.1/32") != std::string::npos);
    CHECK(outcomes[1]);
  }
  SECTION("addresses of both families come and go, and repetition changes nothing") {
    REQUIRE(table.ensure_dummy(kLink));
    const std::vector add = {address_op(true, "10.0.0.1"), address_op(true, "fd00::1"),
                             address_op(true, "10.0.0.2")};
    const std::vector<std::string> wanted = {"10.0.0.1/32", "10.0.0.2/32", "fd00::1/128"};
    all_succeed(table.apply(kLink, add));
    CHECK(addresses_of(table, kLink) == wanted);
    all_succeed(table.apply(kLink, add));
    CHECK(addresses_of(table, kLink) == wanted);
    const std::vector remove = {address_op(false, "10.0.0.1"), address_op(false, "fd00::1"),
                                address_op(false, "10.0.0.1"), address_op(false, "fd00::9")};
    all_succeed(table.apply(kLink, remove));
    all_succeed(table.apply(kLink, remove));
    CHECK(addresses_of(table, kLink) == std::vector<std::string>{"10.0.0.2/32"});
    CHECK(table.apply(kLink, {}).empty());
  }
  SECTION("an address may be on two dummies, and leaves each by itself") {
    REQUIRE(table.ensure_dummy(kLink));
    REQUIRE(table.ensure_dummy("kube-ipvs1"));
    const std::vector add = {address_op(true, "10.0.0.1"), address_op(true, "fd00::1")};
    const std::vector remove = {address_op(false, "10.0.0.1"), address_op(false, "fd00::1")};
    all_succeed(table.apply(kLink, add));
    all_succeed(table.apply("kube-ipvs1", add));
    all_succeed(table.apply(kLink, remove));
    CHECK(addresses_of(table, kLink).empty());
    CHECK(addresses_of(table, "kube-ipvs1") ==
          std::vector<std::string>{"10.0.0.1/32", "fd00::1/128"});
    const auto listed = table.list_addresses();
    REQUIRE(listed);
    for (const auto& one : *listed) CHECK(one.on_dummy == (one.link == "kube-ipvs1"));
  }
  SECTION("a loop is made once, what is missing comes back, and goes with its routes") {
    const LoopSpec spec = loop_spec();
    const auto names = [&] {
      std::vector<std::string> all = table.list_links().value();
      std::erase_if(all, [](const std::string& name) { return !name.starts_with("kube-local"); });
      std::ranges::sort(all);
      return all;
    };
    const std::vector<std::string> both{spec.first, spec.second};
    CHECK(table.ensure_loop(spec, true).value().written.size() == 1);
    CHECK(names().empty());
    const auto made = table.ensure_loop(spec, false);
    if (!made) FAIL(to_string(made.error()));
    CHECK_FALSE(made->written.empty());
    for (const auto& [family, error] : made->failed) FAIL(to_string(error));
    CHECK(names() == both);
    CHECK(table.ensure_loop(spec, false).value() == LoopReport{});
    CHECK(table.ensure_loop(spec, true).value() == LoopReport{});
    CHECK(table.remove_loop(spec).value());
    CHECK(names().empty());
    CHECK_FALSE(table.remove_loop(spec).value());
    CHECK_FALSE(table.ensure_loop(spec, false).value().written.empty());
    CHECK(table.list_local_routes().value().empty());
  }
  SECTION("links of a loop's names that are none are left alone") {
    REQUIRE(table.ensure_dummy("kube-local1"));
    for (const bool dry : {true, false}) {
      const auto refused = table.ensure_loop(loop_spec(), dry);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().kind == ErrorKind::already);
    }
    const auto kept = table.remove_loop(loop_spec());
    REQUIRE_FALSE(kept);
    CHECK(kept.error().kind == ErrorKind::already);
    CHECK(table.remove_dummy("kube-local1").value());
  }
  SECTION("a thousand additions with failures between them") {
    REQUIRE(table.ensure_dummy(kLink));
    std::vector<AddressOp> ops;
    std::vector<std::string> wanted;
    const auto bad = [](std::size_t i) { return i % 7 == 3 || i == 31 || i == 32 || i == 999; };
    for (std::uint32_t i = 0; i < 1000; ++i) {
      ops.push_back(bad(i) ? address_op(true, "ff02::1")
                           : AddressOp{true, IpAddress::v4(0x0a000000U + i)});
      if (!bad(i)) wanted.push_back(ops.back().address.to_string() + "/32");
    }
    const auto outcomes = table.apply(kLink, ops);
    REQUIRE(outcomes.size() == ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      INFO(to_string(ops[i]));
      REQUIRE(outcomes[i].has_value() != bad(i));
      INFO((outcomes[i] ? "" : to_string(outcomes[i].error())));
      if (!outcomes[i]) REQUIRE(outcomes[i].error().kind == ErrorKind::malformed);
    }
    std::ranges::sort(wanted);
    CHECK(addresses_of(table, kLink) == wanted);
  }
  SECTION(
      "local routes of both families come and go, beside addresses, and repetition does nothing") {
    const auto routes = [&] {
      const auto listed = table.list_local_routes();
      if (!listed) FAIL(to_string(listed.error()));
      std::vector<std::string> result;
      for (const auto& address : *listed) result.push_back(address.to_string());
      std::ranges::sort(result);
      return result;
    };
    REQUIRE(table.ensure_dummy(kLink));
    CHECK(routes().empty());
    all_succeed(table.apply(kLink, std::vector{address_op(true, "10.0.0.1")}));
    const std::vector add = {address_op(true, "10.0.0.1"), address_op(true, "fd00::1"),
                             address_op(true, "10.0.0.2"), address_op(true, "fd00::2")};
    const std::vector<std::string> wanted = {"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"};
    all_succeed(table.apply_local_routes(add));
    CHECK(routes() == wanted);
    all_succeed(table.apply_local_routes(add));
    CHECK(routes() == wanted);
    all_succeed(table.apply(kLink, std::vector{address_op(true, "fd00::1")}));
    CHECK(addresses_of(table, kLink) == std::vector<std::string>{"10.0.0.1/32", "fd00::1/128"});
    const std::vector remove = {address_op(false, "10.0.0.1"), address_op(false, "fd00::1"),
                                address_op(false, "10.0.0.1"), address_op(false, "fd00::9")};
    all_succeed(table.apply_local_routes(remove));
    all_succeed(table.apply_local_routes(remove));
    CHECK(routes() == std::vector<std::string>{"10.0.0.2", "fd00::2"});
    CHECK(addresses_of(table, kLink) == std::vector<std::string>{"10.0.0.1/32", "fd00::1/128"});
    REQUIRE(table.remove_dummy(kLink));
    CHECK(routes() == std::vector<std::string>{"10.0.0.2", "fd00::2"});
    CHECK(table.apply_local_routes({}).empty());
  }
}

}  // namespace ipvsproxier::test
