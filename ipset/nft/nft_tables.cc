#include "ipset/nft/nft_tables.h"

#include <linux/netlink.h>
#include <nftables/libnftables.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ipset/nft/nft_chains.h"
#include "ipset/nft/nft_jumps.h"
#include "ipset/rules/removal_catalog.h"
#include "netlink/nl_channel.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::make_error;
using netlink::Operation;
using netlink::Result;

struct FreeContext {
  void operator()(nft_ctx* context) const { nft_ctx_free(context); }
};
using Context = std::unique_ptr<nft_ctx, FreeContext>;

// libnftables ends the process if the kernel has no such sockets (mnl.c, nft_mnl_socket_open).
bool kernel_has_netfilter_sockets() {
  const netlink::UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  return static_cast<bool>(fd);
}

// Whether the errno means that the kernel has no nf_tables (nfnetlink.c), or not this family of it.
bool means_none(int sys_errno) {
  return sys_errno == EINVAL || sys_errno == EOPNOTSUPP || sys_errno == EPROTONOSUPPORT ||
         sys_errno == EAFNOSUPPORT;
}

// Runs a command of nft; returns its output.
Result<std::string> run(nft_ctx& context, const std::string& command) {
  errno = 0;
  if (nft_run_cmd_from_buffer(&context, command.c_str()) == 0)
    return std::string(nft_ctx_get_output_buffer(&context));
  const int error = errno;
  std::string said = nft_ctx_get_error_buffer(&context);
  said = said.substr(0, said.find('\n'));
  return make_error(Operation::generic, error,
                    fmt::format("nftables: {}: {}", command.substr(0, command.find('\n')), said));
}

bool has_line(const std::string& text, const std::string& wanted) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line == wanted) return true;
  return false;
}

std::string name_of(Family family) {
  return family == Family::ipv4 ? "ip" : "ip6";
}

// How much goes.
enum class Leave : std::uint8_t {
  nothing,
  what_drops_need,  // accepts_what_drops()
  all,              // a dry run: counts what would go of a take-over
};

Result<bool> remove_table(nft_ctx& context, const std::string& family, const std::string& tables,
                          Leave leave) {
  const std::string table = fmt::format("table {} {}", family, kNftTable);
  if (!has_line(tables, table)) return false;
  if (leave == Leave::all) return true;
  const auto gone = run(context, "delete " + table);
  // Another program removed it just now.
  if (!gone && gone.error().sys_errno == ENOENT) return false;
  if (!gone) return gone.error();
  return true;
}

// --- rules of iptables-nft -----------------------------------------------------------------------

// The chain's rules that lead to one of `targets`. Read over netlink, because libnftables prints a
// line to standard error for each iptables extension for which this system has no plugin.
Result<std::vector<NftJump>> list_jumps(netlink::NlChannel& channel, const NftChain& chain,
                                        const std::set<std::string>& targets) {
  std::vector<NftJump> jumps;
  const auto listed =
      channel.dump(Operation::rule, list_rules_request(chain.family, chain.table, chain.name),
                   [&](netlink::ByteView payload) -> netlink::Status {
                     auto jump = decode_jump(payload);
                     if (!jump) return jump.error();
                     if (*jump && targets.contains((*jump)->target))
                       jumps.push_back(**std::move(jump));
                     return {};
                   });
  if (listed) return jumps;
  return netlink::in_context(listed.error(),
                             fmt::format("nftables: list rules of {} {}", chain.table, chain.name));
}

// The commands for a transaction.
struct Commands {
  std::string empty;   // chains, and their jumps in built-in chains go
  std::string remove;  // these chains
  std::vector<std::string> chains;
};

