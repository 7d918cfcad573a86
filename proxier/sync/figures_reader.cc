#include "proxier/sync/figures_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ipvsproxier::sync {

namespace {

using netlink::IpvsTraffic;
using netlink::VirtualServiceKey;

// The counters of an IpvsTraffic.
constexpr std::array kCounters = {&IpvsTraffic::connections, &IpvsTraffic::packets_in,
                                  &IpvsTraffic::packets_out, &IpvsTraffic::bytes_in,
                                  &IpvsTraffic::bytes_out};

// Whether a counter of 32 bits went over its end; then its bytes, of 64 bits, went on.
bool wrapped(const IpvsTraffic& before, const IpvsTraffic& now) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 31U;
  if (!now.narrow || now.bytes_in < before.bytes_in || now.bytes_out < before.bytes_out)
    return false;
  return std::ranges::all_of(kCounters, [&](auto counter) {
    return now.*counter >= before.*counter || before.*counter - now.*counter > kHalf;
  });
}

std::string_view kind_of(plan::Facet facet) {
  switch (facet) {
    case plan::Facet::cluster_ip:
      return "ClusterIP";
    case plan::Facet::external_ip:
      return "ExternalIP";
    case plan::Facet::load_balancer:
      return "LoadBalancer";
    case plan::Facet::node_port:
      return "NodePort";
    case plan::Facet::in_cluster:
      return "InCluster";
    case plan::Facet::localhost:
      return "Localhost";
  }
  return "";
}

// The name of the Service's port that has this virtual service, else its number.
std::string port_of(const api::Service& service, const VirtualServiceKey& key, plan::Facet kind) {
  for (const auto& port : service.ports) {
    const auto number = is_of_node_port(kind) ? port.node_port : port.port;
    if (port.protocol != key.protocol || number != key.port) continue;
    return port.name.empty() ? std::to_string(port.port) : port.name;
  }
  return std::to_string(key.port);
}

bool went_back(const IpvsTraffic& before, const IpvsTraffic& now) {
  return std::ranges::any_of(kCounters,
                             [&](auto counter) { return now.*counter < before.*counter; });
}

// The virtual service was made again, or others zeroed its counters.
bool began_anew(const IpvsTraffic& before, const IpvsTraffic& now) {
  return went_back(before, now) && !wrapped(before, now);
}

}  // namespace

IpvsTraffic traffic_between(const IpvsTraffic& before, const IpvsTraffic& now) {
  const bool is_new = began_anew(before, now);
  const bool over_end = !is_new && went_back(before, now);
  IpvsTraffic difference;
  for (const auto counter : kCounters) {
    if (is_new)
      difference.*counter = now.*counter;
    else if (over_end)
      difference.*counter = (now.*counter - before.*counter) &
                            (counter == &IpvsTraffic::bytes_in || counter == &IpvsTraffic::bytes_out
                                 ? std::numeric_limits<std::uint64_t>::max()
                                 : std::numeric_limits<std::uint32_t>::max());
    else
      difference.*counter = now.*counter - before.*counter;
  }
  return difference;
}

void FiguresReader::ask_silently(const plan::ActualState& kernel) {
  if (off()) return;
  if (kernel.services)
    for (const auto& [key, service] : *kernel.services) last_.try_emplace(key);
  know_others(kernel);
  begin(true);
}

// From now on a virtual service that is not in last_ is new.
void FiguresReader::know_others(const plan::ActualState& kernel) {
  for (const auto& key : kernel.foreign) last_[key] = {.pass = passes_};
  knows_others_ = kernel.services.has_value();
}

void FiguresReader::begin(bool silent) {
  if (off()) return;
  // A silent one does not read all: it begins anew.
  if (pass_ && (silent || !pass_->silent)) return;
  ++passes_;
  pass_ = Pass{};
  pass_->silent = silent;
}

void FiguresReader::answer_nothing() {
  if (publish_) publish_({.figures = {}, .end = serve::FiguresPart::End::refused});
}

