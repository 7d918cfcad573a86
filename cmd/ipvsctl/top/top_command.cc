#include "cmd/ipvsctl/commands.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <thread>

#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/top/terminal.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"

namespace ipvsproxier::ctl {

namespace {

using netlink::Status;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Repeated readings of the kernel's table.
class Readings {
 public:
  explicit Readings(netlink::IpvsReader& reader) : reader_(reader) {}

  Status read() {
    began_ = Clock::now();
    auto counts = read_counts(reader_, Clock::now);
    ended_ = Clock::now();
    if (!counts) return counts.error();
    traffic_.take(std::move(*counts));
    return {};
  }

  const Traffic& traffic() const { return traffic_; }
  TimePoint next(milliseconds interval) const { return next_reading(began_, ended_, interval); }
  milliseconds took() const { return std::chrono::duration_cast<milliseconds>(ended_ - began_); }

 private:
  netlink::IpvsReader& reader_;
  Traffic traffic_;
  TimePoint began_;
  TimePoint ended_;
};

// Current names, renewed about once a minute; kept while the daemon does not answer.
class CurrentNames {
 public:
  CurrentNames(const std::string& socket, ClusterNames names)
      : daemon_(socket), wanted_(!names.empty()), names_(std::move(names)), read_(Clock::now()) {}

  const ClusterNames& now() {
    constexpr std::chrono::minutes kGoodFor{1};
    if (!wanted_ || Clock::now() < read_ + kGoodFor) return names_;
    if (auto read = names_of_daemon(daemon_)) names_ = *std::move(read);
    read_ = Clock::now();
    return names_;
  }

 private:
  ControlClient daemon_;
  bool wanted_;
  ClusterNames names_;
  TimePoint read_;
};

Status print_tables(Readings& readings, const TopOptions& options, CurrentNames& names,
                    const TextSink& sink) {
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  for (std::size_t printed = 0; options.count == 0 || printed < options.count; ++printed) {
    std::this_thread::sleep_until(readings.next(options.view.interval));
    if (auto status = readings.read(); !status) return status;
    const auto table = top_table(readings.traffic(), options.view, names.now(), kAll);
    auto status = sink((printed == 0 ? "" : "\n") + top_text(table));
    if (!status) return status;
  }
  return {};
}

// Until the view is over, or the terminal gone.
void show_screens(Readings& readings, Terminal& terminal, TopView view, CurrentNames& names) {
  std::string notice;
  while (!view.over) {
    const auto now = Clock::now();
    if (!view.paused && now >= readings.next(view.interval)) {
      // On failure keep trying: IPVS may be loaded again later.
      const auto status = readings.read();
      notice = status ? "" : to_string(status.error());
    }
    const auto size = terminal.size();
    const auto page = rows_on(size);
    const auto table = top_table(readings.traffic(), view, names.now(), page);
    view.first = table.first;
    terminal.draw(top_screen(table, view, size, readings.took(), notice), 1);
    const auto left = std::chrono::ceil<milliseconds>(readings.next(view.interval) - Clock::now());
    const auto event =
        terminal.wait(view.paused ? std::nullopt : std::optional(std::max(left, milliseconds(0))));
    if (std::holds_alternative<Ended>(event)) return;
    if (const auto* character = std::get_if<char>(&event)) press(view, *character, page);
    if (const auto* key = std::get_if<TopKey>(&event)) press(view, *key, page);
  }
}

}  // namespace

Status run_top(const TopOptions& options, const TextSink& sink) {
  const auto reader = netlink::KernelIpvsReader::open();
  if (!reader) return reader.error();
  Readings readings(**reader);
  if (auto status = readings.read(); !status) return status;
  auto known = options.socket.empty() ? std::nullopt : names_if_known(options.socket);
  CurrentNames names(options.socket, std::move(known).value_or(ClusterNames()));
  auto terminal = options.count == 0 ? Terminal::open() : nullptr;
  if (!terminal) return print_tables(readings, options, names, sink);
  show_screens(readings, *terminal, options.view, names);
  return {};
}

}  // namespace ipvsproxier::ctl
