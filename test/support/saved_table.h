#pragma once

// A virtual server table of values as `ipvsadm-save -n` prints it.

#include <string>
#include <vector>

#include "cmd/ipvsctl/listing/list_order.h"
#include "cmd/ipvsctl/listing/table_form.h"
#include "netlink/ipvs/ipvs_readings.h"

namespace ipvsproxier::test {

struct ServiceTable {
  netlink::VirtualService service;
  std::vector<netlink::ListedServer> servers;
};

inline const netlink::VirtualServiceKey& key_of_table(const ServiceTable& table) {
  return table.service.key;
}

inline const netlink::RealServerKey& key_of_listed(const netlink::ListedServer& listed) {
  return listed.server.key;
}

// One line for each service and each server, in ipvsadm's order (list_order.h): pass services and
// servers in the kernel's order.
inline std::string format_save(const std::vector<ServiceTable>& table) {
  std::string text;
  const auto form = ctl::save_form();
  for (const auto* entry : ctl::order_of_ipvsadm<key_of_table>(table)) {
    const netlink::ServiceReading service{.service = entry->service};
    form->begin_service(text, service);
    for (const auto* listed : ctl::order_of_ipvsadm<key_of_listed>(entry->servers))
      form->server(text, service, netlink::ServerReading{.listed = *listed});
  }
  return text;
}

}  // namespace ipvsproxier::test
