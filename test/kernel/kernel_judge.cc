#include "test/kernel/kernel_judge.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_libipset.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/links/link_kernel.h"
#include "proxier/plan/bindings.h"

namespace ipvsproxier::test {
namespace {

using netlink::Result;

// Between two looks; a look takes about a millisecond.
constexpr std::chrono::milliseconds kBetweenLooks{20};

constexpr std::array kSetsOfFacts = {ipset::SetId::cluster_ip, ipset::SetId::ipvs_ips,
                                     ipset::SetId::loop_back, ipset::SetId::load_balancer_source_ip,
                                     ipset::SetId::node_port_sctp_hash};

template <typename T>
T answered(Result<T> answer) {
  if (!answer) throw std::runtime_error(netlink::to_string(answer.error()));
  return *std::move(answer);
}

Facts minus(const Facts& left, const Facts& right) {
  Facts rest;
  std::set_difference(left.begin(), left.end(), right.begin(), right.end(),
                      std::inserter(rest, rest.end()));
  return rest;
}

// At most so many lines of them.
constexpr std::size_t kMostShown = 20;

void append(std::string& text, const char* sign, const Facts& facts) {
  std::size_t shown = 0;
  for (const auto& fact : facts) {
    if (++shown > kMostShown) break;
    text += sign + fact + "\n";
  }
  if (facts.size() > kMostShown) text += sign + std::to_string(facts.size()) + " in all\n";
}

constexpr std::string_view kServer = "real server ";
constexpr std::string_view kWeight = " weight ";

// The real server as it is while it is removed.
std::string drained(const std::string& fact) {
  if (!fact.starts_with(kServer)) return {};
  return fact.substr(0, fact.rfind(kWeight)) + std::string(kWeight) + "0";
}

}  // namespace

std::string service_fact(const netlink::VirtualService& service) {
  return "virtual service " + netlink::to_string(service.key) + " " +
         std::string(service.scheduler.view()) + " flags " + std::to_string(service.flags) +
         " timeout " + std::to_string(service.timeout);
}

std::string server_fact(const netlink::VirtualServiceKey& service,
                        const netlink::RealServerKey& server, std::uint32_t weight) {
  return std::string(kServer) + netlink::to_string(service) + " -> " + netlink::to_string(server) +
         std::string(kWeight) + std::to_string(weight);
}

std::string address_fact(const netlink::IpAddress& address) {
  return "address " + address.to_string();
}

std::string element_fact(const std::string& set, const std::string& element) {
  return "element " + set + " " + element;
}

std::string difference(const Facts& expected, const Facts& actual) {
  std::string text;
  append(text, "- ", minus(expected, actual));
  append(text, "+ ", minus(actual, expected));
  return text;
}

struct KernelJudge::Tables {
  explicit Tables(const Netns& netns) {
    const EnterNetns enter(netns);
    ipvs = answered(netlink::KernelIpvsTable::open());
    links = answered(netlink::KernelLinkTable::open());
    sets = answered(ipset::LibipsetTable::open());
  }

  Facts read() const {
    Facts facts;
    for (const auto& service : answered(ipvs->list_services())) {
      auto servers = ipvs->list_servers(service.key);
      // It went between the two lists.
      if (!servers && servers.error().kind == netlink::ErrorKind::missing) continue;
      facts.insert(service_fact(service));
      for (const auto& listed : answered(std::move(servers)))
        facts.insert(server_fact(service.key, listed.server.key, listed.server.weight));
    }
    for (const auto& one : answered(links->list_addresses()))
      if (plan::dummy_number(one.link)) facts.insert(address_fact(one.address));
    for (const auto family : netlink::kFamilies)
      for (const auto id : kSetsOfFacts) {
        const auto name = ipset::set_name(id, family);
        const auto set = answered(sets->list(name));
        if (!set) continue;
        for (const auto& element : set->elements)
          facts.insert(element_fact(name, ipset::to_string(element)));
      }
    return facts;
  }

  std::unique_ptr<netlink::KernelIpvsTable> ipvs;
  std::unique_ptr<netlink::KernelLinkTable> links;
  std::unique_ptr<ipset::LibipsetTable> sets;
};

KernelJudge::KernelJudge(const Netns& netns, Facts now)
    : tables_(std::make_unique<Tables>(netns)),
      newest_(now),
      must_(now),
      may_(std::move(now)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

KernelJudge::~KernelJudge() = default;

void KernelJudge::announce(Facts next) {
  const std::lock_guard lock(mutex_);
  Facts still;
  std::set_intersection(must_.begin(), must_.end(), next.begin(), next.end(),
                        std::inserter(still, still.end()));
  must_ = std::move(still);
  may_.insert(next.begin(), next.end());
  newest_ = std::move(next);
}

bool KernelJudge::reached(int timeout_ms) {
  std::unique_lock lock(mutex_);
  narrows_ = true;
  const bool done =
      changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return !narrows_; });
  narrows_ = false;
  return done;
}

void KernelJudge::look(std::size_t times) {
  std::unique_lock lock(mutex_);
  // The look that goes on may have begun before.
  const auto enough = looks_ + times + 1;
  changed_.wait(lock, [&] { return looks_ >= enough; });
}

std::string KernelJudge::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

std::string KernelJudge::missing() const {
  const std::lock_guard lock(mutex_);
  return difference(newest_, seen_);
}

Facts KernelJudge::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void KernelJudge::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Facts seen;
    std::string unreadable;
    try {
      seen = tables_->read();
    } catch (const std::runtime_error& error) {
      unreadable = error.what();
    }
    {
      const std::lock_guard lock(mutex_);
      if (unreadable.empty())
        judge(seen);
      else if (verdict_.empty())
        verdict_ = unreadable;
      seen_ = std::move(seen);
      ++looks_;
    }
    changed_.notify_all();
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void KernelJudge::judge(const Facts& seen) {
  if (verdict_.empty()) {
    auto surplus = minus(seen, may_);
    for (const auto& fact : minus(may_, must_)) surplus.erase(drained(fact));
    append(verdict_, "- ", minus(must_, seen));
    append(verdict_, "+ ", surplus);
  }
  if (!narrows_ || seen != newest_) return;
  must_ = may_ = newest_;
  narrows_ = false;
}

}  // namespace ipvsproxier::test
