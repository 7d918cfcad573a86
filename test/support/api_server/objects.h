#pragma once

// JSON of objects to put into the test API server, as a client would write them.

#include <cstddef>
#include <string>
#include <vector>

namespace ipvsproxier::test {

// A ClusterIP Service with one port "http" of number `port`.
std::string make_service(const std::string& name_space, const std::string& name,
                         const std::string& cluster_ip, int port = 80,
                         const std::string& protocol = "TCP");
// The slice NAME-0 of a Service with these endpoints of one family, all ready, on `port`.
std::string make_slice(const std::string& name_space, const std::string& service,
                       const std::vector<std::string>& addresses, int port = 8080,
                       const std::string& protocol = "TCP");
std::string make_node(const std::string& name, const std::string& address,
                      const std::string& zone = "");

// `object` with an annotation that makes it so many bytes long, about.
std::string inflate(const std::string& object, std::size_t bytes);

// So many Services bulk/s-000000, ... with addresses from 10.64.0.0 up.
std::vector<std::string> make_services(std::size_t count);

}  // namespace ipvsproxier::test
