#pragma once

// FiguresDesk: the traffic figures of Services for Prometheus. A scrape has the sync thread read
// them anew, at most every so often, and waits for them a limited time; else it gets those of the
// reading before. The sync thread never waits for a scrape, nor writes a text.
//
// Metrics (prefix ipvsproxier_service_), with the labels namespace, service, port and kind:
//   connections_total, incoming_packets_total, outgoing_packets_total,
//   incoming_bytes_total, outgoing_bytes_total           counters
//   active_connections, inactive_connections             gauges
//   endpoints, by state as well                          gauge
// and, without labels, figures_timestamp_seconds: when they were last read whole.

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxier/api/objects.h"
#include "proxier/loop/mailbox.h"

namespace ipvsproxier::serve {

// The figures of one port of a Service by one kind of address.
struct ServiceFigures {
  api::NamespacedName service;
  std::string port;       // its name, else its number
  std::string_view kind;  // "ClusterIP"; static
  std::uint64_t connections = 0;
  std::uint64_t packets_in = 0;
  std::uint64_t packets_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t active = 0;  // connections now
  std::uint64_t inactive = 0;
  std::uint32_t serving = 0;  // real servers, of the virtual service that has most
  std::uint32_t draining = 0;
  std::uint32_t weightless = 0;  // weight 0, but not for leaving

  friend auto operator<=>(const ServiceFigures&, const ServiceFigures&) = default;
};

// A part of a reading, in the order of the reading.
struct FiguresPart {
  // `refused`: nothing was read, for it is too soon or too early.
  enum class End : std::uint8_t { none, whole, failed, refused };

  std::vector<ServiceFigures> figures;
  End end = End::none;
  std::chrono::system_clock::time_point at{};  // when it was put
};

// The metric families as Prometheus' text, sorted by name. `read`: when the figures were read.
// Without figures there are no families of them; without `read`, none of it.
std::string figures_text(const std::vector<ServiceFigures>& figures,
                         std::optional<std::chrono::system_clock::time_point> read = {});

class FiguresDesk {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kMostFailures = 3;  // in a row; then the figures before are told no more
  struct Times {
    std::chrono::milliseconds between{10'000};  // two readings, from begin to begin
    // With the sync thread, which may be busy; counts from when the reading was asked for.
    std::chrono::milliseconds patience{5'000};
  };

  // `ask` has the sync thread begin a reading; called by text().
  explicit FiguresDesk(std::function<void()> ask) : FiguresDesk(std::move(ask), Times()) {}
  FiguresDesk(std::function<void()> ask, Times times) : ask_(std::move(ask)), times_(times) {}
  FiguresDesk(const FiguresDesk&) = delete;
  FiguresDesk& operator=(const FiguresDesk&) = delete;
  ~FiguresDesk() = default;

  // The sync thread.
  void put(FiguresPart part);

  // One thread, that of the metrics server. Valid until the next call.
  const std::string& text();

  // Any thread: text() waits no more.
  void stop() { stop_.request_stop(); }

 private:
  struct Parts {
    std::vector<FiguresPart> all;

    bool empty() const { return all.empty(); }
    void merge(Parts later) {
      std::move(later.all.begin(), later.all.end(), std::back_inserter(all));
    }
  };

  void take(Parts parts);
  void take(FiguresPart part);

  const std::function<void()> ask_;
  const Times times_;
  std::stop_source stop_;
  loop::Mailbox<Parts> parts_;
  // Of text()'s thread.
  std::vector<ServiceFigures> reading_;  // so far
  std::string text_;                     // of the last whole reading
  bool waits_ = false;                   // a reading that was asked for has not ended
  int failures_ = 0;                     // in a row
  std::optional<std::chrono::system_clock::time_point> read_;  // the last whole one
  std::optional<Clock::time_point> asked_;
};

}  // namespace ipvsproxier::serve
