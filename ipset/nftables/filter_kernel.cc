#include "ipset/nftables/filter_kernel.h"

#include <linux/netlink.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ipset/sets/printable_name.h"
#include "netlink/nftables/nftables_codec.h"
#include "netlink/nftables/nftables_transaction.h"

namespace ipvsproxier::ipset {

using namespace netlink;

namespace {

constexpr int kReadAttempts = 5;
// Some 4 ms, measured natively on Linux 6.18.
constexpr std::size_t kPartElements = 4096;
// The notification of a transaction that has a generation is under way.
constexpr int kNotificationMs = 200;
constexpr auto kAnyNumber = std::numeric_limits<std::size_t>::max();
const FilterTable::KeepRule kAllRules = [](const auto&, const auto&) { return true; };

bool is_absent(const Error& error) {
  return error.kind == ErrorKind::missing;
}

// All of it is there, but some table changed meanwhile.
bool is_marked(const Error& error) {
  return error.kind == ErrorKind::busy && error.sys_errno == EINTR;
}

Error changed_meanwhile() {
  return {ErrorKind::busy, EBUSY, "others changed the table during the listing"};
}

// Whether the operation changes the elements of the set.
bool touches(const NftOp& op, const NftTableKey& table, const std::string& set) {
  const auto in_set = [&](const auto* change) {
    return change != nullptr && change->table == table && change->set == set;
  };
  const auto* gone = std::get_if<NftDeleteTable>(&op);
  return in_set(std::get_if<NftAddElements>(&op)) || in_set(std::get_if<NftDeleteElements>(&op)) ||
         in_set(std::get_if<NftFlushSet>(&op)) || in_set(std::get_if<NftDeleteSet>(&op)) ||
         (gone != nullptr && gone->table == table);
}

// A dump may list other tables as well: what stands in them need not be readable.
bool is_in(const NftTableKey& table, ByteView payload) {
  const auto listed = decode_nft_table(payload);
  return listed && *listed == table;
}

}  // namespace

KernelFilterTable::KernelFilterTable(NlChannel changes, NlChannel listings,
                                     std::unique_ptr<NftMonitor> monitor)
    : channel_(std::move(changes)), listings_(std::move(listings)), monitor_(std::move(monitor)) {}

Result<std::unique_ptr<KernelFilterTable>> KernelFilterTable::open(const NlOptions& options) {
  auto changes = NlChannel::open(NETLINK_NETFILTER, options);
  if (!changes) return in_context(changes.error(), "open nf_tables");
  auto listings = NlChannel::open(NETLINK_NETFILTER, options);
  if (!listings) return in_context(listings.error(), "open nf_tables");
  auto monitor = NftMonitor::open({}, 0);
  if (!monitor) return in_context(monitor.error(), "open nf_tables");
  std::unique_ptr<KernelFilterTable> table(
      new KernelFilterTable(*std::move(changes), *std::move(listings), *std::move(monitor)));
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
    return channel_.transact_batch(Operation::nftables, encode_nft_begin(), messages,
                                   encode_nft_end());
  };
  if (listing_)
    for (const auto& unit : units)
      for (const auto& op : unit.ops)
        if (touches(op, listing_->reading.table, listing_->set)) listing_->changed = true;
  return apply_nft_units(units, send);
}

Status KernelFilterTable::dump(const Bytes& request, const std::function<Status(ByteView)>& each) {
  auto status = listings_.stream(Operation::nftables, request, each);
  if (!status && is_marked(status.error())) return {};
  return status;
}

// A transaction counts as a generation before it has taken its elements out of their sets. A
// listing between the two misses others, as the kernel skips elements by number
// (nf_tables_commit(), nft_rhash_walk(), 6.1). The beginning of a transaction waits for the end of
// the one before it; one for a generation that is no more is refused then, and changes nothing
// (nf_tables_valid_genid()).
Status KernelFilterTable::await_transactions(std::uint32_t generation) {
  const std::uint32_t past = generation > 1 ? generation - 1 : ~std::uint32_t{0};
  auto outcome =
      channel_.transact_batch(Operation::nftables, encode_nft_begin(past), {}, encode_nft_end());
  if (!outcome.whole && outcome.whole.error().sys_errno == ERESTART) return {};
  return std::move(outcome.whole);
}

Result<KernelFilterTable::Reading> KernelFilterTable::begin_reading(const NftTableKey& table) {
  const auto begun = generation();
  if (!begun) return begun.error();
  monitor_->watch(table, *begun);
  if (auto ended = await_transactions(*begun); !ended) return std::move(ended.error());
  return Reading{.table = table, .generation = *begun, .events = {}};
}

