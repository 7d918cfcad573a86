#pragma once

// Rehearsal: kernel tables for a dry run. They read a real kernel and write nothing: each write is
// recorded as a step and succeeds. Reads keep returning the real kernel's state, so a rehearsal is
// one pass over everything (Reconciler::run_to_end). One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

enum class Area : std::uint8_t {
  host,             // sysctls and IPVS timeouts
  links,            // links, addresses on our links, and local routes
  sets,             // sets and their elements
  rules,            // packet filter rules
  virtual_servers,  // virtual services and real servers
};

std::string_view to_string(Area area);  // "virtual servers"

enum class Change : char { add = '+', remove = '-', change = '~' };

struct Step {
  Area area = Area::host;
  Change change = Change::change;
  std::string what;                                   // "10.96.0.9:80/TCP rr"
  std::optional<netlink::VirtualServiceKey> service;  // the virtual service that the step is about

  friend auto operator<=>(const Step&, const Step&) = default;
};

// A nullptr stands for an empty table: its kernel module is not loaded.
struct RealTables {
  netlink::IpvsTable* ipvs = nullptr;
  netlink::LinkTable* links = nullptr;
  ipset::SetTable* sets = nullptr;
  ipset::RuleTable* rules = nullptr;  // must not commit anything (IptcSettings::rehearse)
};

class Rehearsal {
 public:
  // The tables must outlive this.
  explicit Rehearsal(const RealTables& real);
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;
  ~Rehearsal() = default;

  Kernel kernel() { return {ipvs_, links_, sets_, rules_, conntrack_}; }
  // In the order in which the operations would run.
  const std::vector<Step>& steps() const { return steps_; }
  void note(Step step) { steps_.push_back(std::move(step)); }

 private:
  class Ipvs final : public netlink::IpvsTable {
   public:
    Ipvs(netlink::IpvsTable* real, std::vector<Step>& steps) : real_(real), steps_(steps) {}
    std::vector<netlink::Status> apply(std::span<const netlink::IpvsOp> ops) override;
    netlink::Result<std::vector<netlink::VirtualService>> list_services() override;
    netlink::Result<ServicesPart> begin_services() override;
    netlink::Result<ServicesPart> next_services() override { return begin_services(); }
    netlink::Result<std::vector<netlink::ListedServer>> list_servers(
        const netlink::VirtualServiceKey& service) override;
    netlink::Result<netlink::IpvsTimeouts> timeouts() override;
    netlink::Status set_timeouts(const netlink::IpvsTimeouts& timeouts) override;

   private:
    // From the last listing.
    const netlink::VirtualService* service(const netlink::VirtualServiceKey& key) const;
    const netlink::RealServer* server(const netlink::VirtualServiceKey& key,
                                      const netlink::RealServerKey& server) const;
    Step step_of(const netlink::IpvsOp& op) const;

    netlink::IpvsTable* real_;
    std::vector<Step>& steps_;
    std::map<netlink::VirtualServiceKey, netlink::VirtualService> services_;
    std::map<netlink::VirtualServiceKey, std::map<netlink::RealServerKey, netlink::RealServer>>
        servers_;
  };

  class Links final : public netlink::LinkTable {
   public:
    Links(netlink::LinkTable* real, std::vector<Step>& steps) : real_(real), steps_(steps) {}
    netlink::Result<bool> ensure_dummy(std::string_view name) override;
    netlink::Result<bool> remove_dummy(std::string_view name) override;
    netlink::Result<std::vector<std::string>> list_links() override;
    netlink::Result<std::vector<netlink::InterfaceAddress>> list_addresses() override;
    std::vector<netlink::Status> apply(std::string_view link,
                                       std::span<const netlink::AddressOp> ops) override;
    netlink::Result<std::vector<netlink::IpAddress>> list_local_routes() override;
    std::vector<netlink::Status> apply_local_routes(
        std::span<const netlink::AddressOp> ops) override;

   private:
    netlink::LinkTable* real_;
    std::vector<Step>& steps_;
  };

  class Sets final : public ipset::SetTable {
   public:
    Sets(ipset::SetTable* real, std::vector<Step>& steps) : real_(real), steps_(steps) {}
    netlink::Status ensure(const ipset::SetSpec& spec) override;
    netlink::Result<std::optional<ipset::ListedSet>> list(const std::string& name) override;
    std::vector<netlink::Status> apply(const ipset::SetSpec& spec,
                                       std::span<const ipset::ElementOp> ops) override;
    netlink::Status destroy(const std::string& name) override;

   private:
    ipset::SetTable* real_;
    std::vector<Step>& steps_;
  };

  class Rules final : public ipset::RuleTable {
   public:
    Rules(ipset::RuleTable* real, std::vector<Step>& steps) : real_(real), steps_(steps) {}
    netlink::Result<ipset::TableRules> list(const ipset::TableRules& wanted) override;
    netlink::Result<bool> apply(const ipset::TableRules& desired) override;
    netlink::Result<ipset::RemovedRules> remove(const ipset::RuleRemoval& removal) override;
    netlink::Result<bool> set_aside(const ipset::ChainMove& move,
                                    const ipset::RuleRemoval& surplus) override;

   private:
    void note(const ipset::TableRules& table, Change change, std::string_view chain,
              const ipset::Rule& rule);

    ipset::RuleTable* real_;
    std::vector<Step>& steps_;
    // Chains that new chains replace: their rules are not ours.
    std::set<std::pair<netlink::Family, std::string>> aside_;
  };

  // UDP flows become stale only when real servers are removed, so a dry run has none to report.
  class Conntrack final : public netlink::ConntrackTable {
   public:
    netlink::Result<std::vector<netlink::UdpFlow>> list_udp(const netlink::FlowQuery&) override {
      return std::vector<netlink::UdpFlow>{};
    }
    std::vector<netlink::Status> remove(std::span<const netlink::UdpFlow> flows) override {
      return std::vector<netlink::Status>(flows.size());
    }
  };

  std::vector<Step> steps_;
  Ipvs ipvs_;
  Links links_;
  Sets sets_;
  Rules rules_;
  Conntrack conntrack_;
};

}  // namespace ipvsproxier::sync