// Appends what removes from one table what `removal` names, and counts it.
netlink::Status plan_removal(netlink::NlChannel& channel, const RuleRemoval& removal,
                             const std::vector<NftChain>& chains, bool hold_back,
                             Commands& commands, RemovedNft& removed) {
  const auto table = fmt::format("{} {}", name_of(removal.family), to_string(removal.table));
  std::set<std::string> named;
  for (const auto& chain : chains) {
    if (chain.table != to_string(removal.table) || !names_chain(removal, chain.name)) continue;
    if (hold_back && accepts_what_drops(chain, chains))
      removed.held_back.push_back(fmt::format("{} {}", table, chain.name));
    else
      named.insert(chain.name);
  }
  if (named.empty()) return {};
  std::set<std::string> used;  // by chains of others
  for (const auto& chain : chains) {
    if (chain.table != to_string(removal.table) || named.contains(chain.name)) continue;
    const auto jumps = list_jumps(channel, chain, named);
    if (!jumps) return jumps.error();
    for (const auto& jump : *jumps) {
      if (chain.hook.empty()) {
        used.insert(jump.target);
        continue;
      }
      commands.empty +=
          fmt::format("delete rule {} {} handle {}\n", table, chain.name, jump.handle);
      ++removed.jumps;
    }
  }
  for (const auto& name : named) {
    const auto chain = fmt::format("{} {}", table, name);
    if (!used.contains(name) || name != kMarkChain) commands.empty += "flush chain " + chain + "\n";
    if (used.contains(name)) {
      removed.in_use.push_back(chain);
      continue;
    }
    commands.remove += "delete chain " + chain + "\n";
    commands.chains.push_back(chain);
  }
  return {};
}

// All removals in one transaction: packets never meet a part of it. EBUSY: something else than a
// rule leads to one of the chains, such as an element of a map; then all of them stay, empty.
netlink::Status remove_rules(nft_ctx& context, Family family, Leave leave, bool kube_router,
                             RemovedNft& removed) {
  const bool hold_back = leave != Leave::nothing;
  const auto text = run(context, "list chains " + name_of(family));
  if (!text) return text.error();
  const auto chains = read_nft_chains(*text);
  auto channel = netlink::NlChannel::open(NETLINK_NETFILTER);
  if (!channel) return channel.error();
  Commands commands;
  RemovedNft counted = removed;
  for (const auto& removal : all_removals(family, kube_router))
    if (auto planned = plan_removal(*channel, removal, chains, hold_back, commands, counted);
        !planned)
      return planned;
  counted.chains += commands.chains.size();
  if (!commands.empty.empty() && leave != Leave::all) {
    auto gone = run(context, commands.empty + commands.remove);
    if (!gone && gone.error().sys_errno == EBUSY) {
      gone = run(context, commands.empty);
      counted.chains -= commands.chains.size();
      counted.in_use.insert(counted.in_use.end(), commands.chains.begin(), commands.chains.end());
    }
    if (!gone) {
      removed.held_back = std::move(counted.held_back);
      return gone.error();
    }
  }
  removed = std::move(counted);
  return {};
}

Result<Context> open_context() {
  Context context(nft_ctx_new(NFT_CTX_DEFAULT));
  if (!context || nft_ctx_buffer_output(context.get()) != 0 ||
      nft_ctx_buffer_error(context.get()) != 0)
    return make_error(Operation::generic, ENOMEM, "nftables: make a context");
  return context;
}

Result<RemovedNft> remove_leftovers(Family family, Leave leave, bool kube_router) {
  RemovedNft removed;
  if (!kernel_has_netfilter_sockets()) return removed;
  const auto context = open_context();
  if (!context) return context.error();
  const auto tables = run(**context, "list tables " + name_of(family));
  if (!tables && means_none(tables.error().sys_errno)) return removed;
  if (!tables) return tables.error();
  const auto table = remove_table(**context, name_of(family), *tables, leave);
  if (!table) return table.error();
  removed.table = *table;
  if (const auto rules = remove_rules(**context, family, leave, kube_router, removed); !rules)
    return rules.error();
  return removed;
}

}  // namespace

Result<RemovedNft> remove_nft_leftovers(Family family, bool kube_router) {
  return remove_leftovers(family, Leave::nothing, kube_router);
}

Result<RemovedNft> find_nft_leftovers(Family family, bool kube_router) {
  return remove_leftovers(family, Leave::all, kube_router);
}

Result<RemovedNft> take_over_nft_leftovers(Family family, bool kube_router) {
  return remove_leftovers(family, Leave::what_drops_need, kube_router);
}

Result<bool> nft_translates(Family family) {
  if (!kernel_has_netfilter_sockets()) return false;
  const auto context = open_context();
  if (!context) return context.error();
  const auto text = run(**context, "list chains " + name_of(family));
  if (!text && means_none(text.error().sys_errno)) return false;
  if (!text) return text.error();
  const auto translating = translation_chains(family);
  return std::ranges::any_of(read_nft_chains(*text), [&](const NftChain& chain) {
    return chain.table == kNftTable ||
           (chain.table == to_string(translating.table) && names_chain(translating, chain.name));
  });
}

}  // namespace ipvsproxier::ipset
