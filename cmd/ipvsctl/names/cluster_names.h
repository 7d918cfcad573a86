#pragma once

// ClusterNames: the cluster's names of virtual services and real servers, as the daemon reports
// them. About 70 bytes for each endpoint. One thread. Results are valid as long as this object.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/ipvsctl/names/text_store.h"
#include "netlink/ipvs/ipvs_types.h"
#include "netlink/result.h"
#include "proxier/api/json_value.h"
#include "proxier/api/names.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::ctl {

// The Service port that a virtual service exposes.
struct VirtualName {
  std::string_view ns;
  std::string_view service;
  std::string_view port;  // may be empty
  plan::Facet facet = plan::Facet::cluster_ip;
};

std::string to_string(const VirtualName& name);  // "shop/web:http", "shop/web" for an unnamed port

// The endpoint behind a real server; "" for values that the cluster does not have.
struct ServerName {
  std::string_view pod;  // in the Service's namespace
  std::string_view node;
  std::string_view zone;
  bool ready = true;
  bool serving = true;
  bool terminating = false;

  friend bool operator==(const ServerName&, const ServerName&) = default;
};

// "", "not ready", "terminating" (still serving), "terminating, not serving".
std::string_view condition_text(const ServerName& name);

class ClusterNames {
 public:
  // Adds a page of name_page(); call in the order of the pages. Returns `after` of the next query,
  // "" after the last page. `malformed`: not such a page; earlier pages stay valid.
  netlink::Result<std::string> take_page(std::string_view page);

  // nullopt: no Service asks for it (any more).
  std::optional<VirtualName> of(const netlink::VirtualServiceKey& service) const;
  // A real server of this virtual service; nullopt: the Service has no such endpoint (any more).
  std::optional<ServerName> of(const netlink::VirtualServiceKey& service,
                               const netlink::RealServerKey& server) const;

  // Whether the virtual service is that of another program, as far as the daemon has seen it.
  bool is_foreign(const netlink::VirtualServiceKey& service) const {
    return foreign_.contains(service);
  }

  // The name of an address: "shop/web" for a virtual service, "shop/web-1" for a pod; "" if it is
  // unknown or ambiguous. Cost: linear.
  std::string of_address(const netlink::IpAddress& address) const;

  // The Services with a virtual service or an endpoint at this address, and at this port if given,
  // in order; and the Services of a pod.
  std::set<api::NamespacedName> services_at(const netlink::IpAddress& address,
                                            std::optional<std::uint16_t> port) const;
  std::set<api::NamespacedName> services_of_pod(const api::NamespacedName& pod) const;

  // Calls visit(service, health_check_node_port); the port is 0 if there is none.
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
  // All virtual services, in the order of their keys.
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
  bool take_foreign(const api::JsonValue& json);
  bool take_slice(const api::JsonValue& json, std::vector<Endpoint>& endpoints);
  Service& service_of(const api::JsonValue& json);
  std::optional<std::uint32_t> take_ports(const api::JsonValue& json);

  TextStore texts_;
  std::vector<Service> services_;
  // Of slices; consecutive equal ones are stored once.
  std::vector<std::vector<std::uint16_t>> ports_;
  std::map<netlink::VirtualServiceKey, Virtual> virtuals_;
  std::set<netlink::VirtualServiceKey> foreign_;
};

}  // namespace ipvsproxier::ctl
