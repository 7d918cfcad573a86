#include "proxier/check/judgement.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proxier/check/judge_kernel.h"

namespace ipvsproxier::check {

namespace {

constexpr std::size_t kMostNames = 8;

void fine(Findings& findings, std::string about, std::string message) {
  findings.push_back({.level = Level::fine,
                      .about = std::move(about),
                      .message = std::move(message),
                      .remedy = {}});
}

// "eth0, eth1 and 3 more"
std::string listed(const std::vector<std::string>& names) {
  const auto shown = std::min(names.size(), kMostNames);
  auto text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return names.size() == shown ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

void judge_capabilities(const NodeFacts& facts, Findings& findings) {
  std::vector<std::string> lacking;
  if (!facts.capabilities.net_admin) lacking.emplace_back("CAP_NET_ADMIN");
  if (!facts.capabilities.net_raw) lacking.emplace_back("CAP_NET_RAW");
  if (lacking.empty()) {
    fine(findings, "capabilities", "CAP_NET_ADMIN and CAP_NET_RAW are there");
    return;
  }
  findings.push_back({.level = Level::cannot,
                      .about = "capabilities",
                      .message = fmt::format("this process lacks {}: with no more than it has, the "
                                             "daemon can program nothing",
                                             fmt::join(lacking, " and ")),
                      .remedy = "run it as root, or with these capabilities"});
}

bool is_vital(const plan::Sysctl& row) {
  return row.key == "net/ipv4/ip_forward" || row.key == "net/ipv4/vs/conntrack";
}

// Whether IPVS is there, and without this key.
bool lacks_key(const NodeFacts& facts, const SysctlFact& fact) {
  const auto ipvs = facts.modules.find("ip_vs");
  return !fact.value && fact.wanted.key.starts_with("net/ipv4/vs/") &&
         ipvs != facts.modules.end() && ipvs->second.state == ModuleState::loaded;
}

std::string sysctl_remedy(const SysctlFact& fact) {
  const auto& row = fact.wanted;
  auto dotted = row.key;
  std::ranges::replace(dotted, '/', '.');
  if (fact.is_fixed)
    return fmt::format(
        "it belongs to the first network namespace of the host, and only there it can be set: "
        "sysctl -w {}={}",
        dotted, row.value);
  return fmt::format(
      "let `ipvs-proxier --init-only` run before with all privileges, or sysctl -w {}={}", dotted,
      row.value);
}

void judge_sysctls(const NodeFacts& facts, Findings& findings) {
  std::size_t settable = 0;
  for (const auto& fact : facts.sysctls) {
    const auto& row = fact.wanted;
    const bool is_right = fact.value && plan::is_right(row, *fact.value);
    if (is_right || (fact.writable && !lacks_key(facts, fact))) {
      ++settable;
      continue;
    }
    auto level = is_vital(row) ? Level::cannot : Level::limit;
    // Conntrack's limits belong to the first network namespace; traffic flows without them.
    if (row.severity != api::Severity::error || fact.is_fixed) level = Level::note;
    findings.push_back(
        {.level = level,
         .about = "sysctl " + row.key,
         .message = lacks_key(facts, fact)
                        ? fmt::format("it must be {}, and this kernel has no such key", row.value)
                        : fmt::format("it must be {}{}, is {}, and cannot be written from here",
                                      row.value, row.may_grow ? " at least" : "",
                                      fact.value.value_or("not there yet")),
         .remedy = sysctl_remedy(fact)});
  }
  fine(findings, "sysctls", fmt::format("{} are right or can be set", settable));
}

void judge_rp_filter(const NodeFacts& facts, Findings& findings) {
  if (facts.strict_links.empty()) return;
  findings.push_back(
      {.level = Level::note,
       .about = "rp_filter",
       .message = fmt::format("it is strict (1) on {}: a packet whose answer this node would send "
                              "through another link is dropped, to Services as well",
                              listed(facts.strict_links)),
       .remedy = "2 is loose: it wants a route to the sender through any link"});
}

void judge_pitfalls(const NodeFacts& facts, Findings& findings) {
  const auto tell = [&](const plan::Pitfall& pitfall, Level level) {
    findings.push_back({.level = level,
                        .about = pitfall.about,
                        .message = pitfall.message,
                        .remedy = pitfall.remedy});
  };
  for (const auto& pitfall : facts.pitfalls) tell(pitfall, Level::limit);
  if (facts.idle) tell(*facts.idle, Level::note);
}

void judge_ports(const NodeFacts& facts, const Wanted& wanted, Findings& findings) {
  for (const auto& port : facts.ports)
    findings.push_back(
        {.level = wanted.ports_are_vital ? Level::cannot : Level::limit,
         .about = "port " + port.address,
         .message = fmt::format("a socket on {} is in the way of the {}", port.user, port.purpose),
         .remedy = {}});
  if (facts.ports.empty())
    fine(findings, "ports",
         facts.daemon_runs ? "they are the running daemon's" : "those of the daemon are free");
}

// Link-local addresses are no Service's.
void judge_left_ports(const NodeFacts& facts, const Wanted& wanted, Findings& findings) {
  std::map<std::pair<std::string, netlink::IpAddress>, std::vector<plan::LeftPorts>> grouped;
  for (const auto& one : facts.left)
    if (!one.ports.address.is_link_local()) grouped[{one.link, one.ports.address}].push_back(one);
  for (const auto& [of, left] : grouped)
    findings.push_back(
        {.level = Level::limit,
         .about = "link " + of.first,
         .message = fmt::format(
             "{}: {}", plan::text_of_left(left),
             wanted.leaves_untracked
                 ? "a Service of this address does not get these ports on this node, they are left "
                   "to that program"
                 : "if they are a Service's, IPVS takes their packets from that program, nothing "
                   "masquerades them, and this node may get no answers"),
         .remedy = std::string(plan::kLeftRemedy)});
}

std::string remark_on(const std::string& name, const Wanted& wanted) {
  if (name == "kube-proxy")
    return "it writes the same tables: stop it before this daemon starts, which takes its state "
           "over";
  if (name == "kube-router")
    return "its service proxy writes IPVS as well: let it run with --run-service-proxy=false "
           "before "
           "this daemon starts";
  if (name == "dockerd")
    return "a swarm keeps IPVS in network namespaces of its own, which do not meet with ours";
  if (wanted.keeps_foreign_services)
    return "its virtual services stay, and no Service gets an address that one of them has "
           "(--keep-foreign-services)";
  return fmt::format(
      "virtual services of {} would be taken for leftovers and removed, unless "
      "ipvs.excludeCIDRs names their addresses",
      name == "kube-vip" ? "its load balancer" : "its configuration");
}

std::string remark_on_services(const NodeFacts& facts, const Wanted& wanted) {
  const auto count = facts.virtual_services;
  const std::string has = count == 1 ? "the kernel has 1 virtual service"
                                     : fmt::format("the kernel has {} virtual services", count);
  if (!wanted.keeps_foreign_services)
    return has +
           ": what no Service asks for is removed, unless ipvs.excludeCIDRs names its address";
  return has +
         ": what is on an address that a Service has or had is taken over, or removed where no "
         "Service asks for it; all else stays, and no Service gets an address of it "
         "(--keep-foreign-services)";
}

void judge_predecessors(const NodeFacts& facts, const Wanted& wanted, Findings& findings) {
  if (facts.has_kube_router)
    findings.push_back(
        {.level = wanted.takes_over_kube_router ? Level::note : Level::limit,
         .about = fmt::format("link {}", plan::kKubeRouterLink),
         .message = wanted.takes_over_kube_router
                        ? "kube-router's service proxy was here: the daemon takes over its virtual "
                          "services, chains and sets, and opens no node ports on this link"
                        : "kube-router's service proxy was here: what it left stays, and its chain "
                          "KUBE-ROUTER-SERVICES rejects ports of Services that it did not know",
         .remedy = "end it for good (--run-service-proxy=false) and remove the link: ip link "
                   "delete kube-dummy-if"});
  if (facts.has_kube_proxy_nft)
    findings.push_back(
        {.level = Level::note,
         .about = "nf_tables table kube-proxy",
         .message =
             "kube-proxy's nftables mode was here, whose rules translate destinations before "
             "IPVS sees a packet: the daemon removes them once all is programmed",
         .remedy = "stop kube-proxy before this daemon starts"});
}

void judge_writers(const NodeFacts& facts, const Wanted& wanted, Findings& findings) {
  for (const auto& writer : facts.writers)
    findings.push_back({.level = writer.name == "dockerd" ? Level::note : Level::limit,
                        .about = "process " + writer.name,
                        .message = fmt::format("runs here (process {}): {}", writer.pid,
                                               remark_on(writer.name, wanted)),
                        .remedy = {}});
  const bool may_lose = !wanted.keeps_foreign_services && facts.writers.empty();
  if (facts.virtual_services > 0 && !facts.daemon_runs)
    findings.push_back({.level = may_lose ? Level::limit : Level::note,
                        .about = "IPVS",
                        .message = remark_on_services(facts, wanted),
                        .remedy = {}});
  if (facts.writers.empty() && (facts.virtual_services == 0 || facts.daemon_runs))
    fine(findings, "IPVS",
         facts.daemon_runs ? "an ipvs-proxier runs here"
                           : "no other program that writes it was seen");
}

void judge_filter(const NodeFacts& facts, Findings& findings) {
  if (facts.dummy_is_other)
    findings.push_back({.level = Level::cannot,
                        .about = "link kube-ipvs0",
                        .message = "it is no dummy link: addresses of Services cannot be bound",
                        .remedy = "rename or remove it"});
  if (!facts.loop_is_other.empty())
    findings.push_back({.level = Level::limit,
                        .about = "nodePortAddresses: localhost",
                        .message = facts.loop_is_other,
                        .remedy = "rename or remove it"});
  for (const auto* some : {&facts.drops, &facts.flow_rules})
    for (const auto& fact : *some)
      findings.push_back({.level = fact.certain ? Level::limit : Level::note,
                          .about = fact.place,
                          .message = fact.what,
                          .remedy = {}});
  for (const auto& what : facts.unjudged)
    findings.push_back(
        {.level = Level::note, .about = "packet filter", .message = what, .remedy = {}});
  if (facts.drops.empty() && facts.unjudged.empty())
    fine(findings, "packet filter", "nothing in it drops all packets");
  if (facts.has_nf_tables)
    findings.push_back(
        {.level = Level::note,
         .about = "nf_tables",
         .message = "it is in use: a packet must be accepted by each of its tables, and by legacy "
                    "iptables",
         .remedy = {}});
  for (const auto& what : facts.unread)
    findings.push_back({.level = Level::note, .about = "not read", .message = what, .remedy = {}});
}

void judge_node(const NodeFacts& facts, Findings& findings) {
  if (facts.no_node.empty()) return;
  findings.push_back({.level = facts.has_no_nodes ? Level::note : Level::limit,
                      .about = "Node",
                      .message = facts.no_node,
                      .remedy = "start it with --hostname-override or hostnameOverride, so that "
                                "the name is that of `kubectl get nodes`"});
}

// Other Nodes' addresses, which this node would bind.
void judge_node_addresses(const NodeFacts& facts, Findings& findings) {
  std::map<std::string, std::vector<std::string>> services;
  for (const auto& one : facts.node_addresses)
    services[one.service].push_back(fmt::format("{} of Node {}", one.address, one.node));
  std::size_t shown = 0;
  for (const auto& [service, addresses] : services) {
    if (++shown > kMostNames) break;
    findings.push_back(
        {.level = Level::limit,
         .about = "Service " + service,
         .message = fmt::format("it asks for addresses of other Nodes ({}): this node binds them "
                                "and reaches those Nodes at ports of Services alone",
                                listed(addresses)),
         .remedy = "use a load balancer with addresses of its own (k3s: --disable=servicelb), or "
                   "take the addresses out of externalIPs"});
  }
  if (services.size() > kMostNames)
    findings.push_back({.level = Level::limit,
                        .about = "Services",
                        .message = fmt::format("{} more ask for addresses of other Nodes",
                                               services.size() - kMostNames),
                        .remedy = {}});
}

void judge_drain(const Wanted& wanted, Findings& findings) {
  if (wanted.bounds_drain) return;
  findings.push_back(
      {.level = Level::note,
       .about = "--drain-timeout",
       .message = "it is not set: clients hang on connections to endpoints of a node that is "
                  "dead, until they give up themselves",
       .remedy = "--drain-timeout=30s ends connections to an endpoint that long after it left"});
}

void judge_api(const NodeFacts& facts, Findings& findings) {
  std::size_t answered = 0;
  for (const auto& fact : facts.api) {
    if (fact.error.empty()) {
      ++answered;
      continue;
    }
    findings.push_back({.level = Level::cannot,
                        .about = "API server",
                        .message = fmt::format("{}: {}", fact.question, fact.error),
                        .remedy = {}});
  }
  if (answered > 0)
    fine(findings, "API server",
         fmt::format("{} of {} questions answered", answered, facts.api.size()));
}

}  // namespace

Findings judge(const NodeFacts& facts, const Wanted& wanted) {
  Findings findings;
  judge_kernel(facts, wanted, findings);
  judge_capabilities(facts, findings);
  judge_sysctls(facts, findings);
  judge_rp_filter(facts, findings);
  judge_pitfalls(facts, findings);
  judge_left_ports(facts, wanted, findings);
  judge_ports(facts, wanted, findings);
  judge_writers(facts, wanted, findings);
  judge_predecessors(facts, wanted, findings);
  judge_filter(facts, findings);
  judge_node(facts, findings);
  judge_node_addresses(facts, findings);
  judge_drain(wanted, findings);
  judge_api(facts, findings);
  std::ranges::stable_sort(findings, std::greater{}, &Finding::level);
  return findings;
}

}  // namespace ipvsproxier::check
