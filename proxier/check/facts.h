#pragma once

// NodeFacts: what is known of a node before the daemon starts on it, and Wanted: what that daemon
// shall do there. Plain values that are read elsewhere (host_facts.h, cmd/check_node.h) and judged
// by judge(); tests write them down. Names in them come from other programs and are not visible()
// yet.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipset/rules/packet_filter_choice.h"
#include "netlink/ip_address.h"
#include "proxier/plan/host_settings.h"
#include "proxier/plan/other_programs.h"
#include "proxier/plan/pitfalls.h"

namespace ipvsproxier::check {

// What the checked daemon is asked to do.
struct Wanted {
  std::string scheduler = "rr";
  bool bind_by_routes = false;         // addresses of Services are not on links
  bool as_kube_proxy = true;           // --kube-proxy-compat
  bool localhost = false;              // node ports are on localhost, too
  bool keeps_foreign_services = true;  // plan/differences.h
  bool leaves_untracked = true;        // the same
  bool takes_over_kube_router = true;
  // The families of the cluster as far as the configuration names them; empty: it does not.
  std::set<netlink::Family> families;
  bool ports_are_vital = false;  // bindAddressHardFail
  bool bounds_drain = true;      // --drain-timeout
  // nullopt: what is there decides (ipset/rules/packet_filter_choice.h).
  std::optional<ipset::PacketFilter> packet_filter;
};

// Whether a kernel module can be used.
enum class ModuleState : std::uint8_t {
  loaded,
  built_in,
  loadable,  // its file and those of what it depends on are there, and may be loaded
  refused,   // the files are there, but something forbids to load them
  missing,
  unknown,  // the folder of the kernel's modules cannot be seen from here
};

struct ModuleFact {
  ModuleState state = ModuleState::unknown;
  std::string why;  // of refused, missing and unknown: a clause, "its file ... is not there"

  friend auto operator<=>(const ModuleFact&, const ModuleFact&) = default;
};

// The configuration that the kernel was built with.
struct KernelConfig {
  std::string origin;                          // the file; "": none could be read
  std::map<std::string, std::string> options;  // "CONFIG_IP_VS" -> "m"; only those that are set

  bool known() const { return !origin.empty(); }
  // "y", "m", a number, or "" for an option that is not set.
  std::string value(const std::string& option) const;
};

struct Capabilities {
  bool net_admin = false;
  bool net_raw = false;
  bool sys_module = false;
};

struct SysctlFact {
  plan::Sysctl wanted;
  std::optional<std::string> value;  // nullopt: this kernel has no such key now
  bool writable = false;             // for a key that is absent: whether its neighbours are
  bool is_fixed = false;             // it belongs to the first network namespace of the host

  friend auto operator<=>(const SysctlFact&, const SysctlFact&) = default;
};

struct PortFact {
  std::string purpose;  // "health server"
  std::string address;  // "0.0.0.0:10256"
  std::string user;     // the socket that is in the way: "127.0.0.1:10256"

  friend auto operator<=>(const PortFact&, const PortFact&) = default;
};

// A process that may write IPVS or our sets and rules as well.
struct WriterFact {
  std::string name;  // as the kernel shows it: its owner may have chosen it
  std::int64_t pid = 0;

  friend auto operator<=>(const WriterFact&, const WriterFact&) = default;
};

// Something in the packet filter that drops what Services need.
struct DropFact {
  std::string place;  // "legacy IPv4 table mangle, chain INPUT"
  std::string what;   // "the policy is DROP"
  bool certain = true;

  friend auto operator<=>(const DropFact&, const DropFact&) = default;
};

// An address that a Service asks for and another Node has.
struct NodeAddressFact {
  std::string service;  // "shop/web"
  std::string address;
  std::string node;

  friend auto operator<=>(const NodeAddressFact&, const NodeAddressFact&) = default;
};

// What the API server answered to one question.
struct ApiFact {
  std::string question;   // "list services"
  std::string error;      // "": it was answered
  bool has_none = false;  // there is no such object; asked of Nodes alone

  friend auto operator<=>(const ApiFact&, const ApiFact&) = default;
};

struct NodeFacts {
  std::string release;  // of the kernel: "6.1.0-18-amd64"
  KernelConfig config;
  std::map<std::string, ModuleFact> modules;  // by name with '_': those that needs() names
  // Whether the loaded IPVS handles SCTP; nullopt: not loaded, or its symbols cannot be read.
  std::optional<bool> sctp_symbol;
  Capabilities capabilities;
  bool has_ipv6 = false;       // the kernel's IPv6 is loaded
  bool ipv6_disabled = false;  // on all links
  std::vector<SysctlFact> sysctls;
  std::vector<std::string> strict_links;  // links on which rp_filter is strict
  std::vector<PortFact> ports;            // in use by others
  std::vector<plan::Pitfall> pitfalls;    // under which connections fail
  std::optional<plan::Pitfall> idle;      // long silences
  // Ports of addresses on links of others that rules keep from connection tracking.
  std::vector<plan::LeftPorts> left;
  std::vector<WriterFact> writers;
  bool daemon_runs = false;     // an ipvs-proxier of this node answers
  bool dummy_is_other = false;  // a link kube-ipvs0 exists and is no dummy
  std::string loop_is_other;    // why the links of node ports on localhost cannot be ours; "": no
  // Virtual services in the kernel that are neither excluded nor a running daemon's.
  std::size_t virtual_services = 0;
  bool has_kube_router = false;     // kube-router's link of addresses is there
  bool has_kube_proxy_nft = false;  // a table of kube-proxy's nftables mode
  std::vector<DropFact> drops;
  std::vector<DropFact> flow_rules;   // of others, which add connections to a flowtable
  std::vector<std::string> unjudged;  // tables that may drop as well, with the reason
  // What is there; what works is known by the modules.
  ipset::PacketFilterFacts packet_filters;
  std::string xtables_lock_fault;   // why its tables cannot be written; "": the lock can be opened
  bool has_nf_tables = false;       // now: another packet filter may be in force
  std::vector<std::string> unread;  // what could not be read, with the reason, one clause each
  std::vector<ApiFact> api;         // empty: no API server was to be asked
  std::string no_node;  // what it means that the cluster has no Node of this name; "": it has one
  bool has_no_nodes = false;  // nor any other: manifests may leave Nodes out
  std::vector<NodeAddressFact> node_addresses;
};

}  // namespace ipvsproxier::check
