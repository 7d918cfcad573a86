#include "cmd/ipvsctl/rules/nft_save.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "cmd/ipvsctl/rules/nft_review.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/rules/nft_catalog.h"
#include "ipset/rules/nft_text.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using ipset::SetKind;
using netlink::Family;

namespace {

std::string hook_text(netlink::NftHook hook) {
  switch (hook) {
    case netlink::NftHook::prerouting:
      return "prerouting";
    case netlink::NftHook::input:
      return "input";
    case netlink::NftHook::forward:
      return "forward";
    case netlink::NftHook::output:
      return "output";
    case netlink::NftHook::postrouting:
      return "postrouting";
  }
  return std::to_string(static_cast<std::uint32_t>(hook));
}

// What of a table is written, and may be named in rules.
struct Written {
  std::set<std::string> chains;
  std::set<std::string> sets;  // "ip kube-ipvs vips"
};

Written written_of(const RuleReading& reading, const ipset::FilterContents& contents,
                   Family family) {
  Written written;
  for (const auto& chain : review_nft(reading, family, {}))
    if (!chain.foreign && !chain.missing) written.chains.insert(chain.name);
  for (const auto& [name, set] : contents.sets)
    if (is_our_set(set.spec, family))
      written.sets.insert(netlink::to_string(ipset::nft_table_of(family)) + " " + name);
  return written;
}

// Whether a rule is of our vocabulary, names what is written alone, and has no name that nft(8)
// would read as something else.
bool is_writable(const ipset::Rule& rule, Family family, const Written& written) {
  if (std::holds_alternative<ipset::ForeignTarget>(rule.target)) return false;
  // nft(8) refuses to make its object. The daemon adds both where they are needed.
  if (std::holds_alternative<ipset::UnacceleratedTarget>(rule.target)) return false;
  if (const auto* jump = std::get_if<ipset::JumpTarget>(&rule.target))
    if (!written.chains.contains(jump->chain)) return false;
  for (const auto& set : ipset::looked_up_by(rule))
    if (!written.sets.contains(set)) return false;
  const auto text = ipset::to_nft_string(rule, family);
  return text == api::visible(text) &&
         (!rule.in_interface || ipset::has_nft_words(*rule.in_interface));
}

// --- sets

// Of ours, with its elements as nft writes them.
struct SavedSet {
  std::string type;
  bool is_interval = false;
  std::vector<std::string> elements;
  std::size_t left_out = 0;  // elements of others
};

std::string_view address_type_of(Family family) {
  return family == Family::ipv4 ? "ipv4_addr" : "ipv6_addr";
}

std::string service_text(const netlink::IpAddress& address, netlink::Protocol protocol,
                         std::uint16_t port) {
  return fmt::format("{} . {} . {}", address.to_string(), to_lower_string(protocol), port);
}

// nullopt: the key or the verdict is none of ours.
std::optional<std::string> element_text(const ipset::SetSpec& spec,
                                        const netlink::NftElement& element) {
  if (spec.kind == SetKind::nft_source_ranges) {
    const auto* verdict = element.data ? std::get_if<netlink::NftVerdict>(&*element.data) : nullptr;
    const auto service = verdict ? ipset::restricted_of(verdict->chain) : std::nullopt;
    if (!service || ipset::restricted_element_of(*service) != element) return std::nullopt;
    return service_text(service->address, service->protocol, service->port) + " : goto " +
           verdict->chain;
  }
  const auto ours = ipset::element_of(spec, element);
  if (!ours) return std::nullopt;
  if (const auto* service = std::get_if<ipset::ServiceElement>(&*ours)) {
    if (service->verdict == ipset::ServiceVerdict::foreign) return std::nullopt;
    return fmt::format("{} : goto {}", service_text(service->ip, service->protocol, service->port),
                       ipset::chain_of(*service));
  }
  if (const auto* destination = std::get_if<ipset::DestinationElement>(&*ours))
    return fmt::format("{} : {} . {}",
                       service_text(destination->ip, destination->protocol, destination->port),
                       destination->to.to_string(), destination->to_port);
  if (const auto* port = std::get_if<ipset::PortElement>(&*ours)) return std::to_string(port->port);
  const auto& address = std::get<ipset::IpElement>(*ours).ip;
  if (spec.kind == SetKind::nft_hairpins) return address.to_string() + " . " + address.to_string();
  return address.to_string();
}

std::string type_of(const ipset::SetSpec& spec) {
  const auto address = address_type_of(spec.family);
  switch (spec.kind) {
    case SetKind::nft_hairpins:
      return fmt::format("{0} . {0}", address);
    case SetKind::nft_ports:
      return "inet_service";
    case SetKind::nft_services:
    case SetKind::nft_source_ranges:
      return fmt::format("{} . inet_proto . inet_service : verdict", address);
    case SetKind::nft_destinations:
      return fmt::format("{0} . inet_proto . inet_service : {0} . inet_service", address);
    default:
      return std::string(address);
  }
}

// "10.0.0.0/8", or "10.0.0.0-10.0.0.4" if it is no prefix.
std::string interval_text(const netlink::Bytes& first, const netlink::NftElement* end,
                          Family family) {
  std::vector<netlink::NftElement> bounds{{.key = first, .key_end = {}, .data = {}}};
  netlink::Bytes last(first.size(), 0xff);
  if (end != nullptr) {
    bounds.push_back(*end);
    bounds.back().interval_end = true;
    last = end->key;
    // The one before it: it is above `first`, so not 0.
    auto bytes = last.size();
    while (bytes > 0 && last[bytes - 1]-- == 0) --bytes;
  }
  if (const auto prefixes = ipset::prefixes_of(bounds, family))
    return prefixes->front().to_string();
  return netlink::IpAddress::from_bytes(family, first)->to_string() + "-" +
         netlink::IpAddress::from_bytes(family, last)->to_string();
}

// In the order of the kernel: at one key the end of an interval before the beginning of the next.
std::vector<const netlink::NftElement*> sorted_bounds(const ipset::FilterSet& set) {
  std::vector<const netlink::NftElement*> sorted;
  for (const auto& element : set.elements) sorted.push_back(&element);
  std::ranges::sort(sorted, [](const auto* one, const auto* other) {
    return std::pair(one->key, !one->interval_end) < std::pair(other->key, !other->interval_end);
  });
  return sorted;
}

SavedSet saved_ranges(const ipset::FilterSet& set, Family family) {
  SavedSet saved{.type = std::string(address_type_of(family)), .is_interval = true, .elements = {}};
  const netlink::NftElement* first = nullptr;
  const auto close = [&](const netlink::NftElement* end) {
    if (first != nullptr) saved.elements.push_back(interval_text(first->key, end, family));
    first = nullptr;
  };
  for (const auto* element : sorted_bounds(set)) {
    if (element->key.size() != netlink::address_bits(family) / 8) {
      ++saved.left_out;
      continue;
    }
    close(element);
    if (!element->interval_end) first = element;
  }
  close(nullptr);
  return saved;
}

SavedSet saved_set(const std::string& name, const ipset::FilterSet& set, Family family) {
  for (const auto id : ipset::kNftSetIds) {
    const auto spec = ipset::set_spec(id, family);
    if (ipset::name_in_table(spec.name) != name) continue;
    SavedSet saved{.type = type_of(spec), .elements = {}};
    for (const auto& element : set.elements) {
      if (auto text = element_text(spec, element))
        saved.elements.push_back(*std::move(text));
      else
        ++saved.left_out;
    }
    return saved;
  }
  return saved_ranges(set, family);
}

std::string set_text(const std::string& name, const ipset::FilterSet& set, Family family) {
  const bool is_map = (set.spec.flags & netlink::NftSetSpec::kMap) != 0;
  const auto saved = saved_set(name, set, family);
  auto text =
      fmt::format("    {} {} {{\n        type {}\n", is_map ? "map" : "set", name, saved.type);
  if (saved.is_interval) text += "        flags interval\n";
  std::string_view before = "        elements = { ";
  for (const auto& element : saved.elements) {
    text.append(before).append(element);
    before = ",\n                     ";
  }
  if (!saved.elements.empty()) text += " }\n";
  if (saved.left_out != 0)
    text += fmt::format("        # left out: {} elements that are not ours\n", saved.left_out);
  return text + "    }\n";
}

// --- chains

std::string chain_text(const ReviewedChain& chain, const Written& written) {
  const auto family = chain.table.family;
  if (chain.foreign)
    return fmt::format("    # chain {} is not ours: left out\n", api::visible(chain.name));
  auto text = fmt::format("    chain {} {{\n", chain.name);
  if (chain.base)
    text += fmt::format("        {}; policy {};\n", base_text(*chain.base),
                        chain.base->accepts ? "accept" : "drop");
  for (const auto& rule : chain.rules) {
    if (!is_there(rule.state)) continue;
    text += fmt::format("        {}{}\n", is_writable(rule.rule, family, written) ? "" : "# ",
                        api::visible(ipset::to_nft_string(rule.rule, family)));
  }
  return text + "    }\n";
}

std::string sets_of_table(const ipset::FilterContents& contents, Family family) {
  std::string text;
  for (const auto& [name, set] : contents.sets)
    if (is_our_set(set.spec, family)) text += set_text(name, set, family);
  for (const auto& set : foreign_sets_of(contents, family))
    text += fmt::format("    # set {} is not ours: left out\n", api::visible(set.name));
  return text;
}

}  // namespace

std::string base_text(const netlink::NftBase& base) {
  return fmt::format("type {} hook {} priority {}", api::visible(base.type), hook_text(base.hook),
                     base.priority);
}

std::string nft_save_text(const RuleReading& reading, const std::vector<ReviewedChain>& chains,
                          const RuleChoice& choice) {
  std::string text;
  for (const auto& [family, contents] : reading.nft) {
    if (choice.family.value_or(family) != family) continue;
    const auto written = written_of(reading, contents, family);
    const auto table = netlink::to_string(ipset::nft_table_of(family));
    std::string content = choice.chain.empty() ? sets_of_table(contents, family) : "";
    for (const auto& chain : chains)
      if (chain.table == plan::TableKey{family, ipset::Table::kube_ipvs} && !chain.missing)
        content += chain_text(chain, written);
    if (choice.chain.empty()) text += fmt::format("add table {0}\ndelete table {0}\n", table);
    if (choice.chain.empty() || !content.empty())
      text += fmt::format("table {} {{\n{}}}\n", table, content);
  }
  return text;
}

}  // namespace ipvsproxier::ctl
