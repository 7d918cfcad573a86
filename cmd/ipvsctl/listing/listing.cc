#include "cmd/ipvsctl/listing/listing.h"

#include <fmt/format.h>

#include "cmd/ipvsctl/listing/list_order.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using netlink::ServerReading;
using netlink::ServiceReading;
using netlink::Status;

namespace {

constexpr std::size_t kPartBytes = 32 * 1024;

// Collects text for the sink.
class Page {
 public:
  explicit Page(const TextSink& sink) : sink_(sink) {}
  std::string& text() { return text_; }
  Status pass_on_if_large() { return text_.size() < kPartBytes ? Status{} : pass_on(); }
  Status pass_on() {
    if (text_.empty()) return {};
    auto status = sink_(text_);
    text_.clear();
    return status;
  }

 private:
  const TextSink& sink_;
  std::string text_;
};

const netlink::VirtualServiceKey& key_of_service(const ServiceReading& reading) {
  return reading.service.key;
}

const netlink::RealServerKey& key_of_server(const ServerReading& reading) {
  return reading.listed.server.key;
}

class TableListing {
 public:
  TableListing(netlink::IpvsReader& reader, const ListFilter& filter, TableForm& form,
               const TextSink& sink)
      : reader_(reader), filter_(filter), form_(form), page_(sink) {}

  Status run(bool sorted) {
    const auto info = reader_.info();
    if (!info) return info.error();
    form_.begin(page_.text(), *info);
    auto status = sorted ? list_sorted() : list_unsorted();
    if (!status) return status;
    form_.end(page_.text());
    return page_.pass_on();
  }

 private:
  Status list_unsorted() {
    return reader_.services([&](const ServiceReading& service) -> Status {
      if (!filter_.matches(service.service.key)) return {};
      return show(service, false);
    });
  }

  Status list_sorted() {
    std::vector<ServiceReading> services;
    auto status = reader_.services([&](const ServiceReading& service) -> Status {
      if (filter_.matches(service.service.key)) services.push_back(service);
      return {};
    });
    if (!status) return status;
    for (const auto* service : order_of_ipvsadm<key_of_service>(services))
      if (status = show(*service, true); !status) return status;
    return {};
  }

  Status show(const ServiceReading& service, bool sorted) {
    // A service is shown once it matches: with `empty` a service without servers may match.
    bool shown = false;
    bool has_servers = false;
    const auto show_service = [&] {
      if (!std::exchange(shown, true)) form_.begin_service(page_.text(), service);
    };
    const auto show_server = [&](const ServerReading& server) -> Status {
      show_service();
      form_.server(page_.text(), service, server);
      return page_.pass_on_if_large();
    };
    std::vector<ServerReading> held;
    auto status = reader_.servers(service.service.key, [&](const ServerReading& server) -> Status {
      has_servers = true;
      if (filter_.empty || !filter_.matches(server.listed.server)) return {};
      if (!sorted) return show_server(server);
      held.push_back(server);
      return {};
    });
    if (!status) return status;
    for (const auto* server : order_of_ipvsadm<key_of_server>(held))
      if (status = show_server(*server); !status) return status;
    if (!filter_.selects_servers() && !(filter_.empty && has_servers)) show_service();
    if (shown) form_.end_service(page_.text());
    return page_.pass_on_if_large();
  }

  netlink::IpvsReader& reader_;
  const ListFilter& filter_;
  TableForm& form_;
  Page page_;
};

}  // namespace

Status list_table(netlink::IpvsReader& reader, const ListFilter& filter, bool sorted,
                  TableForm& form, const TextSink& sink) {
  return TableListing(reader, filter, form, sink).run(sorted);
}

Status list_connections(netlink::ConnectionSource& source, const ListFilter& filter,
                        bool persistence, AddressNames* names, const TextSink& sink) {
  Page page(sink);
  const auto out = std::back_inserter(page.text());
  page.text() += "IPVS connection entries\n";
  if (persistence)
    fmt::format_to(out, "pro expire {:11} {:18} {:18} {:18} {:16} {}\n", "state", "source",
                   "virtual", "destination", "pe name", "pe_data");
  else
    fmt::format_to(out, "pro expire {:11} {:18} {:18} {}\n", "state", "source", "virtual",
                   "destination");
  auto status = source.connections([&](const netlink::IpvsConnection& one) -> Status {
    if (!filter.matches(one)) return {};
    constexpr std::uint32_t kMinute = 60;
    const auto protocol = netlink::parse_protocol(one.protocol);
    const auto expires = fmt::format("{:02}:{:02}", one.expires / kMinute, one.expires % kMinute);
    const auto server = address_text(one.server_address, one.server_port, protocol, names);
    fmt::format_to(out, "{:3} {:6} {:11} {:18} {:18} ", one.protocol, expires, one.state,
                   address_text(one.client_address, one.client_port, protocol, names),
                   address_text(one.virtual_address, one.virtual_port, protocol, names));
    if (persistence && !one.persistence_data.empty())
      fmt::format_to(out, "{:16} {:18} {}\n", server, one.persistence_engine,
                     api::visible(one.persistence_data));
    else
      fmt::format_to(out, "{}\n", server);
    return page.pass_on_if_large();
  });
  if (!status) return status;
  return page.pass_on();
}

std::string timeout_text(const netlink::IpvsTimeouts& timeouts) {
  return fmt::format("Timeout (tcp tcpfin udp): {} {} {}\n", timeouts.tcp, timeouts.tcp_fin,
                     timeouts.udp);
}

std::string daemon_text(const std::vector<netlink::SyncDaemon>& daemons) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const auto& daemon : daemons) {
    fmt::format_to(out, "{} sync daemon (mcast={}, syncid={}", daemon.master ? "master" : "backup",
                   daemon.interface, daemon.sync_id);
    if (daemon.max_length != 0) fmt::format_to(out, ", maxlen={}", daemon.max_length);
    if (daemon.group) fmt::format_to(out, ", group={}", daemon.group->to_string());
    if (daemon.port != 0) fmt::format_to(out, ", port={}", daemon.port);
    if (daemon.ttl != 0) fmt::format_to(out, ", ttl={}", daemon.ttl);
    text += ")\n";
  }
  return text;
}

}  // namespace ipvsproxier::ctl
