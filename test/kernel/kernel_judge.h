#pragma once

// KernelJudge: looks at what proxying keeps in the kernel of a network namespace, again and again,
// on a thread of its own, and remembers the first time that it was not right.
//
// What it sees are facts, a line each: virtual services, real servers, addresses of our dummy links
// and elements of the sets of cluster IPs, of all addresses, of hairpins, of load balancers that
// let this node in and of SCTP node ports. Right is what is not older than the last state that was
// reached and not newer than the last that was announced: a fact of all states between the two must
// be there, a fact of none must not. A real server of some of them only may also have weight 0, as
// it has while it is removed.

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "netlink/ipvs/ipvs_types.h"
#include "test/kernel/netns.h"
#include "test/kernel/patience.h"

namespace ipvsproxier::test {

using Facts = std::set<std::string>;

std::string service_fact(const netlink::VirtualService& service);
std::string server_fact(const netlink::VirtualServiceKey& service,
                        const netlink::RealServerKey& server, std::uint32_t weight = 1);
std::string address_fact(const netlink::IpAddress& address);
std::string element_fact(const std::string& set, const std::string& element);

// "- FACT" for what is missing, "+ FACT" for what should not be there, some of each; "" if both
// are the same.
std::string difference(const Facts& expected, const Facts& actual);

class KernelJudge {
 public:
  // `now` is right until more is announced. Throws std::runtime_error if the tables of the kernel
  // cannot be opened; if one cannot be read later, that is the verdict.
  KernelJudge(const Netns& netns, Facts now);
  KernelJudge(const KernelJudge&) = delete;
  KernelJudge& operator=(const KernelJudge&) = delete;
  ~KernelJudge();

  // Before what makes it true can happen.
  void announce(Facts next);
  // Waits until the kernel is as announced last: then only that is right. False when the time is
  // over.
  bool reached(int timeout_ms = kPatience);
  // Waits until it has looked so many times more.
  void look(std::size_t times = 3);

  // "" if it was right whenever it was looked at, else what was wrong the first time.
  std::string verdict() const;
  // How what was seen last differs from what was announced last.
  std::string missing() const;
  Facts seen() const;  // at the last look

 private:
  struct Tables;

  void run(const std::stop_token& stop);
  void judge(const Facts& seen);

  std::unique_ptr<Tables> tables_;  // used on the thread only
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Facts newest_;
  Facts must_;
  Facts may_;
  Facts seen_;
  std::string verdict_;
  std::size_t looks_ = 0;
  bool narrows_ = false;  // somebody waits until the newest is reached
  std::jthread thread_;
};

}  // namespace ipvsproxier::test
