// Composition root of ipvsctl, the inspection tool. It only reads.

#include <iostream>

#include "cmd/ipvsctl_options.h"
#include "netlink/ipvs_kernel.h"
#include "proxier/inspect/save_format.h"

namespace ipvsproxier::cmd {
namespace {

netlink::Result<std::vector<inspect::ServiceTable>> read_table() {
  const auto table = netlink::KernelIpvsTable::open();
  if (!table) return table.error();
  const auto services = (*table)->list_services();
  if (!services) return services.error();
  std::vector<inspect::ServiceTable> result;
  for (const auto& service : *services) {
    auto servers = (*table)->list_servers(service.key);
    if (servers)
      result.push_back(inspect::ServiceTable{service, std::move(*servers)});
    else if (servers.error().kind != netlink::ErrorKind::missing)  // deleted since
      return servers.error();
  }
  return result;
}

int run(int argc, char** argv) {
  const auto command = parse_ctl_options(argc, argv, std::cout, std::cerr);
  if (!command.options) return command.status;
  const auto table = read_table();
  if (!table) {
    std::cerr << "ipvsctl: " << to_string(table.error()) << '\n';
    return 1;
  }
  std::cout << inspect::format_save(*table) << std::flush;
  return std::cout ? 0 : 1;
}

}  // namespace
}  // namespace ipvsproxier::cmd

int main(int argc, char** argv) {
  return ipvsproxier::cmd::run(argc, argv);
}
