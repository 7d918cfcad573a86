#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "cmd/ipvs_proxier/process.h"
#include "cmd/kernel_tables.h"

namespace ipvsproxier::cmd {
namespace {

using StatusFields = std::map<std::string, std::string>;

// What a child that `acts` reads with `command` ("cat FILE"), as names and values.
template <typename Act>
StatusFields in_child(const Act& acts, const char* command) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    acts();
    ::execl("/bin/sh", "sh", "-c", command, nullptr);
    ::_exit(1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(size));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(status == 0);
  StatusFields lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    const auto colon = line.find(":\t");
    if (colon != std::string::npos) lines[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return lines;
}

std::uint64_t mask(const StatusFields& lines, const std::string& name) {
  return std::stoull(lines.at(name), nullptr, 16);
}

// NET_BIND_SERVICE 10, NET_ADMIN 12, NET_RAW 13.
constexpr std::uint64_t kAllowed = (1U << 10U) | (1U << 12U) | (1U << 13U);
constexpr char kShow[] = "cat /proc/self/status";

TEST_CASE("what rules of iptables and links of localhost need is loaded while that is allowed") {
  using enum ipset::PacketFilter;
  CHECK(needed_modules(iptables, true).contains("xt_tcpudp"));
  CHECK_FALSE(needed_modules(nftables, true).contains("xt_tcpudp"));
  CHECK(needed_modules(nftables, true).contains("veth"));
  CHECK_FALSE(needed_modules(nftables, false).contains("veth"));
  CHECK_FALSE(needed_modules(iptables, true).contains("veth"));
}

TEST_CASE("what is started after privileges were dropped has no more than what is kept") {
  const auto before = in_child([] {}, kShow);
  const auto after = in_child([] { static_cast<void>(drop_privileges()); }, kShow);
  CHECK(after.at("NoNewPrivs") == "1");
  for (const auto* set : {"CapPrm", "CapEff"}) {
    INFO(set);
    CHECK(mask(after, set) == (mask(before, set) & kAllowed));
  }
  constexpr std::uint64_t kSetPcap = 1U << 8U;
  const bool may_bound = (mask(before, "CapEff") & kSetPcap) != 0;
  CHECK(mask(after, "CapBnd") ==
        (may_bound ? mask(before, "CapBnd") & kAllowed : mask(before, "CapBnd")));
}

TEST_CASE("what is kept is named, and dropping again changes nothing") {
  const auto lines = in_child(
      [] {
        const auto first = drop_privileges();
        const auto second = drop_privileges();
        if (!first || !second) ::_exit(1);
        for (const auto& name : *first) std::printf("%s:\tfirst\n", name.c_str());
        for (const auto& name : *second) std::printf("again %s:\tsecond\n", name.c_str());
        std::fflush(stdout);
      },
      kShow);
  const auto effective = mask(lines, "CapEff");
  for (const auto& [name, bit] : std::map<std::string, unsigned>{
           {"net_bind_service", 10}, {"net_admin", 12}, {"net_raw", 13}}) {
    INFO(name);
    const bool kept = (effective >> bit & 1U) != 0;
    CHECK(lines.count(name) == (kept ? 1 : 0));
    CHECK(lines.count("again " + name) == (kept ? 1 : 0));
  }
}

}  // namespace
}  // namespace ipvsproxier::cmd