// nullopt: no Service that is counted has the virtual service.
std::optional<FiguresReader::Series> FiguresReader::series_of(const VirtualServiceKey& key,
                                                              const View& view) const {
  const auto& desired = view.planner.desired().services;
  const auto planned = desired.find(key);
  const auto* owner = view.planner.owner_of(key);
  if (planned == desired.end() || owner == nullptr) return std::nullopt;
  const auto service = view.cluster.services.find(*owner);
  if (service == view.cluster.services.end()) return std::nullopt;
  const bool heeds = view.planner.options().differences.service_annotations;
  if (!model::is_counted(service->second, which_, heeds)) return std::nullopt;
  const auto kind = planned->second.facet;
  return Series{*owner, port_of(service->second, key, kind), kind};
}

void FiguresReader::step(netlink::IpvsTable& ipvs, const View& view) {
  if (!pass_->began) {
    if (view.now < rests_until_ && !pass_->silent) return refuse();
    pass_->began = view.now;
  }
  if (pass_->read)
    hand_over(view.now);
  else
    read_some(ipvs, view);
}

void FiguresReader::read_some(netlink::IpvsTable& ipvs, const View& view) {
  const auto error = pass_->planned_read ? read_lingering(ipvs, view) : read_planned(ipvs, view);
  if (error) return fail(to_string(*error), view);
  if (!pass_->read) return;
  if (pass_->answered == 0 && pass_->skipped > 0) return fail(pass_->first_error, view);
  know_others(view.kernel);
  end_reading();
  if (pass_->silent) end_pass(view.now);
}

std::optional<netlink::Error> FiguresReader::read_planned(netlink::IpvsTable& ipvs,
                                                          const View& view) {
  const auto& services = view.planner.desired().services;
  auto next = pass_->last ? services.upper_bound(*pass_->last) : services.begin();
  std::size_t read = 0;
  for (std::size_t looks = 0;
       read < kServicesAStep && looks < kLooksAStep && next != services.end(); ++looks, ++next) {
    pass_->last = next->first;
    auto& last = met(next->first);
    const auto series = series_of(next->first, view);
    const auto counted = series ? admit(*series) : std::nullopt;
    if (!counted)
      last = {.pass = passes_};
    else if (auto error = read_one(ipvs, next->first, last, *counted, view, read))
      return error;
  }
  if (next != services.end()) return std::nullopt;
  pass_->planned_read = true;
  pass_->last.reset();
  return std::nullopt;
}

// Those that no Service asks for any more, but that stay until their connections have ended.
std::optional<netlink::Error> FiguresReader::read_lingering(netlink::IpvsTable& ipvs,
                                                            const View& view) {
  const auto& planned = view.planner.desired().services;
  const auto& known = view.kernel.services;
  auto next = pass_->last ? last_.upper_bound(*pass_->last) : last_.begin();
  std::size_t read = 0;
  for (std::size_t looks = 0; read < kServicesAStep && looks < kLooksAStep && next != last_.end();
       ++looks, ++next) {
    auto& [key, last] = *next;
    pass_->last = key;
    if (planned.contains(key) || !known || !known->contains(key)) continue;
    last.pass = passes_;
    if (!last.series) continue;
    if (auto error = read_one(ipvs, key, last, *last.series, view, read)) return error;
  }
  pass_->read = next == last_.end();
  return std::nullopt;
}

// One that was counted before keeps its place.
std::optional<FiguresReader::Counted::iterator> FiguresReader::admit(const Series& series) {
  auto it = totals_.find(series);
  if (it != totals_.end() && it->second.pass == passes_) return it;
  auto& of_service = pass_->of_service[series.service];
  auto& of_namespace = of_namespace_[series.service.ns];
  const bool has_room = of_namespace < kShareOfFree * (kMostSeries - totals_.size());
  if (of_service >= kMostOfService || (it == totals_.end() && !has_room)) {
    if (pass_->left_out++ == 0) pass_->first_left_out = to_string(series.service);
    return std::nullopt;
  }
  ++of_service;
  if (it == totals_.end()) ++of_namespace;
  it = totals_.try_emplace(series).first;
  mark(it);
  return it;
}

