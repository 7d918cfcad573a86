#include "cmd/ipvsctl/listing/connection_listing.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"
#include "proxier/api/visible_text.h"

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

void write_connection(api::DocumentWriter& out, const NamedConnection& row) {
  const auto& one = row.one;
  out.member("client", netlink::to_string(one.client_address, one.client_port));
  out.member("expiresSeconds", one.expires);
  if (!row.pod.empty()) out.member("pod", row.pod);
  out.member("protocol", one.protocol);
  out.member("realServer", netlink::to_string(one.server_address, one.server_port));
  if (!row.service.empty()) out.member("service", row.service);
  out.member("state", one.state);
  out.member("virtualService", netlink::to_string(one.virtual_address, one.virtual_port));
}

std::string row_text(const NamedConnection& row) {
  const auto& one = row.one;
  return fmt::format("{:4} {:7} {:11} {:21} {:40} {}\n", one.protocol, one.expires, one.state,
                     netlink::to_string(one.client_address, one.client_port),
                     end_text(one.virtual_address, one.virtual_port, api::visible(row.service)),
                     end_text(one.server_address, one.server_port, api::visible(row.pod)));
}

// Writes the rows one by one, so that any number of them needs little memory.
class RowWriter {
 public:
  explicit RowWriter(SetFormat format) : format_(format) {}

  void begin(std::string& text) {
    if (format_ == SetFormat::text)
      fmt::format_to(std::back_inserter(text), "{:4} {:7} {:11} {:21} {:40} {}\n", "Prot",
                     "Expires", "State", "Client", "Service", "Backend");
    if (format_ != SetFormat::json) return;
    json_.open_object();
    json_.key("connections");
    json_.open_list();
    json_.move_to(text);
  }

  void row(std::string& text, const NamedConnection& row) {
    const bool first = std::exchange(empty_, false);
    if (format_ == SetFormat::text) {
      text += row_text(row);
    } else if (format_ == SetFormat::json) {
      json_.object([&] { write_connection(json_, row); });
      json_.move_to(text);
    } else {
      if (first) text += "connections:\n";
      api::YamlWriter yaml;
      yaml.list(std::array{&row}, [&](const NamedConnection* one) {
        yaml.object([&] { write_connection(yaml, *one); });
      });
      text += yaml.take();
    }
  }

  void end(std::string& text) {
    if (format_ == SetFormat::yaml && empty_) text += "connections: []\n";
    if (format_ != SetFormat::json) return;
    json_.close();
    json_.close();
    text += json_.take() + "\n";
  }

 private:
  SetFormat format_;
  api::JsonWriter json_{2};  // a line for each connection
  bool empty_ = true;
};

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
  std::string text;
  RowWriter rows(style.format);
  rows.begin(text);
  const auto tell = [&](const NamedConnection& row) -> Status {
    rows.row(text, row);
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
  rows.end(text);
  return sink(text);
}

}  // namespace ipvsproxier::ctl
