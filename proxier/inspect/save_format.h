#pragma once

// The virtual server table as `ipvsadm-save -n` (1.31) prints it, to the byte. Pure, any thread.

#include <string>
#include <vector>

#include "netlink/ipvs_types.h"

namespace ipvsproxier::inspect {

struct ServiceTable {
  netlink::VirtualService service;
  std::vector<netlink::ListedServer> servers;
};

// One line for each service and each of its servers. Give services and servers in the kernel's
// order: ipvsadm sorts them with a comparison that is no order (it subtracts 32-bit numbers into an
// int, so 192.168.0.1 may come before 10.0.0.1), and what comes out depends on what went in.
// Connection thresholds do not appear, as in ipvsadm.
std::string format_save(const std::vector<ServiceTable>& table);

}  // namespace ipvsproxier::inspect
