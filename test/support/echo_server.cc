// A pod's servers and a client's requests, for scripts; usage() lists them. Each may come after
// "in NETNS_PATH". Exit status 1 and the reason on stderr when nobody answers or a download breaks.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "test/support/echo.h"
#include "test/support/stream.h"

namespace {

using ipvsproxier::netlink::IpAddress;
using ipvsproxier::netlink::Protocol;
using ipvsproxier::netlink::UniqueFd;
using ipvsproxier::test::EchoServer;
using ipvsproxier::test::Stream;
using ipvsproxier::test::StreamServer;

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int usage() {
  std::cerr
      << "usage: echo_server [in NETNS_PATH] serve NAME ADDRESS PORT...\n"
         "       echo_server [in NETNS_PATH] ask tcp|udp ADDRESS PORT MILLISECONDS COUNT\n"
         "       echo_server [in NETNS_PATH] stream NAME ADDRESS PORT\n"
         "       echo_server [in NETNS_PATH] download ADDRESS PORT SECONDS\n"
         "serve and stream print \"ready\" and stay; ask prints \"NAME sees ADDRESS\" for each\n"
         "answer; download keeps one connection to a stream busy until then, or until SIGTERM.\n";
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

int stream(const std::vector<std::string_view>& words) {
  const auto address = IpAddress::parse(words[2]);
  const auto port = parse_number<std::uint16_t>(words[3]);
  if (!address || !port) return usage();
  const auto server = StreamServer::start(std::string(words[1]), Protocol::tcp, *address, *port);
  if (!server) {
    std::cerr << to_string(server.error()) << "\n";
    return 1;
  }
  std::cout << "ready" << std::endl;
  for (;;) ::pause();
}

volatile std::sig_atomic_t told_to_end = 0;

int download(const std::vector<std::string_view>& words) {
  constexpr std::chrono::milliseconds kTick{50};
  const auto address = IpAddress::parse(words[1]);
  const auto port = parse_number<std::uint16_t>(words[2]);
  const auto seconds = parse_number<int>(words[3]);
  if (!address || !port || !seconds) return usage();
  auto stream = Stream::open(Protocol::tcp, *address, *port);
  if (!stream) {
    std::cerr << to_string(stream.error()) << "\n";
    return 1;
  }
  std::signal(SIGTERM, [](int) { told_to_end = 1; });
  std::cout << "connected to " << stream->greeting().server << std::endl;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(*seconds);
  for (int blocks = 1;; ++blocks) {
    const auto status = stream->exchange();
    if (!status) {
      std::cerr << "broken at block " << blocks << ": " << to_string(status.error()) << "\n";
      return 1;
    }
    if (told_to_end != 0 || std::chrono::steady_clock::now() >= end) {
      std::cout << blocks << " blocks, none lost" << std::endl;
      return 0;
    }
    std::this_thread::sleep_for(kTick);
  }
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
  if (words.size() == 4 && words[0] == "stream") return stream(words);
  if (words.size() == 4 && words[0] == "download") return download(words);
  return usage();
}
