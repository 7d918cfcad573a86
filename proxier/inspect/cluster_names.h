#pragma once

// ClusterNames: what the cluster calls virtual services and real servers, as the daemon says it.
// Some 70 bytes for each endpoint. One thread. What it answers is valid as long as it lives.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ipvs_types.h"
#include "netlink/result.h"
#include "proxier/api/json_value.h"
#include "proxier/api/names.h"
#include "proxier/inspect/text_store.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::inspect {

// What a virtual service exposes.
struct VirtualName {
  std::string_view ns;
  std::string_view service;
  std::string_view port;  // may be empty
  plan::Facet facet = plan::Facet::cluster_ip;
};

std::string to_string(const VirtualName& name);  // "shop/web:http", "shop/web" for an unnamed port

// The endpoint behind a real server; "" where the cluster does not say.
struct ServerName {
  std::string_view pod;  // in the Service's namespace
  std::string_view node;
  std::string_view zone;
  bool ready = true;
  bool serving = true;
  bool terminating = false;

  friend bool operator==(const ServerName&, const ServerName&) = default;
};

// "", "not ready", "terminating" (it still serves), "terminating, not serving".
std::string_view condition_text(const ServerName& name);

class ClusterNames {
 public:
  // Takes a page of name_page(), in the order of the pages. Answers the next query's `after`; "":
  // that was the last page.
  // `malformed`: it is no such page; what is known stays.
  netlink::Result<std::string> take_page(std::string_view page);

  // nullopt: the cluster does not ask for it (any more).
  std::optional<VirtualName> of(const netlink::VirtualServiceKey& service) const;
  // Of this virtual service; nullopt: its Service has no such endpoint (any more).
  std::optional<ServerName> of(const netlink::VirtualServiceKey& service,
                               const netlink::RealServerKey& server) const;

  // Of an address alone: "shop/web" of a virtual service, "shop/web-1" of a pod; "" where that is
  // not known, or several have it. Looks at all of them.
  std::string of_address(const netlink::IpAddress& address) const;

  // The Services with a virtual service or an endpoint there, in order; of one with a port, with
  // that port. And those of a pod.
  std::set<api::NamespacedName> services_at(const netlink::IpAddress& address,
                                            std::optional<std::uint16_t> port) const;
  std::set<api::NamespacedName> services_of_pod(const api::NamespacedName& pod) const;

  // Calls visit(service, health_check_node_port), which is 0 for none.
  template <typename Visit>
  void each_service(Visit visit) const {
    for (const auto& service : services_) visit(full_name(service), service.health_check_port);
  }
  // Calls visit(service, address, ports) for each endpoint in each slice of each Service.
  template <typename Visit>
  void each_endpoint(Visit visit) const {
    for (const auto& service : services_) {
      const auto name = full_name(service);
      for (const auto& endpoint : service.endpoints)
        visit(name, endpoint.address, ports_[endpoint.ports]);
    }
  }

  bool empty() const { return virtuals_.empty(); }
  // Those of each Service, in the order of the keys.
  const auto& virtuals() const { return virtuals_; }

 private:
  struct Endpoint {
    netlink::IpAddress address;
    bool ready = true;
    bool serving = true;
    bool terminating = false;
    std::uint32_t ports = 0;  // index in ports_
    TextStore::Id pod = 0;
    TextStore::Id node = 0;
    TextStore::Id zone = 0;
  };
  struct Service {
    TextStore::Id ns = 0;
    TextStore::Id name = 0;
    std::uint16_t health_check_port = 0;
    std::vector<Endpoint> endpoints;  // ordered by address
  };
  struct Virtual {
    std::uint32_t service = 0;  // index in services_
    TextStore::Id port = 0;
    plan::Facet facet = plan::Facet::cluster_ip;
  };

  static std::span<const Endpoint> endpoints_at(const Service& service,
                                                const netlink::IpAddress& address);
  api::NamespacedName full_name(const Service& service) const;
  ServerName name_of(const Endpoint& endpoint) const;
  bool take_service(const api::JsonValue& json);
  bool take_virtual(const api::JsonValue& json);
  bool take_slice(const api::JsonValue& json, std::vector<Endpoint>& endpoints);
  Service& service_of(const api::JsonValue& json);
  std::optional<std::uint32_t> take_ports(const api::JsonValue& json);

  TextStore texts_;
  std::vector<Service> services_;
  std::vector<std::vector<std::uint16_t>> ports_;  // of slices, those in a row that have the same
  std::map<netlink::VirtualServiceKey, Virtual> virtuals_;
};

}  // namespace ipvsproxier::inspect
