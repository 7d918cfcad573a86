#pragma once

// Text functions that options and configuration share. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "netlink/text.h"

namespace ipvsproxier::config {

// Converts ASCII letters to lower case.
inline std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The texts between the commas, trimmed: one more than there are commas.
inline std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> list;
  while (true) {
    const auto comma = text.find(',');
    list.emplace_back(netlink::trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

// A Kubernetes quantity: a number with an optional suffix m, k, M, G, T, P, E, Ki to Ei, e3 or E3.
inline bool is_quantity(std::string_view text) {
  const auto number_end = text.find_first_not_of("+-0123456789.");
  if (text.empty() || number_end == 0) return false;
  const auto suffix =
      number_end == std::string_view::npos ? std::string_view() : text.substr(number_end);
  const bool exponent = suffix.size() > 1 && (suffix[0] == 'e' || suffix[0] == 'E') &&
                        suffix.find_first_not_of("+-0123456789", 1) == std::string_view::npos;
  const bool known =
      suffix.size() <= 2 && suffix.find_first_not_of("numkMGTPEKi") == std::string_view::npos;
  return known || exponent;
}

}  // namespace ipvsproxier::config
