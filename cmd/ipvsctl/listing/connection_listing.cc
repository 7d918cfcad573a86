#include "cmd/ipvsctl/listing/connection_listing.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"
#include "proxier/api/visible_text.h"
#include "proxier/api/yaml_writer.h"

namespace ipvsproxier::ctl {

using netlink::IpvsConnection;
using netlink::Status;

namespace {

constexpr std::size_t kTellBytes = 32 * 1024;

// A connection with the cluster's names of its ends; "" if unknown.
struct NamedConnection {
  IpvsConnection one;
  std::string service;  // "shop/web:http"
  std::string pod;      // "shop/web-1"
};

NamedConnection named(const IpvsConnection& one, const ClusterNames& names) {
  NamedConnection result{.one = one};
  const auto key = service_of(one);
  const auto service = key ? names.of(*key) : std::nullopt;
  if (!service) return result;
  result.service = to_string(*service);
  const auto server = names.of(*key, {one.server_address, one.server_port});
  if (server && !server->pod.empty()) result.pod = fmt::format("{}/{}", service->ns, server->pod);
  return result;
}

std::string end_text(const netlink::IpAddress& address, std::uint16_t port,
                     const std::string& name) {
  auto text = netlink::to_string(address, port);
  return name.empty() ? text : text + " " + name;
}

nlohmann::json connection_document(const NamedConnection& row) {
  const auto& one = row.one;
  nlohmann::json document{
      {"protocol", one.protocol},
      {"state", one.state},
      {"expiresSeconds", one.expires},
      {"client", netlink::to_string(one.client_address, one.client_port)},
      {"virtualService", netlink::to_string(one.virtual_address, one.virtual_port)},
      {"realServer", netlink::to_string(one.server_address, one.server_port)}};
  if (!row.service.empty()) document["service"] = row.service;
  if (!row.pod.empty()) document["pod"] = row.pod;
  return document;
}

std::string row_text(const NamedConnection& row) {
  const auto& one = row.one;
  return fmt::format("{:4} {:7} {:11} {:21} {:40} {}\n", one.protocol, one.expires, one.state,
                     netlink::to_string(one.client_address, one.client_port),
                     end_text(one.virtual_address, one.virtual_port, api::visible(row.service)),
                     end_text(one.server_address, one.server_port, api::visible(row.pod)));
}

std::string begin_text(SetFormat format) {
  if (format == SetFormat::json) return "{\n  \"connections\": [";
  if (format == SetFormat::yaml) return "";
  return fmt::format("{:4} {:7} {:11} {:21} {:40} {}\n", "Prot", "Expires", "State", "Client",
                     "Service", "Backend");
}

std::string end_text(SetFormat format, bool empty) {
  if (format == SetFormat::json) return empty ? "]\n}\n" : "\n  ]\n}\n";
  return format == SetFormat::yaml && empty ? "connections: []\n" : "";
}

std::string text_of(const NamedConnection& row, SetFormat format, bool first) {
  if (format == SetFormat::json)
    return (first ? "\n    " : ",\n    ") + api::to_json_text(connection_document(row));
  if (format == SetFormat::yaml)
    return (first ? "connections:\n" : "") +
           api::write_yaml(nlohmann::json::array({connection_document(row)}));
  return row_text(row);
}

auto connection_order(ConnectionSort sort) {
  return [sort](const NamedConnection& left, const NamedConnection& right) {
    const auto ends = [](const NamedConnection& row) {
      const auto& one = row.one;
      return std::tie(one.client_address, one.client_port, one.protocol, one.virtual_address,
                      one.virtual_port);
    };
    const auto key = [sort](const NamedConnection& row) {
      const auto& one = row.one;
      using Key = std::tuple<std::uint32_t, std::string_view, netlink::IpAddress, std::uint16_t>;
      switch (sort) {
        case ConnectionSort::expires:
          return Key{one.expires, "", {}, 0};
        case ConnectionSort::state:
          return Key{0, one.state, {}, 0};
        case ConnectionSort::service:
          return Key{0, row.service, one.virtual_address, one.virtual_port};
        case ConnectionSort::backend:
          return Key{0, "", one.server_address, one.server_port};
        case ConnectionSort::client:
          break;
      }
      return Key{};
    };
    const auto order = key(left) <=> key(right);
    return order != 0 ? order < 0 : ends(left) < ends(right);
  };
}

}  // namespace

Status tell_connections(netlink::ConnectionSource& source, const ConnectionStyle& style,
                        const ClusterNames& names, const TextSink& sink) {
  auto text = begin_text(style.format);
  bool first = true;
  const auto tell = [&](const NamedConnection& row) -> Status {
    text += text_of(row, style.format, std::exchange(first, false));
    if (text.size() < kTellBytes) return {};
    return sink(std::exchange(text, ""));
  };
  std::vector<NamedConnection> held;
  auto status = source.connections([&](const IpvsConnection& one) -> Status {
    if (!style.filter.matches(one)) return {};
    if (!style.sort) return tell(named(one, names));
    held.push_back(named(one, names));
    return {};
  });
  if (!status) return status;
  if (style.sort) std::ranges::sort(held, connection_order(*style.sort));
  for (const auto& row : held)
    if (status = tell(row); !status) return status;
  return sink(text + end_text(style.format, first));
}

}  // namespace ipvsproxier::ctl
