#include "test/kernel/ctl_states.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "netlink/unique_fd.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

namespace {

constexpr std::uint32_t kMarks = 20;
constexpr int kPorts = 4;  // 5300 to 5303 where traffic goes

unsigned below(std::mt19937& random, unsigned limit) {
  return static_cast<unsigned>(random() % limit);
}

bool one_in(std::mt19937& random, unsigned count) {
  return below(random, count) == 0;
}

std::string pick(std::mt19937& random, const std::vector<std::string>& words) {
  return words[below(random, static_cast<unsigned>(words.size()))];
}

// 1.0.0.0 to 223.255.255.255: real servers are unicast.
std::string any_v4(std::mt19937& random) {
  return fmt::format("{}.{}.{}.{}", 1 + below(random, 223), below(random, 256), below(random, 256),
                     below(random, 256));
}

std::string any_v6(std::mt19937& random) {
  return fmt::format("2001:{:x}:{:x}::{:x}:{:x}", below(random, 65536), below(random, 65536),
                     below(random, 65536), below(random, 65536));
}

struct Service {
  std::string option;  // "-t 10.0.0.1:80", "-f 7 -6"
  bool ipv6 = false;
  bool udp = false;
  bool mark = false;
  unsigned port = 0;
};

Service random_service(std::mt19937& random, bool unsigned_marks) {
  Service service;
  service.ipv6 = one_in(random, 3);
  if (one_in(random, 6)) {
    service.mark = true;
    const auto mark =
        unsigned_marks && one_in(random, 4) ? 3'000'000'000U : 1 + below(random, kMarks);
    service.option = fmt::format("-f {}{}", mark, service.ipv6 ? " -6" : "");
    return service;
  }
  const bool reachable = !one_in(random, 3);
  const auto host = service.ipv6
                        ? reachable ? fmt::format("fd00::{}", 1 + below(random, 3)) : any_v6(random)
                    : reachable ? fmt::format("10.0.0.{}", 1 + below(random, 6))
                                : any_v4(random);
  service.port = one_in(random, 10) ? 0
                 : reachable        ? 5300 + below(random, kPorts)
                                    : 1 + below(random, 65535);
  const auto protocol = pick(random, {"-t", "-t", "-u", "-u", "--sctp-service"});
  service.udp = protocol == "-u";
  service.option =
      fmt::format("{} {}:{}", protocol, service.ipv6 ? "[" + host + "]" : host, service.port);
  return service;
}

std::string scheduling(std::mt19937& random, const Service& service) {
  const auto scheduler = pick(random, {"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "mh",
                                       "sed", "nq", "fo", "ovf"});
  std::string line = " -s " + scheduler;
  const bool persistent = (!service.mark && service.port == 0) || one_in(random, 3);
  if (persistent) {
    line += fmt::format(" -p {}", 1 + below(random, 90'000));
    if (one_in(random, 2))
      line += service.ipv6 ? fmt::format(" -M {}", 1 + below(random, 128))
                           : " -M " + pick(random, {"255.255.255.0", "255.255.255.255", "255.0.0.0",
                                                    "255.0.255.0", "0.0.0.255", "255.255.254.0"});
    if (service.udp && one_in(random, 2)) line += " --pe sip";
  }
  if ((service.udp || service.mark) && one_in(random, 4)) line += " -o";
  if (one_in(random, 3)) {
    const auto suffix = pick(random, {"port", "fallback", "port,{}-fallback"});
    const bool hashing = scheduler == "sh" || scheduler == "mh";
    line += " -b " + (hashing ? scheduler + "-" + fmt::format(fmt::runtime(suffix), scheduler)
                              : pick(random, {"flag-1", "flag-2,flag-3", "flag-1,flag-2,flag-3"}));
  }
  return line;
}

std::string forwarding(std::mt19937& random) {
  const auto checksum = pick(random, {"", " --tun-nocsum", " --tun-csum"});
  switch (below(random, 6)) {
    case 0:
      return " -g";
    case 1:
      return pick(random, {" -i", " -i --tun-type ipip"});
    case 2:
      return fmt::format(" -i --tun-type gue --tun-port {}{}", 1 + below(random, 65535),
                         one_in(random, 4) ? " --tun-remcsum" : checksum);
    case 3:
      return " -i --tun-type gre" + checksum;
    default:
      return " -m";
  }
}

std::string random_server(std::mt19937& random, const Service& service) {
  const auto method = forwarding(random);
  // A server of the other family is reached through a tunnel only.
  const bool ipv6 = method[2] == 'i' && one_in(random, 4) ? !service.ipv6 : service.ipv6;
  const bool reachable = one_in(random, 2);
  const auto host =
      ipv6        ? reachable ? fmt::format("fd00:7::{}", 1 + below(random, 3)) : any_v6(random)
             : reachable ? fmt::format("10.7.7.{}", 1 + below(random, 6))
                  : any_v4(random);
  const bool translated = method == " -m" && service.port != 0;
  auto line = fmt::format("-a {} -r {}:{}{} -w {}", service.option, ipv6 ? "[" + host + "]" : host,
                          translated ? 1 + below(random, 65535) : service.port, method,
                          pick(random, {"0", "1", "1", "3", "65535"}));
  if (one_in(random, 3))
    line += fmt::format(" -x {} -y {}", 100 + below(random, 60'000), below(random, 100));
  return line + "\n";
}

}  // namespace

CtlWorld::CtlWorld() {
  std::string lines = "link add d0 type dummy\nlink set d0 up\n";
  for (int i = 1; i <= 6; ++i)
    lines += fmt::format("addr add 10.0.0.{}/32 dev d0\naddr add 10.7.7.{}/32 dev d0\n", i, i);
  for (int i = 1; i <= 3; ++i)
    lines += fmt::format(
        "addr add fd00::{}/128 dev d0 nodad\naddr add fd00:7::{}/128 dev d0 nodad\n", i, i);
  netns_.netns().ip(lines + "route add 10.0.0.0/8 dev d0\n");
}

std::string random_table(std::mt19937& random, bool unsigned_marks) {
  std::string lines;
  const auto services = below(random, 13);
  for (unsigned i = 0; i < services; ++i) {
    const auto service = random_service(random, unsigned_marks);
    lines += "-A " + service.option + scheduling(random, service) + "\n";
    const auto servers = one_in(random, 4) ? 0 : below(random, 9);
    for (unsigned n = 0; n < servers; ++n) lines += random_server(random, service);
  }
  return lines;
}

void restore_table(const std::string& lines) {
  const TempDir folder;
  const auto file = (folder.path() / "table").string();
  std::ofstream(file) << lines;
  shell("ipvsadm -C; ipvsadm -R <" + file + " 2>&1; true");
}

namespace {

constexpr std::size_t kLargest = 60'000;  // bytes of a datagram

void send_datagrams(std::mt19937& random, const sockaddr* to, socklen_t size, std::uint32_t mark) {
  const std::vector<char> content(kLargest);
  const netlink::UniqueFd socket(::socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  setsockopt(socket.get(), SOL_SOCKET, SO_MARK, &mark, sizeof mark);
  const auto count = below(random, 5);
  // Failures are answers of the network (port unreachable): they are part of the traffic.
  for (unsigned i = 0; i < count; ++i)
    (void)sendto(socket.get(), content.data(), below(random, kLargest), 0, to, size);
}

void begin_connection(const sockaddr* to, socklen_t size) {
  const netlink::UniqueFd socket(
      ::socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  (void)connect(socket.get(), to, size);
}

}  // namespace

void send_traffic(std::mt19937& random) {
  for (std::uint16_t port = 5300; port < 5300 + kPorts; ++port) {
    sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, fmt::format("10.0.0.{}", 1 + below(random, 6)).c_str(), &v4.sin_addr);
    sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
    inet_pton(AF_INET6, fmt::format("fd00::{}", 1 + below(random, 3)).c_str(), &v6.sin6_addr);
    const std::array<std::pair<const sockaddr*, socklen_t>, 2> targets = {
        {{reinterpret_cast<const sockaddr*>(&v4), sizeof v4},
         {reinterpret_cast<const sockaddr*>(&v6), sizeof v6}}};
    for (const auto& [address, size] : targets) {
      begin_connection(address, size);
      send_datagrams(random, address, size, 0);
      send_datagrams(random, address, size, 1 + below(random, kMarks));
    }
  }
}

void send_much(const std::string& ip, std::uint16_t port, int datagrams) {
  const std::vector<char> content(kLargest);
  sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, ip.c_str(), &to.sin_addr);
  const netlink::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (int i = 0; i < datagrams; ++i)
    (void)sendto(socket.get(), content.data(), content.size(), 0,
                 reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace ipvsproxier::test
