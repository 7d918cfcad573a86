#include "proxier/api/annotations.h"

#include <charconv>
#include <system_error>

namespace ipvsproxier::api {

bool is_ours(std::string_view key) {
  return key.starts_with(kOurPrefix) || key.starts_with(kKubeRouterPrefix);
}

std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t most) {
  std::uint32_t number = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number > most) return std::nullopt;
  return number;
}

std::optional<std::uint32_t> parse_weight(std::string_view text) {
  return parse_number(text, kLargestWeight);
}

}  // namespace ipvsproxier::api
