// The peers: the programs that do this one thing each, with the same state as text.

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ipset/sets/set_catalog.h"
#include "proxier/plan/node_info.h"
#include "test/bench/kernel_parts.h"
#include "test/bench/measurements.h"
#include "test/support/saved_table.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::bench {
namespace {

std::string virtual_servers_text(const plan::DesiredState& desired) {
  std::vector<test::ServiceTable> table;
  for (const auto& [key, planned] : desired.services) {
    test::ServiceTable entry{.service = planned.service, .servers = {}};
    for (const auto& server : planned.servers) entry.servers.push_back({.server = {.key = server}});
    table.push_back(std::move(entry));
  }
  return test::format_save(table);
}

std::string elements_text(const plan::DesiredState& desired) {
  std::string text;
  for (const auto& [key, elements] : desired.sets)
    for (const auto& element : elements)
      text += fmt::format("add {} {}\n", ipset::set_name(key.id, key.family),
                          ipset::to_string(element));
  return text;
}

std::string addresses_text(const plan::DesiredState& desired) {
  std::string text;
  for (const auto& address : desired.addresses)
    text += fmt::format("address add {}/32 dev {}\n", address.to_string(), plan::kDummyLink);
  return text;
}

// Answers the milliseconds that the command took with this text as its input.
double run_peer(const std::string& command, const std::string& text) {
  const test::TempDir dir;
  const auto file = dir.path() / "input";
  std::ofstream(file, std::ios::binary) << text;
  const double start = now_ms();
  if (std::system((command + " <" + file.string()).c_str()) != 0)
    throw std::runtime_error(command + " failed");
  const double took = now_ms() - start;
  print_figure(command, took, "ms");
  return took;
}

}  // namespace

void measure_peers(KernelWorld& world, const Size& size) {
  Planned planned(world, size);
  planned.apply(world, planned.take_preparation());
  const auto& desired = planned.planner.desired();
  const auto elements = elements_text(desired);
  const auto servers = virtual_servers_text(desired);
  const auto addresses = addresses_text(desired);
  // In the order of the daemon.
  double time = run_peer("ipset restore", elements);
  time += run_peer("ipvsadm -R", servers);
  time += run_peer("ip -batch -", addresses);
  print_figure("time", time, "ms");
  print_end_state(world);
}

}  // namespace ipvsproxier::bench