void FiguresReader::mark(Counted::iterator series) {
  auto& totals = series->second;
  if (totals.pass == passes_) return;
  const auto traffic = totals.traffic;
  totals = {};
  totals.pass = passes_;
  totals.traffic = traffic;
}

// A virtual service that is new was made since the reading before, and began at 0.
FiguresReader::Last& FiguresReader::met(const VirtualServiceKey& key) {
  const auto [it, is_new] = last_.try_emplace(key);
  it->second.pass = passes_;
  if (is_new && knows_others_) it->second.traffic.emplace();
  return it->second;
}

// An error: the kernel does not answer as it should, so the rest is not tried. A virtual service
// that is not there has no figures. `cost`: what was read, in virtual services.
std::optional<netlink::Error> FiguresReader::read_one(netlink::IpvsTable& ipvs,
                                                      const VirtualServiceKey& key, Last& last,
                                                      Counted::iterator series, const View& view,
                                                      std::size_t& cost) {
  mark(series);
  auto& totals = series->second;
  ++cost;
  const auto traffic = ipvs.traffic(key);
  if (!traffic && traffic.error().kind != netlink::ErrorKind::missing)
    return skip(last, traffic.error());
  ++pass_->answered;
  totals.read = true;
  if (!traffic) {
    // Without IPVS nothing is known of what its counters will be.
    if (traffic.error().sys_errno == ESRCH) last.traffic.emplace();
    last.series = series;
    return std::nullopt;
  }
  add(last, *traffic, series);
  if (pass_->silent) return std::nullopt;
  const auto servers = ipvs.list_servers(key);
  if (!servers && servers.error().kind == netlink::ErrorKind::missing) return std::nullopt;
  if (!servers) return skip(last, servers.error());
  cost += servers->size() / kServersALook;
  add_servers(key, *servers, view, totals);
  return std::nullopt;
}

// Passes it over for this reading; the error if others would meet it as well.
std::optional<netlink::Error> FiguresReader::skip(const Last& last, const netlink::Error& error) {
  if (error.kind == netlink::ErrorKind::timeout || error.kind == netlink::ErrorKind::denied)
    return error;
  if (pass_->skipped++ == 0) pass_->first_error = to_string(error);
  if (last.series) mark(*last.series);
  return std::nullopt;
}

// What came before this reading belongs to the Service that had the virtual service, unless it was
// made again since.
void FiguresReader::add(Last& last, const IpvsTraffic& now, Counted::iterator series) {
  if (last.traffic) {
    const bool is_of_former = last.series && !began_anew(*last.traffic, now);
    const auto owner = is_of_former ? *last.series : series;
    const auto difference = traffic_between(*last.traffic, now);
    for (const auto counter : kCounters) owner->second.traffic.*counter += difference.*counter;
  }
  last.traffic = now;
  last.series = series;
}

void FiguresReader::add_servers(const VirtualServiceKey& key,
                                const std::vector<netlink::ListedServer>& servers, const View& view,
                                Totals& totals) const {
  std::uint32_t serving = 0;
  std::uint32_t draining = 0;
  std::uint32_t weightless = 0;
  for (const auto& listed : servers) {
    totals.active += listed.active_connections;
    totals.inactive += listed.inactive_connections;
    if (listed.server.weight > 0)
      ++serving;
    else if (view.drain.leaving(key, listed.server.key, view.now))
      ++draining;
    else
      ++weightless;
  }
  totals.serving = std::max(totals.serving, serving);
  totals.draining = std::max(totals.draining, draining);
  totals.weightless = std::max(totals.weightless, weightless);
}

