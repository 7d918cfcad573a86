#pragma once

// NO_PROXY: the servers that are reached without the environment's proxy. Pure. libcurl's own check
// would use the host of the URL, which may be the TLS name instead (http_transfer.cc).

#include <string_view>

namespace ipvsproxier::access {

// Whether the list (separated by commas or blanks) names the server: "*", a domain and its hosts
// (with or without "." or "*." in front), an address, or a range ("10.0.0.0/8"). Domains and
// addresses may have ":PORT". An IPv6 `host` may be in brackets.
bool is_in_no_proxy(std::string_view list, std::string_view host, std::string_view port);

}  // namespace ipvsproxier::access
