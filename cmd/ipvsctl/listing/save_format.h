#pragma once

// Prints a virtual server table of values in the form of save_form(). Pure, any thread.

#include <string>
#include <vector>

#include "netlink/ipvs/ipvs_types.h"

namespace ipvsproxier::ctl {

struct ServiceTable {
  netlink::VirtualService service;
  std::vector<netlink::ListedServer> servers;
};

// One line for each service and each server, in ipvsadm's order (list_order.h): pass services and
// servers in the kernel's order.
std::string format_save(const std::vector<ServiceTable>& table);

}  // namespace ipvsproxier::ctl
