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

}  // namespace

std::string figures_text(const std::vector<ServiceFigures>& figures) {
  std::string text;
  if (figures.empty()) return text;
  std::vector<std::string> labels;
  labels.reserve(figures.size());
  std::size_t length = 0;
  for (const auto& one : figures) length += labels.emplace_back(labels_of(one)).size();
  constexpr std::size_t kAround = 64;  // name and value
  text.reserve((length + figures.size() * kAround) * kFigureFamilies.size());
  auto out = std::back_inserter(text);
  for (const auto& family : kFigureFamilies) {
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
  Parts parts;
  parts.all.push_back(std::move(part));
  parts_.put(std::move(parts));
}

void FiguresDesk::take(Parts parts) {
  for (auto& part : parts.all) {
    std::move(part.figures.begin(), part.figures.end(), std::back_inserter(reading_));
    if (part.end == FiguresPart::End::none) continue;
    if (part.end == FiguresPart::End::whole) text_ = figures_text(reading_);
    reading_ = {};
    waits_ = false;
  }
}

const std::string& FiguresDesk::text() {
  take(parts_.take());
  const auto now = Clock::now();
  if (!waits_ && (!asked_ || now - *asked_ >= times_.between)) {
    waits_ = true;
    asked_ = now;
    ask_();
  }
  const auto until = now + times_.patience;
  const auto stop = stop_.get_token();
  while (waits_ && !stop.stop_requested() && Clock::now() < until)
    take(parts_.take(stop, Clock::time_point::min(), until));
  return text_;
}

}  // namespace ipvsproxier::serve
