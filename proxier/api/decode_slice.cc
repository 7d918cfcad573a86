#include <utility>

#include <fmt/format.h>

#include "proxier/api/decode.h"
#include "proxier/api/decode_parts.h"

namespace ipvsproxier::api {

namespace {

// nullopt: already reported.
std::optional<Family> family_of(const Fields& root) {
  const auto text = root.text("addressType");
  if (text == "IPv4") return Family::ipv4;
  if (text == "IPv6") return Family::ipv6;
  if (text == "FQDN") {
    root.note(Severity::warning, "addressType", "FQDN is not proxied; the slice is ignored");
  } else if (!root.find("addressType")) {
    root.refuse("addressType", "is missing");
  } else {
    // From a later version of the API: the Service's known families are still served.
    root.note(Severity::warning, "addressType",
              fmt::format("must be IPv4 or IPv6, not {}; the slice is ignored", show(text)));
  }
  return std::nullopt;
}

void decode_ports(const Fields& root, EndpointSlice& slice) {
  root.each_object("ports", [&](const Fields& entry) {
    EndpointPort port;
    port.name = entry.text("name");
    port.protocol = protocol_of(entry);
    const auto given = entry.find("port");
    const auto number = given ? given->integer() : std::nullopt;
    if (number && *number > 0 && *number <= 65535) {
      port.port = static_cast<std::uint16_t>(*number);
      return slice.ports.push_back(std::move(port));
    }
    // The API server refuses no number.
    if (!given || number == 0)
      entry.note(Severity::warning, "port",
                 given ? "is 0; this port is left out" : "is missing; this port is left out");
    else
      entry.note(
          Severity::error, "port",
          fmt::format("must be a whole number from 1 to 65535, not {}; this port is left out",
                      show(*given)));
  });
}

// The only address that is used, as in kube-proxy; nullopt: already reported.
std::optional<IpAddress> first_address(const Fields& entry, Family family) {
  constexpr std::string_view kKey = "addresses";
  constexpr std::string_view kConsequence = "this endpoint is left out";
  std::optional<IpAddress> result;
  bool any = false;
  entry.each(kKey, [&](std::size_t index, const JsonValue& element) {
    any = true;
    if (index != 0) return;
    const auto text = text_entry(entry, kKey, index, element, kConsequence);
    if (!text) return;
    result = IpAddress::parse(*text);
    if (result && result->family() == family) return;
    result.reset();
    entry.note(Severity::error, kKey,
               fmt::format("{} is no {} address; {}", show(*text), netlink::to_string(family),
                           kConsequence),
               index);
  });
  if (!any) entry.note(Severity::error, kKey, fmt::format("is empty; {}", kConsequence));
  return result;
}

std::vector<std::string> hint_names(const Fields& hints, std::string_view key) {
  std::vector<std::string> names;
  hints.each_object(key, [&](const Fields& hint) { names.push_back(hint.text("name")); });
  return names;
}

void decode_endpoints(const Fields& root, EndpointSlice& slice) {
  root.each_object("endpoints", [&](const Fields& entry) {
    const auto address = first_address(entry, slice.family);
    const Fields conditions(entry, "conditions");
    const Fields target(entry, "targetRef");
    const Fields hints(entry, "hints");
    Endpoint endpoint;
    endpoint.ready = conditions.boolean("ready", true);
    endpoint.serving = conditions.boolean("serving", true);
    endpoint.terminating = conditions.boolean("terminating", false);
    endpoint.node_name = entry.text("nodeName");
    endpoint.zone = entry.text("zone");
    endpoint.target_name = target.text("name");
    endpoint.zone_hints = hint_names(hints, "forZones");
    endpoint.node_hints = hint_names(hints, "forNodes");
    if (!address) return;
    endpoint.address = *address;
    slice.endpoints.push_back(endpoint);
  });
  slice.endpoints.shrink_to_fit();
}

}  // namespace

std::optional<EndpointSlice> decode_endpoint_slice(const Fields& root, Metadata metadata) {
  const auto family = family_of(root);
  if (!family) return std::nullopt;
  EndpointSlice slice;
  slice.name = std::move(metadata.name);
  const auto service = metadata.labels.find(std::string(kServiceNameLabel));
  if (service != metadata.labels.end()) slice.service = std::move(service->second);
  slice.family = *family;
  slice.weight = metadata.weight;
  slice.trigger = metadata.trigger;
  decode_ports(root, slice);
  decode_endpoints(root, slice);
  return slice;
}

}  // namespace ipvsproxier::api
