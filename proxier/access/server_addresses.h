#pragma once

// ServerAddresses: the addresses by which this node reaches the API server: those that answered
// within half an hour (a proxy's, if one is used), and all that the server's host name has. Main
// thread only; the name is looked up by a thread of the C library.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "netlink/ip_address.h"
#include "proxier/loop/timers.h"

namespace ipvsproxier::access {

class ServerAddresses {
 public:
  using OnChange = std::function<void(const std::set<netlink::IpAddress>&)>;

  static constexpr std::chrono::minutes kRemembered{30};  // longer than any watch lasts
  static constexpr std::chrono::minutes kLookupAgain{1};  // at the earliest, after an answer

  // `timers` must outlive this; the deadline is named "addresses of the API server".
  ServerAddresses(loop::Timers& timers, OnChange on_change);
  ServerAddresses(const ServerAddresses&) = delete;
  ServerAddresses& operator=(const ServerAddresses&) = delete;
  ~ServerAddresses();

  // An answer of the server ("https://api.example.com:6443") came from this address.
  void answered(const std::string& server, const netlink::IpAddress& peer);

 private:
  using TimePoint = loop::Timers::Clock::time_point;
  struct Lookup;

  void look_up(const std::string& host);
  void poll();
  void tell();

  loop::Timers& timers_;
  OnChange on_change_;
  std::map<netlink::IpAddress, TimePoint> peers_;
  std::set<netlink::IpAddress> named_;
  std::set<netlink::IpAddress> told_;
  std::unique_ptr<Lookup> lookup_;  // under way
  TimePoint next_lookup_{};
};

}  // namespace ipvsproxier::access
