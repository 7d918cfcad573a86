// LibipsetTable in the scratch kernel: the contract, and what only a kernel can show.

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ipset/sets/set_libipset.h"
#include "netlink/unique_fd.h"
#include "test/contract/set_contract.h"
#include "test/contract/set_parts_contract.h"
#include "test/kernel/netns.h"
#include "test/kernel/patience.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using ipset::LibipsetTable;

class KernelSetWorld {
 public:
  SetTable& table() { return *table_; }
  std::uint64_t writes() const { return table_->writes(); }
  void make_foreign(const std::string& name) { shell("ipset create " + name + " hash:mac"); }
  void hold(const std::string& name) {
    shell("ipset create HOLDER list:set && ipset add HOLDER " + name);
  }

 private:
  FreshNetns netns_;
  std::unique_ptr<LibipsetTable> table_ = require(LibipsetTable::open());
};

TEST_CASE("the kernel's sets keep the set contract", "[set]") {
  check_set_contract<KernelSetWorld>();
}

TEST_CASE("the kernel's sets are listed in parts", "[set]") {
  check_set_parts_contract<KernelSetWorld>();
}

TEST_CASE("a set is created as kube-proxy creates it", "[set]") {
  KernelSetWorld world;
  for (const Family family : netlink::kFamilies) {
    for (const ipset::SetId id : ipset::kSetIds) {
      require_created(world.table(), ipset::set_spec(id, family));
    }
  }
  const std::string saved = shell("ipset save | sed 's/ bucketsize.*//' | sort");
  const auto has = [&](const std::string& line) {
    INFO(saved);
    return saved.find(line + "\n") != std::string::npos;
  };
  CHECK(has("create KUBE-LOOP-BACK hash:ip,port,ip family inet hashsize 1024 maxelem 65536"));
  CHECK(
      has("create KUBE-6-LOAD-BALANCER-SOURCE-CID hash:ip,port,net family inet6 hashsize 1024 "
          "maxelem 65536"));
  CHECK(has("create KUBE-6-IPVS-IPS hash:ip family inet6 hashsize 1024 maxelem 65536"));
  CHECK(has("create KUBE-6-NODE-PORT-TCP bitmap:port range 0-65535"));
  CHECK(std::count(saved.begin(), saved.end(), '\n') == 34);
}

TEST_CASE("elements are written as ipset writes them, and the other way round", "[set]") {
  KernelSetWorld world;
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip_port_net, Family::ipv4, "CIDRS");
  require_created(table, spec);
  const std::vector<Element> elements = {IpPortNetElement{contract_ip("192.0.2.10"), Protocol::tcp,
                                                          443, contract_net("198.51.100.7/32")},
                                         IpPortNetElement{contract_ip("192.0.2.10"), Protocol::sctp,
                                                          443, contract_net("203.0.113.0/24")}};
  check_all_succeeded(table.apply(spec, contract_ops(true, elements)), 2);
  CHECK(shell("ipset save -sorted CIDRS | grep ^add | sort") ==
        "add CIDRS 192.0.2.10,sctp:443,203.0.113.0/24\n"
        "add CIDRS 192.0.2.10,tcp:443,198.51.100.7\n");
  shell("ipset add CIDRS 192.0.2.11,udplite:7,10.0.0.0/8");
  shell("ipset add CIDRS 192.0.2.10,tcp:443,203.0.113.128/25 nomatch");
  const auto listed = table.list("CIDRS");
  REQUIRE(listed);
  REQUIRE((*listed)->elements.size() == 3);
  // What others put in can be taken out, also if we have no name for its protocol.
  check_all_succeeded(table.apply(spec, contract_ops(false, (*listed)->elements)), 3);
  CHECK(shell("ipset save CIDRS | grep -c ^add") == "1\n");
}

