#pragma once

// NodePortHealth: the health servers of Services with a healthCheckNodePort. Load balancers outside
// the cluster ask them whether this node has ready endpoints of the Service.
//
// One server for each Service and family, on the addresses of node ports and of the Service's load
// balancers, which need not be on this node yet. One thread calls
// update(); requests are answered on the HTTP server's thread.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/result.h"
#include "proxier/api/names.h"
#include "proxier/serve/http.h"
#include "proxier/serve/http_server.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::serve {

// The answer of a health server to any path and method: 200 if there are endpoints and the proxy is
// healthy, else 503.
HttpResponse service_health(const api::NamespacedName& service, std::uint32_t local_endpoints,
                            bool proxy_healthy);

class NodePortHealth {
 public:
  struct Failure {
    api::NamespacedName service;
    std::uint16_t port = 0;
    netlink::Error error;
  };

  // Listens on all addresses until update() sets others. `server` and `status` must outlive this.
  NodePortHealth(HttpServer& server, const Status& status) : server_(server), status_(status) {}
  NodePortHealth(const NodePortHealth&) = delete;
  NodePortHealth& operator=(const NodePortHealth&) = delete;
  ~NodePortHealth();  // closes all

  // Applies published changes: closes sockets before it opens others, and tries again to open those
  // that failed before. Returns the current failures, one for each Service and family. If one of
  // several new addresses fails, none of these is used, while the earlier addresses stay in use.
  // The cost is proportional to changes and failures.
  std::vector<Failure> update(const ServiceHealthChanges& changes = {});

  bool any_failed() const { return !closed_.empty(); }

 private:
  using Key = std::pair<api::NamespacedName, netlink::Family>;
  struct Server {
    std::uint16_t port = 0;
    std::atomic<std::uint32_t> endpoints{0};
    std::set<netlink::IpAddress> load_balancers;  // of the family
    std::map<netlink::IpAddress, HttpServer::Id> listeners;
  };
  using Servers = std::map<Key, std::unique_ptr<Server>>;

  std::set<netlink::IpAddress> addresses_of(const Key& key, const Server& server) const;
  void move(const NodePortHealthAddresses& addresses);
  void close_unwanted(const Key& key, Server& server);
  void take(const Key& key, std::optional<std::uint32_t> endpoints, const ServiceHealth& health);
  void remove(Servers::iterator it);
  std::optional<netlink::Error> open(const Key& key, Server& server);
  void close(Server& server);

  HttpServer& server_;
  const Status& status_;
  NodePortHealthAddresses addresses_;
  Servers servers_;
  std::set<Key> closed_;  // keys of servers that do not yet listen on all addresses
};

}  // namespace ipvsproxier::serve
