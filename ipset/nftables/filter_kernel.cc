#include "ipset/nftables/filter_kernel.h"

#include <linux/netlink.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "netlink/nftables/nftables_codec.h"
#include "netlink/nftables/nftables_transaction.h"

namespace ipvsproxier::ipset {

using namespace netlink;

namespace {

constexpr int kReadAttempts = 5;

bool is_absent(const Error& error) {
  return error.kind == ErrorKind::missing;
}

// What is read again: others changed something meanwhile.
bool is_interrupted(const Error& error) {
  return error.kind == ErrorKind::busy || error.kind == ErrorKind::overrun;
}

// A dump may list other tables as well: what stands in them need not be readable.
bool is_in(const NftTableKey& table, ByteView payload) {
  const auto listed = decode_nft_table(payload);
  return listed && *listed == table;
}

}  // namespace

Result<std::unique_ptr<KernelFilterTable>> KernelFilterTable::open(const NlOptions& options) {
  auto channel = NlChannel::open(NETLINK_NETFILTER, options);
  if (!channel) return in_context(channel.error(), "open nf_tables");
  std::unique_ptr<KernelFilterTable> table(new KernelFilterTable(std::move(*channel)));
  auto generation = table->generation();
  if (generation) return table;
  auto error = generation.error();
  // nfnetlink_rcv_msg() answers so for an absent subsystem after it has asked for the module.
  if (error.kind == ErrorKind::malformed)
    error = {ErrorKind::unsupported, error.sys_errno,
             "this kernel offers no nf_tables: load module nf_tables (modprobe nf_tables) on the "
             "host"};
  return in_context(std::move(error), "open nf_tables");
}

Result<std::uint32_t> KernelFilterTable::generation() {
  const auto answer = channel_.query(Operation::nftables, encode_get_nft_generation());
  if (!answer) return answer.error();
  return decode_nft_generation(*answer);
}

std::vector<Status> KernelFilterTable::apply(std::span<const NftUnit> units) {
  const auto send = [&](std::span<const Bytes> messages) {
    auto outcome = channel_.transact_batch(Operation::nftables, encode_nft_begin(), messages,
                                           encode_nft_end());
    if (outcome.whole && listing_) ++listing_->own_transactions;
    return outcome;
  };
  return apply_nft_units(units, send);
}

Status KernelFilterTable::dump(const Bytes& request, const std::function<Status(ByteView)>& each) {
  return channel_.stream(Operation::nftables, request, each);
}

// Calls `read` until no transaction came in between; the generation that was read.
Result<std::uint32_t> KernelFilterTable::read_at_once(const std::function<Status()>& read) {
  Error failure;
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    const auto before = generation();
    if (!before) return before.error();
    if (const auto status = read(); !status) {
      failure = status.error();
      if (!is_interrupted(failure)) break;
      continue;
    }
    const auto after = generation();
    if (!after) return after.error();
    if (*before == *after) return *after;
    failure = {ErrorKind::busy, EBUSY, "the tables changed during each listing"};
  }
  return failure;
}

// The chains with their rules, and the sets without elements.
Status KernelFilterTable::read_frame(const NftTableKey& table, FilterContents& contents) {
  contents = {};
  auto chains = dump(encode_list_nft_chains(table), [&](ByteView payload) -> Status {
    if (!is_in(table, payload)) return {};
    auto chain = decode_nft_chain(payload);
    if (!chain) return chain.error();
    contents.chains[chain->chain.name].base = chain->chain.base;
    return {};
  });
  if (!chains) return chains;
  auto sets = dump(encode_list_nft_sets(table), [&](ByteView payload) -> Status {
    if (!is_in(table, payload)) return {};
    auto set = decode_nft_set(payload);
    if (!set) return set.error();
    contents.sets[set->set.name].spec = set->set;
    return {};
  });
  if (!sets) return sets;
  return dump(encode_list_nft_rules(table), [&](ByteView payload) -> Status {
    if (!is_in(table, payload)) return {};
    auto rule = decode_nft_rule(payload);
    if (!rule) return rule.error();
    auto& chain = contents.chains[rule->rule.chain];
    chain.rules.push_back({rule->handle, std::move(rule->rule.expressions)});
    return {};
  });
}

Status KernelFilterTable::read_elements(const NftTableKey& table, FilterSet& set) {
  set.elements.clear();
  auto status =
      dump(encode_list_nft_elements(table, set.spec.name), [&](ByteView payload) -> Status {
        auto listed = decode_nft_elements(payload);
        if (!listed) return listed.error();
        std::ranges::move(listed->elements, std::back_inserter(set.elements));
        return {};
      });
  std::ranges::sort(set.elements);
  return status;
}

Result<std::optional<FilterTable::Part>> KernelFilterTable::begin_list(const NftTableKey& table) {
  listing_.reset();
  frame_ = {};
  Part part;
  const auto generation = read_at_once([&]() -> Status {
    const auto answer = channel_.query(Operation::nftables, encode_get_nft_table(table));
    if (!answer) return answer.error();
    return read_frame(table, part.contents);
  });
  if (!generation && is_absent(generation.error())) return std::optional<Part>{};
  if (!generation) return in_context(generation.error(), "list " + to_string(table));
  listing_.emplace(Listing{.table = table, .sets = {}, .begun = *generation});
  for (const auto& [name, set] : part.contents.sets) {
    listing_->sets.push_back(name);
    frame_.sets[name].spec = set.spec;
  }
  std::ranges::reverse(listing_->sets);
  part.last = listing_->sets.empty();
  if (part.last) listing_.reset();
  return std::optional<Part>(std::move(part));
}

Result<FilterTable::Part> KernelFilterTable::next_list() {
  if (!listing_) return no_filter_listing();
  Part part;
  const auto name = listing_->sets.back();
  auto& set = part.contents.sets[name];
  set.spec = frame_.sets[name].spec;
  auto generation = read_at_once([&] { return read_elements(listing_->table, set); });
  if (!generation && is_absent(generation.error())) {
    part.contents.sets.clear();
    generation = this->generation();
  }
  if (!generation) {
    const auto what = fmt::format("list {} {}", to_string(listing_->table), name);
    listing_.reset();
    return in_context(generation.error(), what);
  }
  part.disturbed = *generation - listing_->begun != listing_->own_transactions;
  listing_->sets.pop_back();
  part.last = listing_->sets.empty();
  if (part.last) listing_.reset();
  return part;
}

Result<std::optional<std::vector<NftElement>>> KernelFilterTable::list_elements(
    const NftTableKey& table, const std::string& set) {
  FilterSet listed{.spec = {.name = set}, .elements = {}};
  const auto generation = read_at_once([&] { return read_elements(table, listed); });
  if (!generation && is_absent(generation.error())) return std::optional<std::vector<NftElement>>{};
  if (!generation)
    return in_context(generation.error(), fmt::format("list {} {}", to_string(table), set));
  return std::optional(std::move(listed.elements));
}

}  // namespace ipvsproxier::ipset
