// A pod's server and a client's request, for scripts:
//
//   echo_server serve NAME ADDRESS PORT...      TCP and UDP on each port; prints "ready" and stays
//   echo_server ask tcp|udp ADDRESS PORT [MS]   prints "NAME ADDRESS" of who answered and whom it
//   saw;
//                                               exit status 1 and the reason on stderr if nobody
//                                               did

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "test/support/echo.h"

namespace {

using ipvsproxier::netlink::IpAddress;
using ipvsproxier::netlink::Protocol;
using ipvsproxier::netlink::UniqueFd;
using ipvsproxier::test::EchoServer;

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int usage() {
  std::cerr << "usage: echo_server [in NETNS_PATH] serve NAME ADDRESS PORT...\n"
               "       echo_server [in NETNS_PATH] ask tcp|udp ADDRESS PORT MILLISECONDS COUNT\n";
  return 2;
}

int serve(const std::vector<std::string_view>& words) {
  const auto address = IpAddress::parse(words[2]);
  if (!address) return usage();
  std::vector<std::unique_ptr<EchoServer>> servers;
  for (std::size_t i = 3; i < words.size(); ++i) {
    const auto port = parse_number<std::uint16_t>(words[i]);
    if (!port) return usage();
    auto server =
        EchoServer::start(std::string(words[1]), *address, *port, {Protocol::tcp, Protocol::udp});
    if (!server) {
      std::cerr << to_string(server.error()) << "\n";
      return 1;
    }
    servers.push_back(std::move(*server));
  }
  std::cout << "ready" << std::endl;
  for (;;) ::pause();
}

int ask(const std::vector<std::string_view>& words) {
  const auto address = IpAddress::parse(words[2]);
  const auto port = parse_number<std::uint16_t>(words[3]);
  const auto timeout = parse_number<int>(words[4]);
  const auto count = parse_number<int>(words[5]);
  if (!address || !port || !timeout || !count || (words[1] != "tcp" && words[1] != "udp")) {
    return usage();
  }
  int status = 0;
  std::multiset<std::string> answers;
  for (int i = 0; i < *count; ++i) {
    const auto answer =
        ipvsproxier::test::ask(words[1] == "tcp" ? Protocol::tcp : Protocol::udp, *address, *port,
                               {.source = {}, .source_port = 0, .timeout_ms = *timeout});
    if (answer) {
      answers.insert(answer->server + " sees " + answer->client.to_string());
    } else {
      std::cerr << to_string(answer.error()) << "\n";
      status = 1;
    }
  }
  for (const std::string& answer : answers) std::cout << answer << "\n";
  return status;
}

bool enter_netns(std::string_view path) {
  const UniqueFd fd(::open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC));
  if (fd && ::setns(fd.get(), CLONE_NEWNET) == 0) return true;
  std::perror("echo_server: enter network namespace");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.size() > 2 && words[0] == "in") {
    if (!enter_netns(words[1])) return 1;
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.size() >= 4 && words[0] == "serve") return serve(words);
  if (words.size() == 6 && words[0] == "ask") return ask(words);
  return usage();
}