// `busy` if others changed the table since the reading began, or may have.
Status KernelFilterTable::end_reading(Reading reading) {
  const auto now = generation();
  if (!now) return now.error();
  if (*now == reading.generation) return {};
  while (true) {
    auto& events = reading.events;
    monitor_->take(events);
    if (events.overrun) return changed_meanwhile();
    for (const auto& change : events.changes)
      if (change.port != port()) return changed_meanwhile();
    // Generations wrap around.
    if (events.generation && static_cast<std::int32_t>(*events.generation - *now) >= 0) return {};
    pollfd ready{monitor_->fd(), POLLIN, 0};
    if (::poll(&ready, 1, kNotificationMs) <= 0) return changed_meanwhile();
  }
}

// The chains with their rules, and the sets without elements. An empty `keep` takes all rules.
Status KernelFilterTable::read_frame(const NftTableKey& table, std::size_t most_rules,
                                     const KeepRule& keep, FilterContents& contents) {
  contents = {};
  std::size_t rules = 0;
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
  if (!sets || !keep) return sets;
  return dump(encode_list_nft_rules(table), [&](ByteView payload) -> Status {
    if (!is_in(table, payload)) return {};
    if (++rules > most_rules) return too_many_rules(most_rules);
    auto rule = decode_nft_rule(payload);
    if (!rule) return rule.error();
    FilterRule read{rule->handle, std::move(rule->rule.expressions)};
    if (keep(rule->rule.chain, read))
      contents.chains[rule->rule.chain].rules.push_back(std::move(read));
    return {};
  });
}

Result<std::vector<NftTableKey>> KernelFilterTable::list_tables() {
  listing_.reset();
  std::vector<NftTableKey> tables;
  const auto keep = [&](ByteView payload) -> Status {
    auto table = decode_nft_table(payload);
    if (!table) return table.error();
    tables.push_back(*std::move(table));
    return {};
  };
  if (auto status = dump(encode_list_nft_tables(NftFamily::unspecified), keep); !status)
    return in_context(status.error(), "list tables of nf_tables");
  return tables;
}

Result<std::optional<FilterContents>> KernelFilterTable::list_frame(const NftTableKey& table) {
  return list_frame_of(table, kAnyNumber, kAllRules);
}

Result<std::optional<FilterContents>> KernelFilterTable::list_small_frame(const NftTableKey& table,
                                                                          std::size_t most_rules) {
  return list_frame_of(table, most_rules, kAllRules);
}

Result<std::optional<FilterContents>> KernelFilterTable::list_chains(const NftTableKey& table,
                                                                     const KeepRule& keep) {
  return list_frame_of(table, kAnyNumber, keep);
}

Result<std::optional<FilterContents>> KernelFilterTable::list_frame_of(const NftTableKey& table,
                                                                       std::size_t most_rules,
                                                                       const KeepRule& keep) {
  listing_.reset();
  FilterContents contents;
  const auto read = [&]() -> Status {
    auto reading = begin_reading(table);
    if (!reading) return reading.error();
    const auto answer = channel_.query(Operation::nftables, encode_get_nft_table(table));
    if (!answer) return answer.error();
    const auto flags = decode_nft_table_flags(*answer);
    if (!flags) return flags.error();
    if (auto frame = read_frame(table, most_rules, keep, contents); !frame) return frame;
    contents.flags = *flags;
    return end_reading(*std::move(reading));
  };
  auto status = read();
  for (int attempt = 1; attempt < kReadAttempts; ++attempt) {
    if (status || status.error().kind != ErrorKind::busy) break;
    status = read();
  }
  if (status) return std::optional(std::move(contents));
  if (is_absent(status.error())) return std::optional<FilterContents>{};
  return in_context(status.error(), "list " + printable_name(to_string(table)));
}

Result<std::optional<NftSetSpec>> KernelFilterTable::find_set(const NftTableKey& table,
                                                              const std::string& set) {
  const auto answer = channel_.query(Operation::nftables, encode_get_nft_set(table, set));
  if (!answer && is_absent(answer.error())) return std::optional<NftSetSpec>{};
  if (!answer)
    return in_context(answer.error(),
                      "find " + printable_name(fmt::format("{} {}", to_string(table), set)));
  auto found = decode_nft_set(*answer);
  if (!found) return std::move(found.error());
  return std::optional(std::move(found->set));
}

