#include "test/bench/event_feed.h"

#include <stdexcept>
#include <utility>

#include "test/bench/wire_objects.h"

namespace ipvsproxier::bench {
namespace {

constexpr auto kSlices = test::Resource::endpoint_slices;

// As the daemon's, but for the reading of the whole kernel.
sync::ReconcilerSettings feed_settings() {
  sync::ReconcilerSettings settings;
  settings.node_name = kNode;
  settings.options = planner_options();
  settings.sync_period = std::chrono::hours(1);
  return settings;
}

sync::Kernel with_ipvs(KernelWorld& world, netlink::IpvsTable& ipvs) {
  return {ipvs, *world.links, *world.sets, world.rules, *world.conntrack};
}

void put(test::Store& store, const api::EndpointSlice& slice, int revision = 0) {
  if (const auto done = store.put(wire_text(slice, revision)); !done)
    throw std::runtime_error(netlink::to_string(done.error()));
}

}  // namespace

EventFeed::EventFeed(KernelWorld& world, const Size& size, const api::Service* service,
                     const std::vector<api::EndpointSlice>& slices)
    : ipvs_(*world.ipvs),
      reconciler_(with_ipvs(world, ipvs_), feed_settings(), logger_),
      metrics_({.families = planner_options().families, .version = "bench"}),
      publisher_(status_, metrics_, planner_options().families),
      reflector_(
          {.name = "endpointslices",
           .kind = api::ObjectKind::endpoint_slice,
           .path = "/apis/discovery.k8s.io/v1/endpointslices",
           .selector = ""},
          transport_, timers_, [] { return 0.5; }, watch::RemovalBrake(std::nullopt), logger_,
          watch_log_, [this](model::Changes changes) { take(std::move(changes)); }) {
  logger_.set_level(spdlog::level::warn);
  model::Changes services;
  for (int index = 0; index < size.services; ++index) {
    services.put(service_of(size, index));
    put(store_, slice_of(size, index));
  }
  if (service != nullptr) services.put(*service);
  for (const auto& slice : slices) put(store_, slice);
  mail_.put({.changes = std::move(services), .links = {}});
  watch_ = std::make_unique<test::RunningWatch>(
      test::RunningWatch::Wanted{.resource = kSlices,
                                 .initial_events = true,
                                 .initial_end = true,
                                 .bookmarks = true,
                                 .bookmark_every = std::chrono::hours(1)},
      store_);
  reflector_.start();
  timers_.advance(std::chrono::seconds(0));
  transport_.last().head(200);
  transport_.last().send(take_bytes());
  store_.compact();
  reconciler_.take(mail_.take());
  require_complete(reconciler_.run(std::chrono::steady_clock::now()));
  thread_ = std::make_unique<sync::SyncThread>(reconciler_, mail_, std::chrono::nanoseconds(0),
                                               publisher_);
}

EventFeed::~EventFeed() = default;

void EventFeed::take(model::Changes changes) {
  if (reflector_.status().is_listed) changes.complete = true;
  way_.doing = ipvs_.doing();
  way_.asked = ipvs_.asked();
  way_.decoded = now_ms();
  mail_.put({.changes = std::move(changes), .links = {}});
}

std::string EventFeed::take_bytes() {
  watch_->pull(store_, {}, test::RunningWatch::Clock::now());
  auto bytes = watch_->pending().substr(watch_->taken());
  watch_->take(bytes.size());
  return bytes;
}

std::string EventFeed::event_of(const api::EndpointSlice& slice, int revision) {
  put(store_, slice, revision);
  return take_bytes();
}

void EventFeed::send(const std::string& event) {
  if (!transport_.last().send(event)) throw std::runtime_error("the reflector ended its watch");
}

Way EventFeed::send(const std::string& event, const netlink::RealServerKey& server) {
  ipvs_.expect(server);
  way_.sent = now_ms();
  send(event);
  way_.kernel = ipvs_.wait();
  return way_;
}

}  // namespace ipvsproxier::bench
