#pragma once

// FiguresReader: reads the traffic figures of Services from IPVS, in parts, and adds them up to
// counters that never go back: the kernel's counters of a virtual service begin anew when it is
// made again or when somebody zeroes them. Sync thread only.
//
// A reading is asked for (ask()) and read in steps between syncs. After one that took long the next
// is refused for as long: half of the time is for other work; after one that failed for longer.
// A virtual service that the kernel does not tell about is left out alone. One that was not there
// at the start, or at the reading before, counts from its beginning; one that was there already
// before its Service was to be counted, from the first reading of it. What a virtual service
// counted after the last reading of it is lost when it is removed.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/logger.h>

#include "netlink/ipvs/ipvs_readings.h"
#include "netlink/ipvs/ipvs_table.h"
#include "netlink/result.h"
#include "proxier/model/cluster_state.h"
#include "proxier/model/service_settings.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/planner.h"
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
  static constexpr std::size_t kMostSeries = 20'000;    // ports by kinds, with those remembered
  static constexpr std::size_t kMostOfService = 256;    // ports by kinds of one Service
  // A namespace gets no more series than so many times those that are free: alone four fifths of
  // all, and others find some left.
  static constexpr std::size_t kShareOfFree = 4;
  static constexpr std::size_t kServersALook = 100;  // as much work as a virtual service
  static constexpr std::chrono::seconds kRestAfterFailure{30};

  // What it sees besides the kernel.
  struct View {
    const model::ClusterState& cluster;
    const plan::Planner& planner;
    const plan::ActualState& kernel;
    const Drain& drain;
    TimePoint now;
  };

  FiguresReader(model::ServiceMetrics which, PublishFigures publish, spdlog::logger& logger)
      : which_(which), publish_(std::move(publish)), logger_(logger) {}

  bool off() const { return which_ == model::ServiceMetrics::off; }
  // Begins a reading, unless one runs.
  void ask() { begin(false); }
  // At the start: what is there counts from now on, which a reading finds out that is not
  // published.
  void ask_silently(const plan::ActualState& kernel);
  // There is nothing to read yet: publishes nothing, so that nobody waits.
  void answer_nothing();
  bool running() const { return pass_.has_value(); }
  // Reads the next virtual services, or hands the next figures over. Only while running().
  void step(netlink::IpvsTable& ipvs, const View& view);

 private:
  struct Series {
    api::NamespacedName service;
    std::string port;
    plan::Facet kind = plan::Facet::cluster_ip;

    friend auto operator<=>(const Series&, const Series&) = default;
  };
  struct Totals {
    std::uint64_t pass = 0;  // the last that met it
    bool read = false;       // by that pass; else only kept
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
    std::optional<netlink::IpvsTraffic> traffic;  // nullopt: not known
    std::optional<Counted::iterator> series;      // whose totals have it; nullopt: none yet
  };
  struct Pass {
    bool silent = false;
    std::optional<TimePoint> began;
    std::optional<netlink::VirtualServiceKey> last;  // that was looked at
    bool planned_read = false;                       // then those that linger; `last` begins anew
    bool read = false;                               // all was read; figures are handed over
    std::optional<Series> told;                      // the last that was handed over
    std::map<api::NamespacedName, std::size_t> of_service;  // series so far
    std::size_t answered = 0;    // virtual services about which the kernel told something
    std::size_t left_out = 0;    // virtual services whose series are too many
    std::string first_left_out;  // names them
    std::size_t skipped = 0;     // virtual services about which the kernel told nothing
    std::string first_error;
  };

  void begin(bool silent);
  void know_others(const plan::ActualState& kernel);
  std::optional<Series> series_of(const netlink::VirtualServiceKey& key, const View& view) const;
  // nullopt: there are too many.
  std::optional<Counted::iterator> admit(const Series& series);
  void mark(Counted::iterator series);
  Last& met(const netlink::VirtualServiceKey& key);
  std::optional<netlink::Error> read_one(netlink::IpvsTable& ipvs,
                                         const netlink::VirtualServiceKey& key, Last& last,
                                         Counted::iterator series, const View& view,
                                         std::size_t& cost);
  std::optional<netlink::Error> skip(const Last& last, const netlink::Error& error);
  static void add(Last& last, const netlink::IpvsTraffic& now, Counted::iterator series);
  void add_servers(const netlink::VirtualServiceKey& key,
                   const std::vector<netlink::ListedServer>& servers, const View& view,
                   Totals& totals) const;
  std::optional<netlink::Error> read_planned(netlink::IpvsTable& ipvs, const View& view);
  std::optional<netlink::Error> read_lingering(netlink::IpvsTable& ipvs, const View& view);
  void read_some(netlink::IpvsTable& ipvs, const View& view);
  void end_reading();
  void tell(std::string line);
  void end_pass(TimePoint now);
  void forget_oldest();
  void hand_over(TimePoint now);
  void refuse();
  void fail(const std::string& cause, const View& view);

  const model::ServiceMetrics which_;
  const PublishFigures publish_;
  spdlog::logger& logger_;
  std::string told_;  // the last line that was logged; "" if all is well since
  std::uint64_t passes_ = 0;
  std::optional<Pass> pass_;
  TimePoint rests_until_{};
  Counted totals_;
  std::map<std::string, std::size_t> of_namespace_;  // how many of them each namespace has
  std::map<netlink::VirtualServiceKey, Last> last_;  // of all that were there
  bool knows_others_ = false;  // whether a virtual service that is not among them is new
};

}  // namespace ipvsproxier::sync
