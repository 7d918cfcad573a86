#include "cmd/ipvsctl/commands.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cmd/ipvsctl/listing/listing.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/service/service_page.h"
#include "cmd/ipvsctl/set_tables.h"
#include "cmd/kernel_tables.h"
#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_table_claim.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/rules/rule_iptc.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "proxier/access/transport.h"
#include "proxier/api/json_value.h"
#include "proxier/inspect/service_page.h"

namespace ipvsproxier::ctl {

namespace {

using netlink::Error;
using netlink::Result;

constexpr int kShown = 0;
constexpr int kPartly = 1;
constexpr int kNothing = 2;

int refuse(const std::string& why) {
  complain(why);
  return kNothing;
}

void note_unknown(NodePage& page, const std::string& what, const Error& error) {
  page.facts.node->unknown.push_back(what + ": " + to_string(error));
}

void note_no_sets(NodePage& page) {
  page.facts.node->unknown.emplace_back("sets: neither iptables nor nf_tables has any of ours");
}

// --- from the kernel

// Collects the table instead of printing it.
class VirtualCollector final : public TableForm {
 public:
  void begin_service(std::string& /*text*/, const netlink::ServiceReading& service) override {
    virtuals_.push_back({.key = service.service.key, .reading = service, .servers = {}});
  }
  void server(std::string& /*text*/, const netlink::ServiceReading& /*service*/,
              const netlink::ServerReading& server) override {
    virtuals_.back().servers.push_back(server);
  }
  std::vector<PageVirtual> take() { return std::move(virtuals_); }

