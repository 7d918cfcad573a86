#include "cmd/ipvs_switches.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/format.h>

namespace ipvsproxier::cmd {

namespace {

// More than any kernel counts (NR_CPUS).
constexpr unsigned kMostCpu = 8191;

template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// "3" or "0-3".
bool add_cpus(std::string_view range, std::set<unsigned>& cpus) {
  const auto dash = range.find('-');
  const auto first = whole_number<unsigned>(range.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : whole_number<unsigned>(range.substr(dash + 1));
  if (!first || !last || *first > *last || *last > kMostCpu) return false;
  for (auto cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  return true;
}

// As the kernel prints it, so that a comparison with what is there holds.
std::string text_of(const std::set<unsigned>& cpus) {
  std::string text;
  for (auto it = cpus.begin(); it != cpus.end();) {
    const auto first = *it;
    auto last = first;
    for (++it; it != cpus.end() && *it == last + 1; ++it) last = *it;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

}  // namespace

std::string set_switch(const NumberSwitch& number, std::string_view text, IpvsSwitches& switches) {
  if (text.empty()) {
    switches.erase(number.name);
    return "";
  }
  const auto value = whole_number<std::int64_t>(text);
  if (!value || *value < number.least || *value > number.most)
    return fmt::format("must be a number from {} to {}", number.least, number.most);
  switches[number.name] = std::to_string(*value);
  return "";
}

std::string set_est_cpulist(std::string_view text, IpvsSwitches& switches) {
  constexpr auto kName = "est_cpulist";
  if (text.empty()) {
    switches.erase(kName);
    return "";
  }
  std::set<unsigned> cpus;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    if (!add_cpus(text.substr(begin, end - begin), cpus))
      return "must be a list of CPUs such as 0-3,8";
    begin = end + 1;
  }
  switches[kName] = text_of(cpus);
  return "";
}

}  // namespace ipvsproxier::cmd
