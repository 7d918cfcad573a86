#include "proxier/access/no_proxy.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "netlink/ip_address.h"

namespace ipvsproxier::access {

namespace {

using netlink::IpAddress;
using netlink::IpPrefix;

constexpr std::string_view kSeparators = ", \t";

std::string_view without_brackets(std::string_view host) {
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return is_bracketed ? host.substr(1, host.size() - 2) : host;
}

// Removes ":PORT" from the end of an entry. An IPv6 address with a port is in brackets.
std::string_view take_port(std::string_view& entry) {
  const auto colon = entry.rfind(':');
  if (colon == std::string_view::npos) return "";
  const bool is_bracketed = colon > 0 && entry[colon - 1] == ']';
  if (!is_bracketed && entry.find(':') != colon) return "";
  const auto port = entry.substr(colon + 1);
  entry = entry.substr(0, colon);
  return port;
}

bool same_name(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  });
}

std::string_view without_last_dot(std::string_view name) {
  return name.ends_with('.') ? name.substr(0, name.size() - 1) : name;
}

bool is_in_domain(std::string_view host, std::string_view domain) {
  for (const std::string_view any : {"*.", "."})
    if (domain.starts_with(any)) domain.remove_prefix(any.size());
  host = without_last_dot(host);
  domain = without_last_dot(domain);
  if (domain.empty() || host.size() < domain.size()) return false;
  const auto rest = host.size() - domain.size();
  return same_name(host.substr(rest), domain) && (rest == 0 || host[rest - 1] == '.');
}

bool names(std::string_view entry, std::string_view host, std::string_view port) {
  if (entry == "*") return true;
  const auto address = IpAddress::parse(host);
  if (const auto range = IpPrefix::parse(entry)) return address && range->contains(*address);
  const auto wanted_port = take_port(entry);
  if (!wanted_port.empty() && wanted_port != port) return false;
  if (address) return IpAddress::parse(without_brackets(entry)) == address;
  return is_in_domain(host, entry);
}

}  // namespace

bool is_in_no_proxy(std::string_view list, std::string_view host, std::string_view port) {
  host = without_brackets(host);
  while (!list.empty()) {
    const auto end = std::min(list.find_first_of(kSeparators), list.size());
    if (end > 0 && names(list.substr(0, end), host, port)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace ipvsproxier::access