TEST_CASE("a set with an option that ours do not have is replaced by one without", "[set]") {
  KernelSetWorld world;
  const SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv4, "OPTIONS");
  for (const char* options :
       {"timeout 60", "netmask 32", "counters comment", "maxelem 7", "counters maxelem 100000"}) {
    INFO(options);
    shell(std::string("ipset create OPTIONS hash:ip ") + options +
          " && ipset add OPTIONS 10.0.0.1");
    world.hold("OPTIONS");
    require_created(world.table(), spec);
    CHECK(shell("ipset save | sed 's/ bucketsize.*//' | sort") ==
          "add HOLDER OPTIONS\nadd OPTIONS 10.0.0.1\ncreate HOLDER list:set size 8\n"
          "create OPTIONS hash:ip family inet hashsize 1024 maxelem 65536\n");
    shell("ipset destroy HOLDER; ipset destroy OPTIONS");
  }
  shell("ipset create PORTS bitmap:port range 30000-32767 && ipset add PORTS 30080");
  require_created(world.table(), contract_spec(SetKind::bitmap_port, Family::ipv4, "PORTS"));
  CHECK(shell("ipset save") == "create PORTS bitmap:port range 0-65535\nadd PORTS 30080\n");
}

TEST_CASE("a set that is replaced holds its elements for the rules all the time",
          "[set][item-17]") {
  KernelSetWorld world;
  SetTable& table = world.table();
  const auto spec = contract_spec(SetKind::hash_ip, Family::ipv4, "BUSY");
  auto larger = spec;
  larger.max_elements = 131072;
  require_created(table, spec);
  std::vector<ElementOp> ops{{true, IpElement{contract_ip("127.0.0.2")}}};
  for (std::uint32_t n = 1; n < 20'000; ++n)
    ops.push_back({true, IpElement{contract_ip(Family::ipv4, n)}});
  check_all_succeeded(table.apply(spec, ops), ops.size());
  shell("iptables -A OUTPUT -d 127.0.0.2 -m set ! --match-set BUSY dst -j DROP");
  std::atomic<int> passed = 0;
  std::atomic<int> dropped = 0;
  {
    std::jthread sender([&](const std::stop_token& stop) {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(9);
      to.sin_addr.s_addr = htonl(0x7f000002);
      const netlink::UniqueFd udp(::socket(AF_INET, SOCK_DGRAM, 0));
      while (!stop.stop_requested()) {
        const auto sent =
            ::sendto(udp.get(), "x", 1, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
        // The hook answers the sender of a packet that it drops; the port is closed.
        ++(sent < 0 && errno == EPERM ? dropped : passed);
      }
    });
    const auto while_packets_pass = [&](const SetSpec& wanted) {
      const int before = passed;
      require_created(table, wanted);
      CHECK(passed > before);
    };
    for (int i = 0; i < 3; ++i) {
      while_packets_pass(larger);
      while_packets_pass(spec);
    }
    CHECK(dropped == 0);
    CHECK((*table.list("BUSY"))->elements.size() == ops.size());
    const std::vector<ElementOp> removal{{false, ops[0].element}};
    check_all_succeeded(table.apply(spec, removal), 1);
    for (int waited = 0; dropped == 0 && waited < kPatience; ++waited) ::usleep(1000);
  }
  CHECK(dropped > 0);
}

TEST_CASE("a set that somebody removes or replaces meanwhile is answered as it is", "[set]") {
  KernelSetWorld world;
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv4, "GONE");
  require_created(table, spec);
  const auto ops = contract_ops(true, contract_elements(spec.kind, spec.family));
  check_all_succeeded(table.apply(spec, ops), ops.size());
  shell("ipset destroy GONE");
  for (const Status& status : table.apply(spec, ops)) {
    REQUIRE_FALSE(status);
    CHECK(status.error().kind == ErrorKind::missing);
  }
  shell("ipset create GONE hash:ip family inet6");
  for (const Status& status : table.apply(spec, ops)) {
    REQUIRE_FALSE(status);
    CHECK(status.error().kind == ErrorKind::malformed);
  }
  CHECK(contract_listing(table, "GONE").empty());
}

// The calling thread without one of its privileges, for a while.
class WithoutPrivilege {
 public:
  explicit WithoutPrivilege(unsigned capability) {
    ::syscall(SYS_capget, &header_, before_.data());
    auto reduced = before_;
    reduced[capability / 32].effective &= ~(1U << (capability % 32));
    ::syscall(SYS_capset, &header_, reduced.data());
  }
  WithoutPrivilege(const WithoutPrivilege&) = delete;
  WithoutPrivilege& operator=(const WithoutPrivilege&) = delete;
  ~WithoutPrivilege() { ::syscall(SYS_capset, &header_, before_.data()); }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> before_{};
};

TEST_CASE("without the privilege every operation says so", "[set]") {
  KernelSetWorld world;
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv4, "DENIED");
  require_created(table, spec);
  const auto ops = contract_ops(true, contract_elements(spec.kind, spec.family));
  const auto is_denied = [](const netlink::Error& error) {
    INFO(netlink::to_string(error));
    CHECK(error.kind == ErrorKind::denied);
    CHECK(error.where.find("CAP_NET_ADMIN") != std::string::npos);
    CHECK(error.where.find("DENIED") != std::string::npos);
  };
  {
    const WithoutPrivilege reduced(CAP_NET_ADMIN);
    is_denied(table.ensure(spec).error());
    is_denied(table.list("DENIED").error());
    is_denied(table.destroy("DENIED").error());
    for (const Status& status : table.apply(spec, ops)) is_denied(status.error());
  }
  CHECK(contract_listing(table, "DENIED").empty());
  check_all_succeeded(table.apply(spec, ops), ops.size());
}

