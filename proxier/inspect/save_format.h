#pragma once

// A virtual server table that is held as values, in the form of save_form(). Pure, any thread.

#include <string>
#include <vector>

#include "netlink/ipvs_types.h"

namespace ipvsproxier::inspect {

struct ServiceTable {
  netlink::VirtualService service;
  std::vector<netlink::ListedServer> servers;
};

// One line for each service and each of its servers, in ipvsadm's order (list_order.h): give
// services and servers in the kernel's.
std::string format_save(const std::vector<ServiceTable>& table);

}  // namespace ipvsproxier::inspect
