#include "proxier/api/annotations.h"

#include <system_error>

#include "netlink/text.h"

namespace ipvsproxier::api {

bool is_ours(std::string_view key) {
  return key.starts_with(kOurPrefix) || key.starts_with(kKubeRouterPrefix);
}

std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t most) {
  const auto number = netlink::parse_number<std::uint32_t>(text);
  return number && *number <= most ? number : std::nullopt;
}

std::optional<std::uint32_t> parse_weight(std::string_view text) {
  return parse_number(text, kLargestWeight);
}

}  // namespace ipvsproxier::api
