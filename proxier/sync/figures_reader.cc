#include "proxier/sync/figures_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

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
  }
  return "";
}

// The name of the Service's port that has this virtual service, else its number.
std::string port_of(const api::Service& service, const VirtualServiceKey& key, plan::Facet kind) {
  for (const auto& port : service.ports) {
    const auto number = kind == plan::Facet::node_port ? port.node_port : port.port;
    if (port.protocol != key.protocol || number != key.port) continue;
    return port.name.empty() ? std::to_string(port.port) : port.name;
  }
  return std::to_string(key.port);
}

}  // namespace

IpvsTraffic traffic_between(const IpvsTraffic& before, const IpvsTraffic& now) {
  const bool went_back =
      std::ranges::any_of(kCounters, [&](auto counter) { return now.*counter < before.*counter; });
  const bool over_end = went_back && wrapped(before, now);
  IpvsTraffic difference;
  for (const auto counter : kCounters) {
    if (went_back && !over_end)
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

void FiguresReader::ask(bool silent) {
  if (off()) return;
  if (pass_) {
    pass_->silent = pass_->silent && silent;
    return;
  }
  ++passes_;
  pass_ = Pass{.silent = silent, .began = {}, .last = {}, .read = false, .told = {}};
}

void FiguresReader::answer_nothing() {
  if (publish_) publish_({.figures = {}, .end = serve::FiguresPart::End::failed});
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
    if (view.now < rests_until_ && !pass_->silent) return fail();
    pass_->began = view.now;
  }
  if (pass_->read)
    hand_over(view.now);
  else
    read_some(ipvs, view);
}

void FiguresReader::read_some(netlink::IpvsTable& ipvs, const View& view) {
  const auto& services = view.planner.desired().services;
  auto next = pass_->last ? services.upper_bound(*pass_->last) : services.begin();
  std::size_t read = 0;
  for (std::size_t looks = 0;
       read < kServicesAStep && looks < kLooksAStep && next != services.end(); ++looks, ++next) {
    pass_->last = next->first;
    const auto series = series_of(next->first, view);
    if (!series) continue;
    ++read;
    if (!read_one(ipvs, next->first, *series, view)) return fail();
  }
  if (next != services.end()) return;
  end_reading();
  if (pass_->silent) end_pass(view.now);
}

// False: the kernel does not answer as it should, so the rest is not tried. A virtual service that
// is not there has no figures.
bool FiguresReader::read_one(netlink::IpvsTable& ipvs, const VirtualServiceKey& key,
                             const Series& series, const View& view) {
  const auto counted = totals_.try_emplace(series).first;
  auto& totals = counted->second;
  if (totals.pass != passes_) totals = {.pass = passes_, .traffic = totals.traffic};
  const auto is_missing = [](const auto& answer) {
    return !answer && answer.error().kind == netlink::ErrorKind::missing;
  };
  const auto traffic = ipvs.traffic(key);
  if (is_missing(traffic)) {
    last_.erase(key);
    return true;
  }
  if (!traffic) return false;
  add(key, *traffic, counted);
  const auto servers = ipvs.list_servers(key);
  if (!servers) return is_missing(servers);
  add_servers(key, *servers, view, totals);
  return true;
}

void FiguresReader::add(const VirtualServiceKey& key, const IpvsTraffic& now,
                        Counted::iterator series) {
  const auto [it, is_new] = last_.try_emplace(key);
  if (!is_new) {
    const auto difference = traffic_between(it->second.traffic, now);
    for (const auto counter : kCounters) series->second.traffic.*counter += difference.*counter;
  }
  it->second = {.pass = passes_, .traffic = now, .series = series};
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
  pass_->read = true;
  std::erase_if(last_, [this](const auto& entry) { return entry.second.pass != passes_; });
  forget_oldest();
}

void FiguresReader::end_pass(TimePoint now) {
  rests_until_ = now + (now - *pass_->began);
  pass_.reset();
}

// A Service that comes again soon goes on with its counters; many that never come again must not
// fill the memory.
void FiguresReader::forget_oldest() {
  std::vector<std::uint64_t> gone;
  for (const auto& [series, totals] : totals_)
    if (totals.pass != passes_) gone.push_back(totals.pass);
  if (gone.size() <= kMostRemembered) return;
  const auto surplus = static_cast<std::ptrdiff_t>(gone.size() - kMostRemembered);
  const auto last = gone.begin() + surplus - 1;  // that is forgotten
  std::ranges::nth_element(gone, last);
  const auto limit = *last;
  auto ties = surplus - std::ranges::count_if(gone, [&](auto pass) { return pass < limit; });
  std::erase_if(totals_, [&](const auto& entry) {
    const auto pass = entry.second.pass;
    return pass != passes_ && (pass < limit || (pass == limit && ties-- > 0));
  });
}

void FiguresReader::hand_over(TimePoint now) {
  serve::FiguresPart part;
  auto next = pass_->told ? totals_.upper_bound(*pass_->told) : totals_.begin();
  std::size_t looks = 0;
  for (; looks < kFiguresAPart && next != totals_.end(); ++looks, ++next) {
    const auto& [series, totals] = *next;
    pass_->told = series;
    if (totals.pass != passes_) continue;
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

void FiguresReader::fail() {
  const bool silent = pass_->silent;
  pass_.reset();
  if (!silent) answer_nothing();
}

void FiguresReader::note(const plan::Transaction& transaction, netlink::IpvsTable& ipvs,
                         const View& view) {
  if (off()) return;
  const auto& known = view.kernel.services;
  for (const auto& phase : transaction.phases) {
    const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work);
    if (ops == nullptr) continue;
    for (const auto& op : *ops) {
      const auto& key = netlink::service_of(op);
      // One that is ours but whose addition had no answer may have counted already.
      const bool comes = std::holds_alternative<netlink::AddService>(op) && known &&
                         !known->contains(key) && !view.kernel.remembered.contains(key);
      if (comes && series_of(key, view))
        last_[key] = {.pass = passes_, .traffic = {}, .series = {}};
      if (std::holds_alternative<netlink::DeleteService>(op)) forget(key, ipvs, view);
    }
  }
}

// Those of a Service that is gone are not read: a namespace that is deleted would cost a request
// for each.
void FiguresReader::forget(const VirtualServiceKey& key, netlink::IpvsTable& ipvs,
                           const View& view) {
  const auto last = last_.find(key);
  if (last == last_.end()) return;
  if (const auto& series = last->second.series;
      series && view.cluster.services.contains((*series)->first.service))
    if (const auto traffic = ipvs.traffic(key)) add(key, *traffic, *series);
  last_.erase(key);
}

}  // namespace ipvsproxier::sync
