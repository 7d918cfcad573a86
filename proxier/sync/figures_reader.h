#pragma once

// FiguresReader: reads the traffic figures of Services from IPVS, in parts, and adds them up to
// counters that never go back: the kernel's counters of a virtual service begin anew when it is
// made again or when somebody zeroes them. Sync thread only.
//
// A reading is asked for (ask()) and read in steps between syncs. After one that took long the next
// is refused for as long: half of the time is for other work. The counters of a virtual service
// that was there before this process, or before its Service was to be counted, count from the first
// reading of it. Traffic since the last reading of a virtual service that others remove is lost.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "netlink/ipvs/ipvs_readings.h"
#include "proxier/model/cluster_state.h"
#include "proxier/model/service_settings.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/transaction.h"
#include "proxier/serve/service_figures.h"
#include "proxier/sync/drain.h"

namespace ipvsproxier::sync {

using PublishFigures = std::function<void(serve::FiguresPart)>;

// What was counted between two readings of one virtual service, which may have begun anew between
// them. Pure.
netlink::IpvsTraffic traffic_between(const netlink::IpvsTraffic& before,
                                     const netlink::IpvsTraffic& now);

class FiguresReader {
 public:
  static constexpr std::size_t kServicesAStep = 16;     // virtual services that are read
  static constexpr std::size_t kLooksAStep = 2048;      // those that are passed over as well
  static constexpr std::size_t kFiguresAPart = 512;     // that are handed over at once
  static constexpr std::size_t kMostRemembered = 4096;  // counters of ports that are gone

  // What it sees besides the kernel.
  struct View {
    const model::ClusterState& cluster;
    const plan::Planner& planner;
    const plan::ActualState& kernel;
    const Drain& drain;
    TimePoint now;
  };

  FiguresReader(model::ServiceMetrics which, PublishFigures publish)
      : which_(which), publish_(std::move(publish)) {}

  bool off() const { return which_ == model::ServiceMetrics::off; }
  // Begins a reading, unless one runs; `silent`: it is not published.
  void ask(bool silent = false);
  // There is nothing to read yet: publishes nothing, so that nobody waits.
  void answer_nothing();
  bool running() const { return pass_.has_value(); }
  // Reads the next virtual services, or hands the next figures over. Only while running().
  void step(netlink::IpvsTable& ipvs, const View& view);

  // Before these operations are carried out: reads what will be gone.
  void note(const plan::Transaction& transaction, netlink::IpvsTable& ipvs, const View& view);

 private:
  struct Series {
    api::NamespacedName service;
    std::string port;
    plan::Facet kind = plan::Facet::cluster_ip;

    friend auto operator<=>(const Series&, const Series&) = default;
  };
  struct Totals {
    std::uint64_t pass = 0;  // the last that read it
    netlink::IpvsTraffic traffic;
    std::uint64_t active = 0;
    std::uint64_t inactive = 0;
    std::uint32_t serving = 0;
    std::uint32_t draining = 0;
    std::uint32_t weightless = 0;
  };
  using Counted = std::map<Series, Totals>;
  // The last reading of a virtual service.
  struct Last {
    std::uint64_t pass = 0;
    netlink::IpvsTraffic traffic;
    std::optional<Counted::iterator> series;  // whose totals have it; nullopt: none yet
  };
  struct Pass {
    bool silent = false;
    std::optional<TimePoint> began;
    std::optional<netlink::VirtualServiceKey> last;  // that was looked at
    bool read = false;                               // all was read; figures are handed over
    std::optional<Series> told;                      // the last that was handed over
  };

  std::optional<Series> series_of(const netlink::VirtualServiceKey& key, const View& view) const;
  bool read_one(netlink::IpvsTable& ipvs, const netlink::VirtualServiceKey& key,
                const Series& series, const View& view);
  void add(const netlink::VirtualServiceKey& key, const netlink::IpvsTraffic& now,
           Counted::iterator series);
  void add_servers(const netlink::VirtualServiceKey& key,
                   const std::vector<netlink::ListedServer>& servers, const View& view,
                   Totals& totals) const;
  void read_some(netlink::IpvsTable& ipvs, const View& view);
  void end_reading();
  void end_pass(TimePoint now);
  void forget_oldest();
  void hand_over(TimePoint now);
  void fail();
  void forget(const netlink::VirtualServiceKey& key, netlink::IpvsTable& ipvs, const View& view);

  const model::ServiceMetrics which_;
  const PublishFigures publish_;
  std::uint64_t passes_ = 0;
  std::optional<Pass> pass_;
  TimePoint rests_until_{};
  Counted totals_;
  std::map<netlink::VirtualServiceKey, Last> last_;  // of those that are counted
};

}  // namespace ipvsproxier::sync
