#include "cmd/ipvsctl/names/text_store.h"

#include <algorithm>
#include <cstring>

namespace ipvsproxier::ctl {

TextStore::Id TextStore::add(std::string_view text) {
  const auto length = static_cast<std::uint32_t>(text.size());
  const auto needed = sizeof length + text.size();
  if (size_ - used_ < needed) {
    size_ = std::max(needed, kBlockBytes);
    used_ = 0;
    // Not zeroed: untouched memory costs nothing.
    blocks_.emplace_back(new char[size_]);
  }
  auto* const at = blocks_.back().get() + used_;
  std::memcpy(at, &length, sizeof length);
  std::copy(text.begin(), text.end(), at + sizeof length);
  const auto id = static_cast<Id>((blocks_.size() - 1) * kBlockBytes + used_);
  used_ += needed;
  return id;
}

TextStore::Id TextStore::intern(std::string_view text) {
  if (const auto it = shared_.find(text); it != shared_.end()) return it->second;
  const auto id = add(text);
  shared_.emplace(at(id), id);
  return id;
}

std::string_view TextStore::at(Id id) const {
  const auto* const at = blocks_[id / kBlockBytes].get() + id % kBlockBytes;
  std::uint32_t length = 0;
  std::memcpy(&length, at, sizeof length);
  return {at + sizeof length, length};
}

}  // namespace ipvsproxier::ctl
