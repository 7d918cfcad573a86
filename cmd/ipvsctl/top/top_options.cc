#include "cmd/ipvsctl/top/top_options.h"

#include <cmath>
#include <map>

#include <CLI/CLI.hpp>

namespace ipvsproxier::ctl {

namespace {

const std::map<std::string, TopSort> kTopSorts = {{"connections", TopSort::connections},
                                                  {"active", TopSort::active},
                                                  {"inactive", TopSort::inactive},
                                                  {"packets", TopSort::packets},
                                                  {"bytes", TopSort::bytes},
                                                  {"name", TopSort::name}};

}  // namespace

void add_top_flags(CLI::App& command, TopWords& words) {
  command.add_option("--by", words.by, "Rows: service or backend")
      ->check(CLI::IsMember({"service", "backend"}))
      ->type_name("WHAT")
      ->capture_default_str();
  command
      .add_option("--sort-by", words.sort_by,
                  "Column: connections (new ones), active, inactive, packets, bytes, name")
      ->check(CLI::IsMember(kTopSorts))
      ->type_name("COLUMN")
      ->capture_default_str();
  command.add_flag("--reverse", words.reverse, "The least first");
  command.add_flag("-n,--numeric", words.numeric, "Numbers alone: no names of the cluster");
  command.add_option("--filter", words.filter, "Rows whose name contains this")->type_name("TEXT");
  constexpr double kLeast = 0.25;
  constexpr double kMost = 3600;
  command.add_option("--interval", words.interval, "Seconds between readings")
      ->check(CLI::Range(kLeast, kMost))
      ->type_name("SECONDS")
      ->capture_default_str();
  command.add_option("--count", words.count, "Print so many tables, one an interval, and end")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command.add_flag("--once", words.once, "As --count 1");
  command.footer(
      "Keys: q quit, t Services or backends, c a i p b n sort, r reverse, / filter, space pause, + "
      "- "
      "interval, arrows scroll.");
}

TopOptions top_options(const TopWords& words) {
  // CLI11's own check would describe this in --help, in place of a value.
  if (words.once && words.count > 0) throw CLI::ExcludesError("--once", "--count");
  constexpr double kMilliseconds = 1000;
  return {
      .view = {.by_backend = words.by == "backend",
               .sort = kTopSorts.at(words.sort_by),
               .reversed = words.reverse,
               .filter = words.filter,
               .interval = std::chrono::milliseconds(std::lround(words.interval * kMilliseconds))},
      .socket = words.numeric ? std::string() : words.socket,
      .count = words.once ? 1 : words.count};
}

}  // namespace ipvsproxier::ctl
