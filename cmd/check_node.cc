#include "cmd/check_node.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "cmd/check_cluster.h"
#include "cmd/firewall_warnings.h"
#include "cmd/kernel_tables.h"
#include "cmd/packet_filter_facts.h"
#include "cmd/settings.h"
#include "ipset/nft/nft_leftovers.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/rules/xtables_lock.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/links/host_reader_kernel.h"
#include "netlink/links/link_kernel.h"
#include "netlink/unique_fd.h"
#include "proxier/check/filter_drops.h"
#include "proxier/check/host_facts.h"
#include "proxier/check/judgement.h"
#include "proxier/check/report.h"
#include "proxier/config/listen_address.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/localhost.h"
#include "proxier/plan/node_ports.h"
#include "proxier/plan/other_programs.h"
#include "proxier/plan/pitfalls.h"
#include "proxier/sync/host_setup.h"

namespace ipvsproxier::cmd {

namespace {

using check::NodeFacts;
using netlink::Family;

check::Wanted wanted_of(const Options& options) {
  const auto plan = planner_options(options, {Family::ipv4, Family::ipv6});
  check::Wanted wanted{.scheduler = plan.scheduler,
                       .bind_by_routes = plan.bind_by_routes,
                       .as_kube_proxy = options.compat,
                       .localhost = plan.node_port_localhost,
                       .keeps_foreign_services = plan.differences.keep_foreign_services,
                       .leaves_untracked = plan.differences.leave_untracked,
                       .takes_over_kube_router = plan.differences.take_over_kube_router,
                       .families = {},
                       .ports_are_vital = options.config.bind_address_hard_fail,
                       .bounds_drain = options.drain_timeout.has_value()};
  if (options.compat || options.packet_filter == ipset::PacketFilterWish::iptables)
    wanted.packet_filter = ipset::PacketFilter::iptables;
  else if (options.packet_filter == ipset::PacketFilterWish::nftables)
    wanted.packet_filter = ipset::PacketFilter::nftables;
  for (const auto& cidr : plan.cluster_cidrs) wanted.families.insert(cidr.family());
  return wanted;
}

check::Questions questions_of(const Options& options) {
  check::Questions questions{.wanted = wanted_of(options), .sysctls = {}, .ports = {}};
  const auto cpus = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const auto settings = reconciler_settings(options, {Family::ipv4, Family::ipv6}, cpus);
  questions.sysctls = plan::ipvs_sysctls(settings.host->settings.ipvs, check::kernel_release());
  std::ranges::move(plan::conntrack_sysctls(settings.host->settings.conntrack, cpus),
                    std::back_inserter(questions.sysctls));
  const auto& config = options.config;
  for (const auto& [purpose, text] : {std::pair("health server", &config.healthz_bind_address),
                                      std::pair("metrics server", &config.metrics_bind_address)})
    if (const auto where = config::parse_listen_address(*text))
      questions.ports.push_back({purpose, where->address, where->port});
  return questions;
}

// Whether a process listens there.
bool answers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const netlink::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd &&
         ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Only if IPVS is there, because asking would load it.
void read_virtual_services(const Options& options, NodeFacts& facts) {
  const auto has_ipvs = netlink::kernel_has_module("ip_vs");
  if (!has_ipvs) facts.unread.push_back("virtual services: " + to_string(has_ipvs.error()));
  if (!has_ipvs.value_or(false)) return;
  const auto excluded = config::exclude_prefixes(options.config);
  const auto reader = netlink::KernelIpvsReader::open();
  const auto read =
      !reader ? netlink::Status(reader.error())
              : (*reader)->services([&](const netlink::ServiceReading& reading) -> netlink::Status {
                  const auto& key = reading.service.key;
                  const bool kept =
                      key.fwmark != 0 || std::ranges::any_of(excluded, [&](const auto& prefix) {
                        return prefix.contains(key.address);
                      });
                  if (!kept) ++facts.virtual_services;
                  return {};
                });
  if (!read) facts.unread.push_back("virtual services: " + netlink::to_string(read.error()));
}

// Existing tables alone: reading an absent one would make it.
void read_legacy_tables(NodeFacts& facts) {
  using enum ipset::Table;
  ipset::IptcRuleTable rules({.dry_run = true});
  for (const auto family : netlink::kFamilies)
    for (const auto table : {raw, mangle}) {
      const auto whole = rules.read(family, table);
      if (!whole)
        facts.unread.push_back(netlink::to_string(whole.error()));
      else if (*whole)
        std::ranges::move(check::legacy_drops(family, table, **whole),
                          std::back_inserter(facts.drops));
    }
}

void read_firewalls(const ProgrammedFilter& programmed, NodeFacts& facts) {
  auto look = loaded_firewall_warnings(programmed);
  if (!look) {
    facts.unjudged.push_back(netlink::to_string(look.error()));
    return;
  }
  for (auto& warning : look->warnings) {
    const bool is_legacy = warning.of == ipset::PacketFilter::iptables;
    facts.drops.push_back({.place = is_legacy ? "iptables" : "nf_tables",
                           .what = std::move(warning.text),
                           .certain = warning.drops});
  }
  for (const auto& [table, why] : look->unjudged)
    facts.unjudged.push_back(ipset::text_of_unjudged(table, why));
}

void read_flow_rules(const ProgrammedFilter& programmed, NodeFacts& facts) {
  const auto rules = loaded_flow_rules(programmed);
  if (!rules) {
    facts.unread.push_back("rules that add connections to flowtables: " + to_string(rules.error()));
    return;
  }
  for (const auto& [text, guarded] : *rules)
    facts.flow_rules.push_back({.place = "flowtable", .what = text, .certain = !guarded});
}

void read_nft_tables(const ProgrammedFilter& programmed, NodeFacts& facts) {
  facts.packet_filters = seen_packet_filters(loaded_packet_filters(programmed.nftables.get()));
  if (!programmed.nftables) return;
  const auto tables = programmed.nftables->list_tables();
  if (!tables) facts.unread.push_back("tables of nf_tables: " + to_string(tables.error()));
  facts.has_kube_proxy_nft =
      tables && std::ranges::any_of(*tables, [](const netlink::NftTableKey& key) {
        return key.name == ipset::kNftTable && key.family != netlink::NftFamily::inet;
      });
}

void read_packet_filters(NodeFacts& facts) {
  const auto programmed = open_programmed_filter();
  if (!programmed) {
    facts.unjudged.push_back(to_string(programmed.error()));
    return;
  }
  read_firewalls(*programmed, facts);
  read_flow_rules(*programmed, facts);
  read_nft_tables(*programmed, facts);
}

// The API server's default range of node ports.
std::set<std::uint16_t> usual_node_ports() {
  std::set<std::uint16_t> ports;
  for (auto port = ipset::kFirstNodePort; port <= ipset::kLastNodePort; ++port) ports.insert(port);
  return ports;
}

// What is configured, else what the loaded IPVS has, else what the kernel begins with
// (net/netfilter/ipvs/ip_vs_proto_tcp.c).
std::uint32_t tcp_timeout(const Options& options) {
  constexpr std::uint32_t kKernels = 900;
  const auto configured = std::chrono::ceil<std::chrono::seconds>(options.config.ipvs.tcp_timeout);
  if (configured.count() > 0) return static_cast<std::uint32_t>(configured.count());
  const auto timeouts = loaded_ipvs_timeouts();
  return timeouts ? timeouts->tcp : kKernels;
}

// Which pods are this node's is known to a daemon alone: all ranges of the configuration count, and
// the local detector.
bool may_have_pods(const netlink::InterfaceAddress& address, const plan::PlannerOptions& options) {
  return plan::detects_link(options, address.link) ||
         std::ranges::any_of(options.cluster_cidrs,
                             [&](const auto& cidr) { return cidr.contains(address.address); });
}

void read_pitfalls(const Options& options, NodeFacts& facts) {
  const auto links = netlink::KernelLinkTable::open();
  const auto listed = links ? (*links)->list_addresses() : links.error();
  const auto addresses = listed.value_or(std::vector<netlink::InterfaceAddress>());
  const auto settings = sync::read_node_settings({}, addresses);
  if (auto found = plan::local_port_pitfall(settings, usual_node_ports()))
    facts.pitfalls.push_back(*std::move(found));
  const auto plan = planner_options(options, {});
  if (auto found = plan::bridge_pitfall(settings, addresses,
                                        [&](const auto& one) { return may_have_pods(one, plan); }))
    facts.pitfalls.push_back(*std::move(found));
  facts.idle = plan::idle_pitfall(settings, tcp_timeout(options));
}

// Which addresses are the Node's own is known to a daemon alone: rules seldom name one of these.
void read_left_ports(NodeFacts& facts) {
  constexpr std::chrono::seconds kLongest{1};
  const auto links = netlink::KernelLinkTable::open();
  const auto listed = links ? (*links)->list_addresses() : links.error();
  if (!listed) return;
  plan::NodeInfo node;
  node.addresses = *listed;
  facts.has_kube_router = std::ranges::any_of(
      node.addresses, [](const auto& one) { return one.link == plan::kKubeRouterLink; });
  std::set<netlink::IpAddress> addresses;
  for (const auto family : netlink::kFamilies)
    addresses.merge(plan::other_link_addresses(node, family));
  auto look = untracked_ports(MayLoad::no, addresses, kLongest);
  if (!look) {
    facts.unread.push_back("rules before connection tracking: " + to_string(look.error()));
    return;
  }
  for (const auto& [table, why] : look->unjudged)
    facts.unread.push_back(fmt::format("{}: {}", table, why));
  node.untracked = std::move(look->ports);
  for (const auto family : netlink::kFamilies)
    std::ranges::move(plan::left_ports(node, family), std::back_inserter(facts.left));
}

// Whether there is a link of our name that is no dummy. Listing links loads nothing.
bool dummy_is_other() {
  std::error_code ignored;
  const auto link = std::filesystem::path("/sys/class/net") / plan::kDummyLink;
  if (!std::filesystem::exists(link, ignored)) return false;
  const auto links = netlink::KernelHostReader::open();
  if (!links) return false;
  const auto listed = (*links)->links();
  return listed && std::ranges::any_of(*listed, [](const netlink::LinkRecord& one) {
           return one.name == plan::kDummyLink && one.kind != "dummy";
         });
}

std::string loop_is_other(const Options& options) {
  if (!planner_options(options, {}).node_port_localhost) return "";
  const auto links = netlink::KernelLinkTable::open();
  if (!links) return "";
  const auto report = (*links)->ensure_loop(plan::localhost_links({}), true);
  const bool in_the_way = !report && report.error().kind == netlink::ErrorKind::already;
  return in_the_way ? report.error().where : "";
}

}  // namespace

CheckReport check_node(const Options& options, bool json, spdlog::logger& logger) {
  const auto questions = questions_of(options);
  auto facts = check::read_host_facts(questions);
  facts.daemon_runs = answers(options.control_socket);
  if (facts.daemon_runs) facts.ports.clear();
  read_virtual_services(options, facts);
  read_legacy_tables(facts);
  read_packet_filters(facts);
  read_pitfalls(options, facts);
  read_left_ports(facts);
  // That this process lacks a privilege which the daemon has is no fault of the lock.
  if (const auto lock = ipset::XtablesLock::can_open(ipset::IptcSettings().lock_path);
      !lock && lock.error().kind != netlink::ErrorKind::denied)
    facts.xtables_lock_fault = netlink::to_string(lock.error());
  facts.dummy_is_other = dummy_is_other();
  facts.loop_is_other = loop_is_other(options);
  read_cluster(options, facts, logger);
  const auto findings = check::judge(facts, questions.wanted);
  return {.status = check::exit_status(check::worst(findings)),
          .text = json ? check::to_json(findings, facts) : check::to_text(findings)};
}

}  // namespace ipvsproxier::cmd
