#pragma once

// Traffic that goes on while a test does other things: connections that last, and new ones at a
// steady rate. One thread for many connections.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "test/kernel/cluster.h"

namespace ipvsproxier::test {

struct Target {
  netlink::IpAddress address;
  std::uint16_t port = 0;
};

// Connections to StreamServers, each exchanging a block again and again. A broken one stays broken.
class LongConnections {
 public:
  LongConnections() = default;
  LongConnections(const LongConnections&) = delete;
  LongConnections& operator=(const LongConnections&) = delete;
  ~LongConnections();  // stops and closes them

  // Before run(). The server's name; throws std::runtime_error if it cannot connect.
  std::string open(const Host& host, const Target& target);
  void run();

  void stop();  // no blocks any more

  // Waits until every connection exchanged so many blocks more. "" if all did, else which did not
  // and why. A block that stays away for 15 s counts as broken.
  std::string moves_on(std::size_t blocks = 3);

 private:
  struct Connection {
    std::string name;  // "client -> local-1"
    Stream stream;
    std::size_t blocks = 0;
    std::string error;
  };
  void exchange_all(const std::stop_token& stop);

  std::mutex mutex_;  // of what is in a Connection but its stream
  std::vector<Connection> connections_;
  std::jthread thread_;
};

struct ConnectionCounts {
  std::size_t made = 0;
  std::map<std::string, std::size_t> servers;   // who answered
  std::map<std::string, std::size_t> failures;  // why not
  std::size_t failed() const { return made - answered(); }
  std::size_t answered() const;
};

std::string to_string(const ConnectionCounts& counts);

// Opens a TCP connection to an EchoServer so many times a second, from a fixed number of threads,
// until it has opened `total`. What a busy machine makes late is made up for. Source ports are used
// once.
class NewConnections {
 public:
  struct Plan {
    const Host& host;
    Target target;
    std::size_t total = 0;
    std::size_t per_second = 200;
    std::uint16_t first_port = 20000;  // of the sources: first_port + total is at most 65535
  };
  explicit NewConnections(const Plan& plan);
  NewConnections(const NewConnections&) = delete;
  NewConnections& operator=(const NewConnections&) = delete;
  ~NewConnections();  // opens no more

  void stop() { stop_ = true; }  // opens no more; wait() waits for those that are open
  std::size_t made() const { return std::min<std::size_t>(next_, plan_.total); }
  ConnectionCounts wait();  // for the last one

 private:
  void open_some();

  Plan plan_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  ConnectionCounts counts_;
  std::vector<std::thread> threads_;
};

}  // namespace ipvsproxier::test
