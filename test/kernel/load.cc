#include "test/kernel/load.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace ipvsproxier::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kRequestPatience = 15'000;  // milliseconds: three retransmissions of a SYN are in it
constexpr milliseconds kPause{20};
constexpr std::size_t kThreads = 8;

}  // namespace

LongConnections::~LongConnections() {
  stop();
}

void LongConnections::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::string LongConnections::open(const Host& host, const Target& target) {
  auto stream = host.open_stream(target.address, target.port, kRequestPatience);
  if (!stream) throw std::runtime_error(netlink::to_string(stream.error()));
  std::string server = stream->greeting().server;
  connections_.push_back({host.name + " -> " + server, std::move(*stream), 0, ""});
  return server;
}

void LongConnections::run() {
  thread_ = std::jthread([this](const std::stop_token& stop) { exchange_all(stop); });
}

void LongConnections::exchange_all(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    for (auto& connection : connections_) {
      if (stop.stop_requested()) return;
      if (!connection.error.empty()) continue;
      const auto status = connection.stream.exchange(kRequestPatience);
      const std::lock_guard lock(mutex_);
      if (status)
        ++connection.blocks;
      else
        connection.error = netlink::to_string(status.error());
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::string LongConnections::moves_on(std::size_t blocks) {
  std::vector<std::size_t> goals;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& connection : connections_) goals.push_back(connection.blocks + blocks);
  }
  for (;;) {
    bool all = true;
    std::string broken;
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < connections_.size(); ++i) {
        const auto& connection = connections_[i];
        if (!connection.error.empty())
          broken += connection.name + " after " + std::to_string(connection.blocks) +
                    " blocks: " + connection.error + "\n";
        all = all && connection.blocks >= goals[i];
      }
    }
    // The thread breaks what does not move: this ends.
    if (all || !broken.empty()) return broken;
    ::poll(nullptr, 0, 5);
  }
}

std::size_t ConnectionCounts::answered() const {
  std::size_t sum = 0;
  for (const auto& [server, count] : servers) sum += count;
  return sum;
}

std::string to_string(const ConnectionCounts& counts) {
  std::string text = std::to_string(counts.made) + " connections;";
  for (const auto& [server, count] : counts.servers)
    text += " " + server + ": " + std::to_string(count);
  for (const auto& [error, count] : counts.failures)
    text += "\nfailed " + std::to_string(count) + " times: " + error;
  return text;
}

NewConnections::NewConnections(const Plan& plan) : plan_(plan) {
  if (plan.first_port + plan.total > 65535) throw std::runtime_error("too many connections");
  for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { open_some(); });
}

NewConnections::~NewConnections() {
  stop_ = true;
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

void NewConnections::open_some() {
  const EnterNetns inside(*plan_.host.netns);
  const auto begin = Clock::now();
  ConnectionCounts counts;
  for (;;) {
    const std::size_t number = next_++;
    if (number >= plan_.total || stop_) break;
    std::this_thread::sleep_until(begin + milliseconds(number * 1000 / plan_.per_second));
    const auto port = static_cast<std::uint16_t>(plan_.first_port + number);
    const auto answer = ask(netlink::Protocol::tcp, plan_.target.address, plan_.target.port,
                            {.source = plan_.host.address(plan_.target.address.family()),
                             .source_port = port,
                             .timeout_ms = kRequestPatience});
    ++counts.made;
    if (answer)
      ++counts.servers[answer->server];
    else
      ++counts.failures[netlink::to_string(answer.error())];
  }
  const std::lock_guard lock(mutex_);
  counts_.made += counts.made;
  for (const auto& [server, count] : counts.servers) counts_.servers[server] += count;
  for (const auto& [error, count] : counts.failures) counts_.failures[error] += count;
}

ConnectionCounts NewConnections::wait() {
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  return counts_;
}

}  // namespace ipvsproxier::test
