#pragma once

// Elements of our sets of nf_tables (sets/set_types.h, SetKind::nft_*) as keys and data. Pure; any
// thread. Used by nft_set_table.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipset/rules/rule_types.h"
#include "ipset/sets/set_types.h"
#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::ipset {

// The table of nf_tables in which our sets of a family are.
netlink::NftTableKey nft_table_of(Family family);

// How the set is made; `spec.kind` is one of nf_tables.
netlink::NftSetSpec nft_set_of(const SetSpec& spec);

// The chain to which the element leads. Not with a foreign verdict.
std::string chain_of(const ServiceElement& element);

// The element of the set: its key, and in the map of virtual services the chain of its verdict.
// nullopt for an element of another kind or family, and for one with a foreign verdict. Not for
// source ranges.
std::optional<netlink::NftElement> nft_element_of(const SetSpec& spec, const Element& element);

// The opposite; nullopt for a key that is none of ours.
std::optional<Element> element_of(const SetSpec& spec, const netlink::NftElement& element);

// A virtual service with source ranges. Its element in the map "restricted" sends packets to a
// chain of its own, for good: that drops packets of sources outside of its ranges, which are in a
// set of its own, or ends. Chain and set have the same name, "ranges_192.0.2.1_tcp_80".
struct RestrictedService {
  IpAddress address;
  Protocol protocol = Protocol::tcp;
  std::uint16_t port = 0;

  friend auto operator<=>(const RestrictedService&, const RestrictedService&) = default;
};

// Of an element of a map of virtual services, by its key alone; nullopt if that is none of ours.
std::optional<RestrictedService> service_of(netlink::ByteView key, Family family);

std::string ranges_name(const RestrictedService& service);
std::optional<RestrictedService> restricted_of(const std::string& ranges_name);
netlink::NftElement restricted_element_of(const RestrictedService& service);
netlink::NftSetSpec ranges_set_of(const RestrictedService& service);

// The rules of that chain. They do not look few ranges up in the set, but compare them: a packet of
// an established connection meets one lookup only, that of the map.
std::vector<Rule> rules_of_ranges(const RestrictedService& service, std::vector<IpPrefix> ranges);

// The chain to which the map of virtual services sends new packets to one with source ranges,
// "svc_mark_192.0.2.1_tcp_80": it asks the chain of the ranges first, and then that of the verdict.
// Not for `keep`, for which the map leads to the chain of the ranges itself.
struct RestrictedChain {
  RestrictedService service;
  ServiceVerdict verdict = ServiceVerdict::mark;

  friend auto operator<=>(const RestrictedChain&, const RestrictedChain&) = default;
};

std::string to_string(const RestrictedChain& chain);
std::optional<RestrictedChain> restricted_chain_of(const std::string& name);
std::vector<Rule> rules_of(const RestrictedChain& chain);
// The one to which the element leads; nullopt: to none.
std::optional<RestrictedChain> own_chain_of(const Element& element);
// All that a virtual service may have.
std::vector<RestrictedChain> chains_of(const RestrictedService& service);

// Those that are not within another one, in the order of their addresses.
std::vector<IpPrefix> outermost_of(std::vector<IpPrefix> prefixes);

// Prefixes as intervals, and back. Intervals must not overlap, so a prefix within another one is
// left out. nullopt if the intervals are no prefixes.
std::vector<netlink::NftElement> intervals_of(std::vector<IpPrefix> prefixes);
std::optional<std::vector<IpPrefix>> prefixes_of(std::span<const netlink::NftElement> intervals,
                                                 Family family);

}  // namespace ipvsproxier::ipset