void FiguresReader::end_reading() {
  std::erase_if(last_, [this](const auto& entry) { return entry.second.pass != passes_; });
  forget_oldest();
  std::string line;
  if (pass_->left_out > 0)
    line = fmt::format(
        "traffic figures of {} virtual services, the first of Service \"{}\", are left out: at "
        "most {} ports by kinds of address of a Service and {} of the node are counted, of one "
        "namespace four fifths of these",
        pass_->left_out, pass_->first_left_out, kMostOfService, kMostSeries);
  if (pass_->skipped > 0)
    line += fmt::format("{}traffic figures of {} virtual services cannot be read: {}",
                        line.empty() ? "" : "; ", pass_->skipped, pass_->first_error);
  tell(std::move(line));
}

// A reading tells one line at most, and none that was told for the reading before.
void FiguresReader::tell(std::string line) {
  if (line == told_) return;
  told_ = std::move(line);
  if (!told_.empty()) logger_.warn("{}", told_);
}

void FiguresReader::end_pass(TimePoint now) {
  if (!pass_->silent) rests_until_ = now + (now - *pass_->began);
  pass_.reset();
}

// A Service that comes again soon goes on with its counters; many that never come again must not
// fill the memory.
void FiguresReader::forget_oldest() {
  std::vector<std::uint64_t> gone;
  for (const auto& [series, totals] : totals_)
    if (totals.pass != passes_) gone.push_back(totals.pass);
  const auto present = totals_.size() - gone.size();
  const auto room = std::min(kMostRemembered, kMostSeries - std::min(kMostSeries, present));
  if (gone.size() <= room) return;
  const auto surplus = static_cast<std::ptrdiff_t>(gone.size() - room);
  const auto last = gone.begin() + surplus - 1;  // that is forgotten
  std::ranges::nth_element(gone, last);
  const auto limit = *last;
  auto ties = surplus - std::ranges::count_if(gone, [&](auto pass) { return pass < limit; });
  std::erase_if(totals_, [&](const auto& entry) {
    const auto pass = entry.second.pass;
    return pass != passes_ && (pass < limit || (pass == limit && ties-- > 0));
  });
  of_namespace_.clear();
  for (const auto& [series, totals] : totals_) ++of_namespace_[series.service.ns];
}

void FiguresReader::hand_over(TimePoint now) {
  serve::FiguresPart part;
  auto next = pass_->told ? totals_.upper_bound(*pass_->told) : totals_.begin();
  std::size_t looks = 0;
  for (; looks < kFiguresAPart && next != totals_.end(); ++looks, ++next) {
    const auto& [series, totals] = *next;
    pass_->told = series;
    if (totals.pass != passes_ || !totals.read) continue;
    part.figures.push_back({.service = series.service,
                            .port = series.port,
                            .kind = kind_of(series.kind),
                            .connections = totals.traffic.connections,
                            .packets_in = totals.traffic.packets_in,
                            .packets_out = totals.traffic.packets_out,
                            .bytes_in = totals.traffic.bytes_in,
                            .bytes_out = totals.traffic.bytes_out,
                            .active = totals.active,
                            .inactive = totals.inactive,
                            .serving = totals.serving,
                            .draining = totals.draining,
                            .weightless = totals.weightless});
  }
  const bool last = next == totals_.end();
  if (last) part.end = serve::FiguresPart::End::whole;
  if (publish_) publish_(std::move(part));
  if (last) end_pass(now);
}

void FiguresReader::refuse() {
  pass_.reset();
  answer_nothing();
}

void FiguresReader::fail(const std::string& cause, const View& view) {
  tell("reading the traffic figures of Services failed: " + cause);
  rests_until_ =
      view.now + std::max<TimePoint::duration>(kRestAfterFailure, view.now - *pass_->began);
  // A reading that ends forgets the others; readings may go on failing.
  const auto& planned = view.planner.desired().services;
  const auto& known = view.kernel.services;
  std::erase_if(last_, [&](const auto& entry) {
    return !planned.contains(entry.first) && known && !known->contains(entry.first);
  });
  const bool silent = pass_->silent;
  pass_.reset();
  if (!silent && publish_) publish_({.figures = {}, .end = serve::FiguresPart::End::failed});
}

}  // namespace ipvsproxier::sync
