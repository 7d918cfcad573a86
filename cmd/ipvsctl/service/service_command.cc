#include "cmd/ipvsctl/service/service_command.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cmd/ipvsctl/listing/listing.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/service/service_page.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/sets/set_libipset.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "proxier/access/query.h"
#include "proxier/api/json_text.h"
#include "proxier/api/yaml_writer.h"

namespace ipvsproxier::ctl {

namespace {

using netlink::Error;
using netlink::Result;
using ServiceJson = nlohmann::json;

constexpr int kShown = 0;
constexpr int kPartly = 1;
constexpr int kNothing = 2;

int refuse(const std::string& why) {
  complain(why);
  return kNothing;
}

void note_unknown(ServiceJson& document, const std::string& what, const Error& error) {
  document["unknown"].push_back(what + ": " + to_string(error));
}

// --- from the kernel

Result<ServiceJson> listed(const ListFilter& filter, const ClusterNames* names) {
  const auto reader = netlink::KernelIpvsReader::open();
  if (!reader) return reader.error();
  std::string text;
  const auto status =
      list_table(**reader, filter, true, *json_form(names), [&](std::string_view part) {
        text += part;
        return netlink::Status{};
      });
  if (!status) return status.error();
  return ServiceJson::parse(text).at("virtualServices");
}

// Adds the Service's virtual services; marks those that the kernel lacks.
void add_virtuals(const ClusterNames& names, ServiceJson& document) {
  auto virtuals = listed({.named = &names}, &names);
  if (!virtuals) return note_unknown(document, "virtual services", virtuals.error());
  for (const auto& [key, one] : names.virtuals()) {
    const auto is_it = [&key = key](const ServiceJson& entry) {
      return entry.value("address", "") == key.address.to_string() &&
             entry.value("port", 0) == key.port &&
             entry.value("protocol", "") == to_string(key.protocol);
    };
    if (std::ranges::any_of(*virtuals, is_it)) continue;
    virtuals->push_back({{"address", key.address.to_string()},
                         {"port", key.port},
                         {"protocol", to_string(key.protocol)},
                         {"service", {{"facet", plan::to_string(names.of(key)->facet)}}},
                         {"inKernel", false}});
  }
  document["virtualServices"] = *std::move(virtuals);
}

// Marks whether the desired elements are in the kernel.
void check_elements(ServiceJson& document) {
  const auto table = ipset::LibipsetTable::open();
  if (!table) return note_unknown(document, "sets", table.error());
  std::map<std::string, std::set<std::string>> sets;
  for (auto& element : document["elements"]) {
    const auto name = element.value("set", "");
    if (!sets.contains(name)) {
      auto set = (*table)->list(name);
      if (!set) return note_unknown(document, "sets", set.error());
      auto& texts = sets[name];
      if (*set)
        for (const auto& one : (*set)->elements) texts.insert(to_string(one));
    }
    element["inKernel"] = sets[name].contains(element.value("element", ""));
  }
}

bool mentions(const std::string& element, const std::string& address) {
  return ("," + element + ",").find("," + address + ",") != std::string::npos;
}

void find_elements(const std::string& address, ServiceJson& document) {
  const auto table = ipset::LibipsetTable::open();
  if (!table) return note_unknown(document, "sets", table.error());
  const auto sets = list_sets(**table);
  if (!sets) return note_unknown(document, "sets", sets.error());
  for (const auto& set : *sets)
    for (const auto& element : set.elements)
      if (mentions(to_string(element), address))
        document["elements"].push_back({{"set", set.spec.name}, {"element", to_string(element)}});
}

void add_rules_of(const ipset::WholeTable& table, netlink::Family family, ipset::Table name,
                  const std::set<std::string>& sets, ServiceJson& rules) {
  for (const auto& [chain, list] : table.chains)
    for (const auto& rule : list)
      for (const auto& match : rule.matches)
        if (const auto* set = std::get_if<ipset::SetMatch>(&match); set && sets.contains(set->set))
          rules.push_back({{"set", set->set},
                           {"family", to_string(family)},
                           {"table", to_string(name)},
                           {"chain", chain},
                           {"rule", to_string(rule, family)}});
}

// Adds the rules that use the sets of the document's elements.
void add_rules(ServiceJson& document) {
  std::set<std::string> sets;
  for (const auto& element : document["elements"]) sets.insert(element.value("set", ""));
  document["rules"] = ServiceJson::array();
  if (sets.empty()) return;
  ipset::IptcRuleTable tables;
  for (const auto family : netlink::kFamilies)
    for (const auto name : {ipset::Table::mangle, ipset::Table::nat, ipset::Table::filter}) {
      const auto table = tables.read(family, name);
      if (!table) return note_unknown(document, "rules", table.error());
      if (*table) add_rules_of(**table, family, name, sets, document["rules"]);
    }
}

// --- from the daemon

Result<ServiceJson> asked(ControlClient& daemon, const api::NamespacedName& service) {
  const auto text =
      daemon.get("/v1/service?service=" + access::encode_query(api::to_string(service)));
  if (!text) return text.error();
  auto document = ServiceJson::parse(*text, nullptr, false);
  if (document.is_object() || document.is_null()) return document;
  return daemon.stranger();
}

ServiceJson whereabouts(const ServerName& name) {
  auto json = ServiceJson::object();
  for (const auto& [key, text] :
       {std::pair("pod", name.pod), std::pair("node", name.node), std::pair("zone", name.zone)})
    if (!text.empty()) json[key] = text;
  return json;
}

void name_endpoints(const ServiceJson& port, const ClusterNames& names, ServiceJson& traffic) {
  const auto protocol = netlink::parse_protocol(port.value("protocol", ""));
  for (const auto& facet : port.at("virtual")) {
    const auto address = netlink::IpAddress::parse(facet.value("address", ""));
    if (!facet.value("held", false) || !address || !protocol) continue;
    const netlink::VirtualServiceKey key{*address, *protocol,
                                         facet.value("port", std::uint16_t{0})};
    for (auto& endpoint : traffic["endpoints"]) {
      const auto ip = netlink::IpAddress::parse(endpoint.value("address", ""));
      const auto name =
          ip ? names.of(key, {*ip, endpoint.value("port", std::uint16_t{0})}) : std::nullopt;
      if (name) endpoint["endpoint"] = whereabouts(*name);
    }
    return;
  }
}

// nullptr (JSON's null): the Service does not exist.
Result<ServiceJson> whole_document(ControlClient& daemon, const api::NamespacedName& service) {
  auto document = asked(daemon, service);
  if (!document || document->is_null()) return document;
  const auto names = names_of_daemon(daemon, {.service = service});
  if (!names) return names.error();
  for (auto& port : (*document)["ports"])
    for (const char* traffic : {"internal", "external"})
      if (port.contains(traffic)) name_endpoints(port, *names, port[traffic]);
  (*document)["unknown"] = ServiceJson::array();
  add_virtuals(*names, *document);
  check_elements(*document);
  add_rules(*document);
  return document;
}

// For an address that the daemon does not know, or if it is not asked.
ServiceJson kernel_document(const Backend& address, const std::string& unknown) {
  const auto text = address.address.to_string();
  ServiceJson document{{"address", text},
                       {"virtualServices", ServiceJson::array()},
                       {"elements", ServiceJson::array()},
                       {"unknown", ServiceJson::array({unknown})}};
  const auto bits = netlink::address_bits(address.address.family());
  for (const auto& filter :
       {ListFilter{.vip = netlink::IpPrefix::of(address.address, bits), .port = address.port},
        ListFilter{.backend = address}}) {
    auto virtuals = listed(filter, nullptr);
    if (!virtuals) {
      note_unknown(document, "virtual services", virtuals.error());
      break;
    }
    for (auto& one : *virtuals) document["virtualServices"].push_back(std::move(one));
  }
  find_elements(text, document);
  add_rules(document);
  return document;
}

std::string text_of(const std::vector<ServiceJson>& documents, SetFormat format) {
  if (format == SetFormat::json)
    return api::to_json_text(ServiceJson{{"services", documents}}, 2) + "\n";
  if (format == SetFormat::yaml) return api::write_yaml({{"services", documents}});
  std::string text;
  for (const auto& document : documents)
    text += (text.empty() ? "" : "\n\n") + service_page(document);
  return text;
}

int show_documents(const std::vector<ServiceJson>& documents, const ServiceOptions& options,
                   Output& output) {
  if (!output.write(text_of(documents, options.format))) return kPartly;
  const bool whole = std::ranges::all_of(
      documents, [](const ServiceJson& document) { return document.at("unknown").empty(); });
  return whole ? kShown : kPartly;
}

// The Services whose pages are requested.
Result<std::set<api::NamespacedName>> meant_services(ControlClient& daemon,
                                                     const ServiceOptions& options) {
  if (options.name) {
    const auto service = asked(daemon, *options.name);
    if (!service) return service.error();
    if (!service->is_null()) return std::set{*options.name};
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
  if (!services)
    return show_documents(
        {kernel_document(*options.address,
                         "whose address this is, and which endpoints are used and why; " +
                             to_string(services.error()))},
        options, output);
  if (services->empty() && options.name)
    return refuse("there is no Service " + api::to_string(*options.name) +
                  ", and no Service has a pod of that name");
  if (services->empty())
    return show_documents(
        {kernel_document(*options.address, "to which Service it belongs: none has this address")},
        options, output);
  std::vector<ServiceJson> documents;
  for (const auto& service : *services) {
    auto document = whole_document(daemon, service);
    if (!document) return refuse(to_string(document.error()));
    if (document->is_object()) documents.push_back(*std::move(document));
  }
  return show_documents(documents, options, output);
}

}  // namespace ipvsproxier::ctl
