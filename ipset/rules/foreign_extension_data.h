#pragma once

// Helpers shared by foreign_matches.cc and foreign_targets.cc.

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ipset/rules/rule_layout.h"

namespace ipvsproxier::ipset {

struct BitName {
  unsigned bit;
  std::string_view name;
};

// The extension's data as the kernel structure Info; nullopt for another size.
template <typename Info>
std::optional<Info> data_of(const Extension& extension) {
  Info info;
  if (extension.data.size() != padded_size(sizeof info)) return std::nullopt;
  std::memcpy(&info, extension.data.data(), sizeof info);
  return info;
}

template <std::size_t Size>
std::string names_of(unsigned bits, const std::array<BitName, Size>& names) {
  std::vector<std::string_view> set;
  for (const auto& one : names)
    if ((bits & one.bit) != 0) set.push_back(one.name);
  return fmt::format("{}", fmt::join(set, ","));
}

template <std::size_t Size>
unsigned all_of(const std::array<BitName, Size>& names) {
  unsigned bits = 0;
  for (const auto& one : names) bits |= one.bit;
  return bits;
}

}  // namespace ipvsproxier::ipset
