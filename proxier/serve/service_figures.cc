#include "proxier/serve/service_figures.h"

#include <array>

#include <fmt/format.h>

namespace ipvsproxier::serve {

namespace {

using Value = std::uint64_t (*)(const ServiceFigures& figures);

struct FigureFamily {
  std::string_view name;
  std::string_view help;
  std::string_view type;
  Value value;
  std::string_view state = "";  // of `endpoints`
};

// Sorted by name; rows of one name are one family.
constexpr auto kFigureFamilies = std::to_array<FigureFamily>({
    {"active_connections", "Established connections through IPVS, now", "gauge",
     [](const ServiceFigures& of) { return of.active; }},
    {"connections_total", "Connections that IPVS made", "counter",
     [](const ServiceFigures& of) { return of.connections; }},
    {"endpoints", "Real servers of the virtual service that has most", "gauge",
     [](const ServiceFigures& of) { return std::uint64_t{of.serving}; }, "serving"},
    {"endpoints", "", "", [](const ServiceFigures& of) { return std::uint64_t{of.draining}; },
     "draining"},
    {"endpoints", "", "", [](const ServiceFigures& of) { return std::uint64_t{of.weightless}; },
     "weightless"},
    {"inactive_connections", "Other connections that IPVS keeps, now", "gauge",
     [](const ServiceFigures& of) { return of.inactive; }},
    {"incoming_bytes_total", "Bytes from clients through IPVS", "counter",
     [](const ServiceFigures& of) { return of.bytes_in; }},
    {"incoming_packets_total", "Packets from clients through IPVS", "counter",
     [](const ServiceFigures& of) { return of.packets_in; }},
    {"outgoing_bytes_total", "Bytes to clients through IPVS", "counter",
     [](const ServiceFigures& of) { return of.bytes_out; }},
    {"outgoing_packets_total", "Packets to clients through IPVS", "counter",
     [](const ServiceFigures& of) { return of.packets_out; }},
});

// It has its place among the families.
constexpr std::string_view kTimestamp = "ipvsproxier_service_figures_timestamp_seconds";
constexpr std::string_view kAfterTimestamp = "inactive_connections";

// A value of a label, by Prometheus' text format.
void append_escaped(std::string& text, std::string_view value) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
}

// The labels of each sample: the same in every family.
std::string labels_of(const ServiceFigures& figures) {
  std::string labels = "namespace=\"";
  append_escaped(labels, figures.service.ns);
  labels += "\",service=\"";
  append_escaped(labels, figures.service.name);
  labels += "\",port=\"";
  append_escaped(labels, figures.port);
  labels += "\",kind=\"";
  append_escaped(labels, figures.kind);
  labels += '"';
  return labels;
}

std::string timestamp_text(std::chrono::system_clock::time_point read) {
  return fmt::format(
      "# HELP {0} When the traffic figures of Services were last read whole\n"
      "# TYPE {0} gauge\n{0} {1:.3f}\n",
      kTimestamp, std::chrono::duration<double>(read.time_since_epoch()).count());
}

}  // namespace

std::string figures_text(const std::vector<ServiceFigures>& figures,
                         std::optional<std::chrono::system_clock::time_point> read) {
  auto timestamp = read ? timestamp_text(*read) : std::string();
  if (figures.empty()) return timestamp;
  std::string text;
  std::vector<std::string> labels;
  labels.reserve(figures.size());
  std::size_t length = 0;
  for (const auto& one : figures) length += labels.emplace_back(labels_of(one)).size();
  constexpr std::size_t kAround = 64;  // name and value
  text.reserve((length + figures.size() * kAround) * kFigureFamilies.size());
  auto out = std::back_inserter(text);
  for (const auto& family : kFigureFamilies) {
    if (family.name == kAfterTimestamp) text += timestamp;
    if (!family.help.empty())
      fmt::format_to(out,
                     "# HELP ipvsproxier_service_{0} {1}\n# TYPE ipvsproxier_service_{0} {2}\n",
                     family.name, family.help, family.type);
    const auto state =
        family.state.empty() ? std::string() : fmt::format(",state=\"{}\"", family.state);
    for (std::size_t i = 0; i < figures.size(); ++i)
      fmt::format_to(out, "ipvsproxier_service_{}{{{}{}}} {}\n", family.name, labels[i], state,
                     family.value(figures[i]));
  }
  return text;
}

void FiguresDesk::put(FiguresPart part) {
  part.at = std::chrono::system_clock::now();
  Parts parts;
  parts.all.push_back(std::move(part));
  parts_.put(std::move(parts));
}

void FiguresDesk::take(Parts parts) {
  for (auto& part : parts.all) take(std::move(part));
}

void FiguresDesk::take(FiguresPart part) {
  using End = FiguresPart::End;
  std::move(part.figures.begin(), part.figures.end(), std::back_inserter(reading_));
  if (part.end == End::none) return;
  // Before the text, for which memory may be short: the next scrape must be able to ask.
  waits_ = false;
  const auto reading = std::exchange(reading_, {});
  if (part.end == End::refused) return;
  if (part.end == End::whole) {
    failures_ = 0;
    text_ = figures_text(reading, part.at);
    read_ = part.at;
  } else if (++failures_ == kMostFailures) {
    text_ = figures_text({}, read_);
  }
}

const std::string& FiguresDesk::text() {
  take(parts_.take());
  const auto now = Clock::now();
  if (!waits_ && (!asked_ || now - *asked_ >= times_.between)) {
    asked_ = now;
    ask_();
    waits_ = true;
  }
  if (!waits_) return text_;
  const auto until = *asked_ + times_.patience;
  const auto stop = stop_.get_token();
  while (waits_ && !stop.stop_requested() && Clock::now() < until)
    take(parts_.take(stop, Clock::time_point::min(), until));
  return text_;
}

}  // namespace ipvsproxier::serve