Result<std::optional<NftExpectation>> KernelFilterTable::find_expectation(const NftTableKey& table,
                                                                          const std::string& name) {
  const auto answer = channel_.query(Operation::nftables, encode_get_nft_expectation(table, name));
  if (!answer && is_absent(answer.error())) return std::optional<NftExpectation>{};
  if (!answer)
    return in_context(answer.error(),
                      "find " + printable_name(fmt::format("{} {}", to_string(table), name)));
  auto found = decode_nft_expectation(*answer);
  if (!found) return std::move(found.error());
  return std::optional(std::move(found->expectation));
}

// Stays "" where it cannot be found.
void KernelFilterTable::find_flow_chain(NftFlowRule& rule) {
  std::size_t rules = 0;
  static_cast<void>(dump(encode_list_nft_rules(rule.table), [&](ByteView payload) -> Status {
    const auto found = nft_flow_rule_in(payload);
    if (found && found->table == rule.table && found->flowtable == rule.flowtable &&
        rule.chain.empty())
      rule.chain = found->chain;
    // Found, or too many: either ends the listing.
    if (!rule.chain.empty() || ++rules > kMostRulesSearched)
      return too_many_rules(kMostRulesSearched);
    return {};
  }));
}

Result<std::vector<NftFlowRule>> KernelFilterTable::list_flow_rules() {
  listing_.reset();
  std::vector<NftFlowRule> found;
  const auto keep = [&](ByteView payload) -> Status {
    auto flowtable = decode_nft_flowtable(payload);
    if (!flowtable) return flowtable.error();
    const auto family = flowtable->table.family;
    const bool forwards =
        family == NftFamily::ip || family == NftFamily::ip6 || family == NftFamily::inet;
    if (forwards && flowtable->rules > 0)
      found.push_back({std::move(flowtable->table), {}, std::move(flowtable->name)});
    return {};
  };
  auto listed = dump(encode_list_nft_flowtables(), keep);
  // Before 4.16, and where the kernel was built without.
  if (!listed && listed.error().kind != ErrorKind::malformed &&
      listed.error().kind != ErrorKind::unsupported)
    return in_context(std::move(listed.error()), "list flowtables");
  for (auto& rule : found) find_flow_chain(rule);
  return found;
}

// The next part of `listing_`, which goes with the last part and with an error.
Result<FilterTable::ElementsPart> KernelFilterTable::read_part() {
  ElementsPart part{.elements = {}, .last = false};
  const auto keep = [&](ByteView payload) -> Status {
    auto listed = decode_nft_elements(payload);
    if (!listed) return listed.error();
    std::ranges::move(listed->elements, std::back_inserter(part.elements));
    return {};
  };
  while (!part.last && part.elements.size() < kPartElements) {
    auto more = listings_.next_of_dump(Operation::nftables, keep);
    // While it is read, others may say much.
    monitor_->take(listing_->reading.events);
    if (!more && is_marked(more.error())) more = false;
    if (!more) {
      listings_.end_dump();
      listing_.reset();
      return std::move(more.error());
    }
    part.last = !*more;
  }
  if (!part.last) return part;
  auto listing = *std::exchange(listing_, std::nullopt);
  if (listing.changed) return Error{ErrorKind::busy, EBUSY, "the set changed during its listing"};
  if (auto whole = end_reading(std::move(listing.reading)); !whole) return std::move(whole.error());
  return part;
}

Result<std::optional<FilterTable::ElementsPart>> KernelFilterTable::begin_elements(
    const NftTableKey& table, const std::string& set) {
  const auto what = "list " + printable_name(fmt::format("{} {}", to_string(table), set));
  auto reading = begin_reading(table);
  if (!reading) return in_context(reading.error(), what);
  listing_.emplace(Listing{.reading = *std::move(reading), .set = set});
  if (auto begun = listings_.begin_dump(encode_list_nft_elements(table, set)); !begun)
    return in_context(std::move(begun.error()), what);
  auto part = read_part();
  if (part) return std::optional(*std::move(part));
  if (is_absent(part.error())) return std::optional<ElementsPart>{};
  return in_context(std::move(part.error()), what);
}

Result<FilterTable::ElementsPart> KernelFilterTable::next_elements() {
  if (!listing_) return no_filter_listing();
  const auto what = "list " + printable_name(fmt::format(
                                  "{} {}", to_string(listing_->reading.table), listing_->set));
  auto part = read_part();
  if (!part) return in_context(std::move(part.error()), what);
  return part;
}

}  // namespace ipvsproxier::ipset
