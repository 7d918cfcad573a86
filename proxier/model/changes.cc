#include "proxier/model/changes.h"

#include <utility>

namespace ipvsproxier::model {

namespace {

struct Put {
  Changes& changes;

  void operator()(api::Service&& service) const {
    auto name = service.name;
    changes.services.insert_or_assign(std::move(name), std::move(service));
  }
  void operator()(api::EndpointSlice&& slice) const {
    auto name = slice.name;
    changes.slices.insert_or_assign(std::move(name), std::move(slice));
  }
  void operator()(api::Node&& node) const { changes.node.emplace(std::move(node)); }
};

template <typename T>
void merge_into(Changes::ByName<T>& changes, Changes::ByName<T>&& later) {
  later.merge(std::move(changes));  // keeps the entries that `later` has
  changes = std::move(later);
}

// Keeps an older trigger time whose effect has not been programmed yet.
void keep_oldest_triggers(const Changes::ByName<api::EndpointSlice>& before,
                          Changes::ByName<api::EndpointSlice>& later) {
  for (auto& [name, slice] : later) {
    const auto it = before.find(name);
    if (!slice || it == before.end() || !it->second) continue;
    const auto& old = it->second->trigger.time;
    auto& time = slice->trigger.time;
    if (old && (!time || *old < *time)) time = old;
  }
}

}  // namespace

bool Changes::empty() const {
  return services.empty() && slices.empty() && !node && unreadable.empty() && !complete &&
         !listed_again;
}

void Changes::put(api::Object object) {
  std::visit(Put{*this}, std::move(object));
}

void Changes::remove(const api::ObjectKey& gone) {
  switch (gone.kind) {
    case api::ObjectKind::service:
      services.insert_or_assign(gone.name, std::nullopt);
      return;
    case api::ObjectKind::endpoint_slice:
      slices.insert_or_assign(gone.name, std::nullopt);
      return;
    case api::ObjectKind::node:
      node.emplace(std::nullopt);
      return;
  }
}

void Changes::merge(Changes later) {
  merge_into(services, std::move(later.services));
  keep_oldest_triggers(slices, later.slices);
  merge_into(slices, std::move(later.slices));
  if (later.node) node = std::move(later.node);
  later.unreadable.merge(std::move(unreadable));
  unreadable = std::move(later.unreadable);
  if (later.complete) complete = later.complete;
  listed_again = listed_again || later.listed_again;
}

}  // namespace ipvsproxier::model