 private:
  std::vector<PageVirtual> virtuals_;
};

Result<std::vector<PageVirtual>> listed(const ListFilter& filter) {
  const auto reader = netlink::KernelIpvsReader::open();
  if (!reader) return reader.error();
  VirtualCollector collector;
  const auto status = list_table(**reader, filter, true, collector,
                                 [](std::string_view) { return netlink::Status{}; });
  if (!status) return status.error();
  return collector.take();
}

// Adds the Service's virtual services, and those that the kernel lacks.
void add_virtuals(NodePage& page) {
  auto virtuals = listed({.named = &*page.names});
  if (!virtuals) return note_unknown(page, "virtual services", virtuals.error());
  std::set<netlink::VirtualServiceKey> found;
  for (const auto& one : *virtuals) found.insert(one.key);
  for (const auto& [key, name] : page.names->virtuals())
    if (!found.contains(key)) virtuals->push_back({.key = key, .reading = {}, .servers = {}});
  page.virtuals = *std::move(virtuals);
}

// Marks whether the desired elements are in the kernel.
void check_elements(NodePage& page) {
  const auto tables = open_set_tables();
  if (!tables) return note_unknown(page, "sets", tables.error());
  auto* const table = (*tables)->of_filter();
  bool has_sets = false;
  std::map<std::string, std::set<std::string>> sets;
  for (auto& element : page.facts.elements) {
    if (table != nullptr && !sets.contains(element.set)) {
      const auto set = list_set(*table, element.set);
      if (!set) return note_unknown(page, "sets", set.error());
      auto& texts = sets[element.set];
      has_sets = has_sets || *set;
      if (*set)
        for (const auto& one : (*set)->elements) texts.insert(to_string(one));
    }
    element.in_kernel = sets[element.set].contains(element.element);
  }
  if (!has_sets && !page.facts.elements.empty()) note_no_sets(page);
}

// As a part between commas, or with a port behind it, as where packets are sent on to.
bool mentions(const ipset::Element& element, const std::string& address) {
  const auto* way = std::get_if<ipset::DestinationElement>(&element);
  return (way != nullptr && way->to.to_string() == address) ||
         ("," + to_string(element) + ",").find("," + address + ",") != std::string::npos;
}

void find_elements(NodePage& page) {
  const auto tables = open_set_tables();
  if (!tables) return note_unknown(page, "sets", tables.error());
  auto* const table = (*tables)->of_filter();
  if (table == nullptr) return note_no_sets(page);
  const auto sets = list_sets(*table, (*tables)->programmed.filter);
  if (!sets) return note_unknown(page, "sets", sets.error());
  if (sets->empty()) note_no_sets(page);
  for (const auto& set : *sets)
    for (const auto& element : set.elements)
      if (mentions(element, page.facts.address))
        page.facts.elements.push_back(
            {.set = set.spec.name, .element = to_string(element), .in_kernel = {}});
}

void add_rules_of(const ipset::WholeTable& table, netlink::Family family, ipset::Table name,
                  const std::set<std::string>& sets, std::vector<inspect::PageRule>& rules) {
  const bool is_nft = name == ipset::Table::kube_ipvs;
  const auto add = [&](const std::string& set, const std::string& chain, const ipset::Rule& rule) {
    if (!sets.contains(set)) return;
    rules.push_back(
        {.set = set,
         .family = std::string(to_string(family)),
         .table = std::string(to_string(name)),
         .chain = chain,
         .rule = is_nft ? ipset::to_nft_string(rule, family) : to_string(rule, family)});
  };
  for (const auto& [chain, list] : table.chains)
    for (const auto& rule : list)
      for (const auto& set : ipset::looked_up_by(rule)) add(set, chain, rule);
}

void add_nft_rules(NodePage& page, ipset::FilterTable& nftables,
                   const std::set<std::string>& sets) {
  for (const auto family : netlink::kFamilies) {
    const auto frame = nftables.list_frame(ipset::nft_table_of(family));
    if (!frame) return note_unknown(page, "rules", frame.error());
    if (ipset::claim_of(*frame, family) == ipset::TableClaim::ours)
      add_rules_of(ipset::whole_table_of(**frame, family), family, ipset::Table::kube_ipvs, sets,
                   page.facts.node->rules);
  }
}

// Adds the rules that use the sets of the page's elements.
void add_rules(NodePage& page) {
  std::set<std::string> sets;
  for (const auto& element : page.facts.elements) sets.insert(element.set);
  if (sets.empty()) return;
  const auto programmed = cmd::open_programmed_filter();
  if (!programmed) return note_unknown(page, "rules", programmed.error());
  if (programmed->filter == ipset::PacketFilter::nftables)
    return add_nft_rules(page, *programmed->nftables, sets);
  ipset::IptcRuleTable tables;
  for (const auto family : netlink::kFamilies)
    for (const auto name : {ipset::Table::mangle, ipset::Table::nat, ipset::Table::filter}) {
      const auto table = tables.read(family, name);
      if (!table) return note_unknown(page, "rules", table.error());
      if (*table) add_rules_of(**table, family, name, sets, page.facts.node->rules);
    }
}

// --- from the daemon

// nullopt: the Service does not exist.
Result<std::optional<inspect::ServicePage>> asked(ControlClient& daemon,
                                                  const api::NamespacedName& service) {
  const auto text =
      daemon.get("/v1/service?service=" + access::encode_query(api::to_string(service)));
  if (!text) return text.error();
  const auto document = api::JsonDocument::parse(*text);
  if (!document) return daemon.stranger();
  if (document->root().is_null()) return std::optional<inspect::ServicePage>();
  auto page = inspect::read_service_page(document->root());
  if (!page) return daemon.stranger();
  return page;
}

// Adds pods, nodes and zones, as the port's first virtual service has them.
void name_endpoints(const inspect::PagePort& port, const ClusterNames& names,
                    inspect::PageTraffic& traffic) {
  const auto facet = std::ranges::find(port.facets, true, &inspect::PageFacet::held);
  if (facet == port.facets.end()) return;
  const netlink::VirtualServiceKey key{facet->address, port.protocol, facet->port};
  for (auto& endpoint : traffic.endpoints)
    if (const auto name = names.of(key, {endpoint.address, endpoint.port}))
      endpoint.whereabouts = inspect::PageWhereabouts{.pod = std::string(name->pod),
                                                      .node = std::string(name->node),
                                                      .zone = std::string(name->zone)};
}

// nullopt: the Service does not exist.
Result<std::optional<NodePage>> whole_page(ControlClient& daemon,
                                           const api::NamespacedName& service) {
  auto facts = asked(daemon, service);
  if (!facts) return facts.error();
  if (!*facts) return std::optional<NodePage>();
  auto names = names_of_daemon(daemon, {.service = service});
  if (!names) return names.error();
  NodePage page{.facts = **std::move(facts), .names = *std::move(names), .virtuals = {}};
  page.facts.node.emplace();
  for (auto& port : page.facts.decisions->ports) {
    name_endpoints(port, *page.names, port.internal);
    if (port.external) name_endpoints(port, *page.names, *port.external);
    if (port.in_cluster) name_endpoints(port, *page.names, *port.in_cluster);
  }
  add_virtuals(page);
  check_elements(page);
  add_rules(page);
  return std::optional(std::move(page));
}

// Of an address that the daemon does not know, or if it is not asked.
NodePage kernel_page(const Backend& address, const std::string& unknown) {
  NodePage page;
  page.facts.address = address.address.to_string();
  page.facts.node = {.rules = {}, .unknown = {unknown}};
  auto& virtuals = page.virtuals.emplace();
  const auto bits = netlink::address_bits(address.address.family());
  for (const auto& filter :
       {ListFilter{.vip = netlink::IpPrefix::of(address.address, bits), .port = address.port},
        ListFilter{.backend = address}}) {
    auto found = listed(filter);
    if (!found) {
      note_unknown(page, "virtual services", found.error());
      break;
    }
    std::ranges::move(*found, std::back_inserter(virtuals));
  }
  find_elements(page);
  add_rules(page);
  return page;
}

std::string text_of(std::span<const NodePage> pages, SetFormat format) {
  if (format != SetFormat::text)
    return document_text(format, [&](api::DocumentWriter& out) {
      out.object([&] {
        out.list("services", pages, [&](const NodePage& page) { write_page(out, page); });
      });
    });
  std::string text;
  for (const auto& page : pages) text += (text.empty() ? "" : "\n\n") + page_text(page);
  return text;
}

int show_pages(std::span<const NodePage> pages, const ServiceOptions& options, Output& output) {
  if (!output.write(text_of(pages, options.format))) return kPartly;
  const bool whole = std::ranges::all_of(
      pages, [](const NodePage& page) { return page.facts.node->unknown.empty(); });
  return whole ? kShown : kPartly;
}

// The Services whose pages are requested.
Result<std::set<api::NamespacedName>> meant_services(ControlClient& daemon,
                                                     const ServiceOptions& options) {
  if (options.name) {
    const auto service = asked(daemon, *options.name);
    if (!service) return service.error();
    if (*service) return std::set{*options.name};
  }
  const auto names = names_of_daemon(daemon);
  if (!names) return names.error();
  if (options.name) return names->services_of_pod(*options.name);
  return names->services_at(options.address->address, options.address->port);
}

}  // namespace

int run_service(const ServiceOptions& options, Output& output) {
  ControlClient daemon(options.socket);
  const auto services = meant_services(daemon, options);
  if (!services && options.name)
    return refuse("which addresses " + api::to_string(*options.name) +
                  " has only the daemon knows: " + to_string(services.error()));
  const auto show_kernel = [&](const std::string& unknown) {
    const auto page = kernel_page(*options.address, unknown);
    return show_pages({&page, 1}, options, output);
  };
  if (!services)
    return show_kernel("whose address this is, and which endpoints are used and why; " +
                       to_string(services.error()));
  if (services->empty() && options.name)
    return refuse("there is no Service " + api::to_string(*options.name) +
                  ", and no Service has a pod of that name");
  if (services->empty()) return show_kernel("to which Service it belongs: none has this address");
  std::vector<NodePage> pages;
  for (const auto& service : *services) {
    auto page = whole_page(daemon, service);
    if (!page) return refuse(to_string(page.error()));
    if (*page) pages.push_back(**std::move(page));
  }
  return show_pages(pages, options, output);
}

}  // namespace ipvsproxier::ctl