// Runs by name in a guest where nothing can be loaded (see meson.build).
TEST_CASE("a kernel module that is not there is named", "[.no-modules]") {
  const FreshNetns fresh;
  const std::string folder = shell("printf /usr/lib/uml/modules/$(uname -r)/kernel/net/netfilter");
  const auto closed = LibipsetTable::open();
  REQUIRE_FALSE(closed);
  CHECK(closed.error().kind == ErrorKind::missing);
  CHECK(closed.error().where.find("kernel module nfnetlink is missing") != std::string::npos);

  shell("insmod " + folder + "/nfnetlink.ko");
  const auto table = require(LibipsetTable::open());
  const SetSpec spec = contract_spec(SetKind::hash_ip_port, Family::ipv4);
  const auto is_missing = [&](const char* module) {
    const Status refused = table->ensure(spec);
    REQUIRE_FALSE(refused);
    INFO(netlink::to_string(refused.error()));
    CHECK(refused.error().kind == ErrorKind::missing);
    CHECK(refused.error().where.find("kernel module " + std::string(module) + " is missing") !=
          std::string::npos);
  };
  is_missing("ip_set");
  CHECK(table->list(spec.name).error().kind == ErrorKind::missing);
  shell("insmod " + folder + "/ipset/ip_set.ko");
  is_missing("ip_set_hash_ipport");
  CHECK_FALSE(table->list(spec.name)->has_value());
  shell("insmod " + folder + "/ipset/ip_set_hash_ipport.ko");
  CHECK(table->ensure(spec));
}

TEST_CASE("5000 elements are added and removed in tens of milliseconds", "[set]") {
  KernelSetWorld world;
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip_port, Family::ipv4);
  require_created(table, spec);
  std::vector<Element> elements;
  for (std::uint32_t n = 1; n <= 5000; ++n) {
    elements.push_back(IpPortElement{contract_ip(Family::ipv4, n), Protocol::tcp, 80});
  }
  const auto timed = [&](const char* what, bool add) {
    const auto ops = contract_ops(add, elements);
    const auto start = std::chrono::steady_clock::now();
    const auto outcomes = table.apply(spec, ops);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - start;
    std::printf("%s 5000 elements: %.1f ms\n", what, spent.count());
    check_all_succeeded(outcomes, ops.size());
  };
  timed("add", true);
  timed("add again", true);
  CHECK((*table.list(spec.name))->elements.size() == 5000);
  timed("remove", false);
}

}  // namespace
}  // namespace ipvsproxier::test
