#pragma once

// NO_PROXY: which servers are reached without the proxy of the environment. Pure.

#include <string_view>

namespace ipvsproxier::watch {

// Whether the list, separated by commas or blanks, names the server: "*", a domain (with or without
// "." or "*." in front; its hosts too), an address, a range ("10.0.0.0/8"), each but "*" and a
// range with or without ":PORT". An IPv6 `host` may be in brackets.
bool is_in_no_proxy(std::string_view list, std::string_view host, std::string_view port);

}  // namespace ipvsproxier::watch
