#include "test/fakes/fake_filter_table.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::test {

using namespace netlink;

namespace {

constexpr std::size_t kMostKeyBytes = 64;  // NFT_DATA_VALUE_MAXLEN
constexpr int kMostJumps = 16;             // NFT_JUMP_STACK_SIZE

Status nft_refusal(int sys_errno) {
  return make_error(Operation::nftables, sys_errno, "");
}

// The chain to which data leads; nullptr: to none.
const std::string* chain_of(const NftData& data) {
  const auto* const verdict = std::get_if<NftVerdict>(&data);
  if (verdict == nullptr) return nullptr;
  const bool leads =
      verdict->code == NftVerdictCode::jump || verdict->code == NftVerdictCode::go_to;
  return leads ? &verdict->chain : nullptr;
}

const std::string* chain_of(const NftExpression& expression) {
  const auto* const immediate = std::get_if<NftImmediate>(&expression);
  return immediate == nullptr ? nullptr : chain_of(immediate->data);
}

bool looks_into(const NftExpression& expression, const std::string& set) {
  const auto* const lookup = std::get_if<NftLookup>(&expression);
  return lookup != nullptr && lookup->set == set;
}

bool uses(const NftExpression& expression, const std::string& object) {
  const auto* const use = std::get_if<NftObjectRef>(&expression);
  return use != nullptr && use->object == object;
}

// Whether more jumps follow one another from this chain than packets may make; circles do.
bool is_too_deep(const FakeNfTables::Table& table, const std::string& name, int level) {
  if (level == kMostJumps) return true;
  const auto chain = table.chains.find(name);
  if (chain == table.chains.end()) return false;
  std::set<std::string> next;
  for (const auto& rule : chain->second.rules)
    for (const auto& expression : rule.expressions) {
      if (const auto* const to = chain_of(expression)) next.insert(*to);
      const auto* const lookup = std::get_if<NftLookup>(&expression);
      const auto led = lookup == nullptr ? table.led.end() : table.led.find(lookup->set);
      if (led == table.led.end()) continue;
      for (const auto& [to, count] : led->second) next.insert(to);
    }
  return std::ranges::any_of(next,
                             [&](const auto& to) { return is_too_deep(table, to, level + 1); });
}

}  // namespace

// A unit that is being applied, and what undoes it.
class FakeNfUnit {
 public:
  explicit FakeNfUnit(FakeNfTables& kernel) : kernel_(kernel) {}

  Status apply(const NftUnit& unit) {
    for (const auto& op : unit.ops) {
      auto status = std::visit([&](const auto& one) { return apply_one(one); }, op);
      if (status) continue;
      auto error = status.error();
      error.where = to_string(op);
      return undo(error);
    }
    for (const auto& name : touched_) {
      const auto table = kernel_.tables_.find(name);
      if (table == kernel_.tables_.end()) continue;
      for (const auto& [chain, content] : table->second.chains)
        if (content.base && is_too_deep(table->second, chain, 0))
          return undo(nft_refusal(EMLINK).error());
    }
    if (!undo_.empty()) ++kernel_.generation_;
    return {};
  }

 private:
  using Table = FakeNfTables::Table;
  using Set = FakeNfTables::Set;

  // What was done to a place of a map. Nodes are kept, so that what is deeper in them stays where
  // earlier steps know it.
  struct Step {
    virtual ~Step() = default;
    virtual void undo() = 0;
  };
  template <typename Map>
  struct Added final : Step {
    Added(Map& in, typename Map::key_type at) : map(in), key(std::move(at)) {}
    void undo() override { map.erase(key); }
    Map& map;
    typename Map::key_type key;
  };
  template <typename Map>
  struct Erased final : Step {
    Erased(Map& in, typename Map::node_type was) : map(in), node(std::move(was)) {}
    void undo() override { map.insert(std::move(node)); }
    Map& map;
    typename Map::node_type node;
  };
  template <typename Value>
  struct Changed final : Step {
    explicit Changed(Value& in) : value(in), before(in) {}
    void undo() override { value = std::move(before); }
    Value& value;
    Value before;
  };

  Error undo(const Error& error) {
    for (; !undo_.empty(); undo_.pop_back()) undo_.back()->undo();
    return error;
  }

  Table* table(const NftTableKey& key) {
    const auto found = kernel_.tables_.find(key);
    return found == kernel_.tables_.end() ? nullptr : &found->second;
  }
  Set* set(const NftTableKey& key, const std::string& name) {
    auto* const in = table(key);
    if (in == nullptr) return nullptr;
    const auto found = in->sets.find(name);
    return found == in->sets.end() ? nullptr : &found->second;
  }
  ipset::FilterChain* chain(const NftTableKey& key, const std::string& name) {
    auto* const in = table(key);
    if (in == nullptr) return nullptr;
    const auto found = in->chains.find(name);
    return found == in->chains.end() ? nullptr : &found->second;
  }

  template <typename Map>
  void put(Map& map, const typename Map::key_type& key, typename Map::mapped_type value) {
    const auto found = map.find(key);
    if (found == map.end()) {
      undo_.push_back(std::make_unique<Added<Map>>(map, key));
      map.emplace(key, std::move(value));
    } else {
      undo_.push_back(std::make_unique<Changed<typename Map::mapped_type>>(found->second));
      found->second = std::move(value);
    }
  }
  template <typename Map>
  void take_away(Map& map, const typename Map::key_type& key) {
    if (const auto found = map.find(key); found != map.end())
      undo_.push_back(std::make_unique<Erased<Map>>(map, map.extract(found)));
  }

  // Whether a verdict may lead to this chain.
  Status target(const NftTableKey& key, const std::string& name) {
    const auto* const to = chain(key, name);
    if (to == nullptr) return nft_refusal(ENOENT);
    return to->base ? nft_refusal(EOPNOTSUPP) : Status();
  }

  bool is_led_to(const Table& in, const std::string& name) const {
    for (const auto& [other, content] : in.chains)
      for (const auto& rule : content.rules)
        for (const auto& expression : rule.expressions)
          if (const auto* const to = chain_of(expression); to != nullptr && *to == name)
            if (other != name) return true;
    return std::ranges::any_of(in.led, [&](const auto& one) { return one.second.contains(name); });
  }

  // Counts an element that leads to a chain.
  void lead(Table& in, const std::string& set, const NftElement& element, bool add) {
    const auto* const to = element.data ? chain_of(*element.data) : nullptr;
    if (to == nullptr) return;
    auto& counts = in.led[set];
    const auto found = counts.find(*to);
    const auto count = (found == counts.end() ? 0 : found->second) + (add ? 1 : std::size_t(-1));
    if (count == 0)
      take_away(counts, *to);
    else
      put(counts, *to, count);
  }

  Status apply_one(const NftAddTable& op) {
    if (op.table.name.empty()) return nft_refusal(EINVAL);
    if (table(op.table) == nullptr) {
      put(kernel_.tables_, op.table, Table());
    } else if (auto& flags = table(op.table)->flags; flags.dormant) {
      undo_.push_back(std::make_unique<Changed<netlink::NftTableFlags>>(flags));
      flags.dormant = false;
    }
    return {};
  }
  Status apply_one(const NftDeleteTable& op) {
    if (table(op.table) == nullptr) return nft_refusal(ENOENT);
    take_away(kernel_.tables_, op.table);
    return {};
  }
  Status apply_one(const NftAddChain& op) {
    auto* const in = table(op.table);
    if (in == nullptr) return nft_refusal(ENOENT);
    const auto* const before = chain(op.table, op.chain.name);
    if (before == nullptr) {
      put(in->chains, op.chain.name, ipset::FilterChain{op.chain.base, {}});
      return {};
    }
    if (!op.chain.base) return {};
    auto changed = *before;
    if (!changed.base) return nft_refusal(EOPNOTSUPP);
    changed.base->accepts = op.chain.base->accepts;
    if (changed.base != op.chain.base) return nft_refusal(EEXIST);
    put(in->chains, op.chain.name, changed);
    return {};
  }
  Status apply_one(const NftFlushChain& op) {
    const auto* const before = chain(op.table, op.chain);
    if (before == nullptr) return nft_refusal(ENOENT);
    put(table(op.table)->chains, op.chain, ipset::FilterChain{before->base, {}});
    return {};
  }
  Status apply_one(const NftDeleteChain& op) {
    if (chain(op.table, op.chain) == nullptr) return nft_refusal(ENOENT);
    if (is_led_to(*table(op.table), op.chain)) return nft_refusal(EBUSY);
    take_away(table(op.table)->chains, op.chain);
    return {};
  }
  Status apply_one(const NftAddSet& op) {
    auto* const in = table(op.table);
    if (in == nullptr) return nft_refusal(ENOENT);
    const auto& spec = op.set;
    if (spec.name.empty() || spec.key_bytes == 0 || spec.key_bytes > kMostKeyBytes)
      return nft_refusal(EINVAL);
    const bool map = (spec.flags & NftSetSpec::kMap) != 0;
    if (map && spec.data_type != kNftVerdictType &&
        (spec.data_bytes == 0 || spec.data_bytes > kMostKeyBytes))
      return nft_refusal(EINVAL);
    if (const auto* const before = set(op.table, spec.name))
      return before->spec == spec ? Status() : nft_refusal(EEXIST);
    put(in->sets, spec.name, Set{spec, {}});
    return {};
  }
  Status apply_one(const NftDeleteSet& op) {
    if (set(op.table, op.set) == nullptr) return nft_refusal(ENOENT);
    auto& in = *table(op.table);
    for (const auto& [name, chain] : in.chains)
      for (const auto& rule : chain.rules)
        for (const auto& expression : rule.expressions)
          if (looks_into(expression, op.set)) return nft_refusal(EBUSY);
    take_away(in.led, op.set);
    take_away(in.sets, op.set);
    return {};
  }

  Status check_element(const NftTableKey& key, const Set& in, const NftElement& element) {
    const auto size = in.spec.key_bytes;
    if (element.key.size() != size || (!element.key_end.empty() && element.key_end.size() != size))
      return nft_refusal(EINVAL);
    const bool map = (in.spec.flags & NftSetSpec::kMap) != 0;
    if (map && !element.data && !element.interval_end) return nft_refusal(EINVAL);
    if (!map && element.data) return nft_refusal(EINVAL);
    if (!element.data) return {};
    const auto* const bytes = std::get_if<Bytes>(&*element.data);
    const bool verdicts = in.spec.data_type == kNftVerdictType;
    if (verdicts != (bytes == nullptr)) return nft_refusal(EINVAL);
    if (bytes != nullptr && bytes->size() != in.spec.data_bytes) return nft_refusal(EINVAL);
    const auto* const to = chain_of(*element.data);
    return to == nullptr ? Status() : target(key, *to);
  }
  Status apply_one(const NftAddElements& op) {
    auto* const in = set(op.table, op.set);
    // An operation without elements says nothing to the kernel.
    if (in == nullptr) return op.elements.empty() ? Status() : nft_refusal(ENOENT);
    for (const auto& element : op.elements) {
      if (auto status = check_element(op.table, *in, element); !status) return status;
      const std::pair key(element.key, element.interval_end);
      const auto found = in->elements.find(key);
      if (found != in->elements.end()) {
        if (found->second != element) return nft_refusal(EEXIST);
        continue;
      }
      if (in->spec.size != 0 && in->elements.size() >= in->spec.size) return nft_refusal(ENFILE);
      put(in->elements, key, element);
      lead(*table(op.table), op.set, element, true);
      touched_.insert(op.table);
    }
    return {};
  }
  Status apply_one(const NftDeleteElements& op) {
    auto* const in = set(op.table, op.set);
    if (in == nullptr) return op.elements.empty() ? Status() : nft_refusal(ENOENT);
    for (const auto& element : op.elements) {
      const std::pair key(element.key, element.interval_end);
      const auto found = in->elements.find(key);
      if (found == in->elements.end()) return nft_refusal(ENOENT);
      lead(*table(op.table), op.set, found->second, false);
      take_away(in->elements, key);
    }
    return {};
  }
  Status apply_one(const NftFlushSet& op) {
    auto* const in = set(op.table, op.set);
    if (in == nullptr) return nft_refusal(ENOENT);
    take_away(table(op.table)->led, op.set);
    put(table(op.table)->sets, op.set, Set{in->spec, {}});
    return {};
  }
  Status apply_one(const NftAddRule& op) {
    const auto* const before = chain(op.table, op.rule.chain);
    if (before == nullptr) return nft_refusal(ENOENT);
    for (const auto& expression : op.rule.expressions) {
      if (const auto* const to = chain_of(expression))
        if (auto status = target(op.table, *to); !status) return status;
      const auto* const lookup = std::get_if<NftLookup>(&expression);
      if (lookup != nullptr && set(op.table, lookup->set) == nullptr) return nft_refusal(ENOENT);
      const auto* const use = std::get_if<NftObjectRef>(&expression);
      if (use != nullptr && !table(op.table)->expectations.contains(use->object))
        return nft_refusal(ENOENT);
    }
    auto changed = *before;
    changed.rules.push_back({++kernel_.last_handle_, op.rule.expressions});
    put(table(op.table)->chains, op.rule.chain, std::move(changed));
    touched_.insert(op.table);
    return {};
  }
  Status apply_one(const NftAddExpectation& op) {
    auto* const in = table(op.table);
    if (in == nullptr || !kernel_.has_expectations) return nft_refusal(ENOENT);
    if (op.expectation.name.empty()) return nft_refusal(EINVAL);
    if (!in->expectations.contains(op.expectation.name))
      put(in->expectations, op.expectation.name, op.expectation);
    return {};
  }
  Status apply_one(const NftDeleteExpectation& op) {
    auto* const in = table(op.table);
    if (in == nullptr || !in->expectations.contains(op.expectation)) return nft_refusal(ENOENT);
    for (const auto& [name, chain] : in->chains)
      for (const auto& rule : chain.rules)
        for (const auto& expression : rule.expressions)
          if (uses(expression, op.expectation)) return nft_refusal(EBUSY);
    take_away(in->expectations, op.expectation);
    return {};
  }
  Status apply_one(const NftDeleteRule& op) {
    const auto* const before = chain(op.table, op.chain);
    if (before == nullptr) return nft_refusal(ENOENT);
    auto changed = *before;
    const auto gone =
        std::erase_if(changed.rules, [&](const auto& rule) { return rule.handle == op.handle; });
    if (gone == 0) return nft_refusal(ENOENT);
    put(table(op.table)->chains, op.chain, std::move(changed));
    return {};
  }

  FakeNfTables& kernel_;
  std::vector<std::unique_ptr<Step>> undo_;
  std::set<NftTableKey> touched_;  // in which verdicts may lead elsewhere now
};

Status FakeNfTables::apply(const NftUnit& unit) {
  return FakeNfUnit(*this).apply(unit);
}

const FakeNfTables::Table* FakeNfTables::find(const NftTableKey& table) const {
  const auto found = tables_.find(table);
  return found == tables_.end() ? nullptr : &found->second;
}

std::vector<Status> FakeFilterTable::apply(std::span<const NftUnit> units) {
  std::vector<Status> outcomes;
  for (const auto& unit : units) {
    if (unit.ops.empty()) {
      outcomes.emplace_back();
      continue;
    }
    requests_ += unit.ops.size();
    outcomes.push_back(faults.around(to_string(unit.ops.front()),
                                     [this, unit]() -> Status { return kernel_.apply(unit); }));
  }
  return outcomes;
}

std::vector<NftTableKey> FakeNfTables::tables() const {
  std::vector<NftTableKey> keys;
  for (const auto& [key, table] : tables_) keys.push_back(key);
  return keys;
}

Result<std::vector<NftTableKey>> FakeFilterTable::list_tables() {
  ++requests_;
  listing_.reset();
  if (auto fault = faults.next("list tables")) return std::move(*fault);
  return kernel_.tables();
}

Result<std::optional<ipset::FilterContents>> FakeFilterTable::list_frame(const NftTableKey& table) {
  ++requests_;
  listing_.reset();
  if (auto fault = faults.next("list " + to_string(table))) return std::move(*fault);
  const auto* const content = kernel_.find(table);
  if (content == nullptr) return std::optional<ipset::FilterContents>{};
  ipset::FilterContents contents;
  contents.flags = content->flags;
  contents.chains = content->chains;
  for (const auto& [name, set] : content->sets) contents.sets[name].spec = set.spec;
  return std::optional(std::move(contents));
}

Result<std::optional<NftSetSpec>> FakeFilterTable::find_set(const NftTableKey& table,
                                                            const std::string& set) {
  ++requests_;
  const auto* const content = kernel_.find(table);
  const auto found =
      content == nullptr ? decltype(content->sets.begin()){} : content->sets.find(set);
  if (content == nullptr || found == content->sets.end()) return std::optional<NftSetSpec>{};
  return std::optional(found->second.spec);
}

Result<std::optional<NftExpectation>> FakeFilterTable::find_expectation(const NftTableKey& table,
                                                                        const std::string& name) {
  ++requests_;
  const auto* const content = kernel_.find(table);
  if (content == nullptr) return std::optional<NftExpectation>{};
  const auto found = content->expectations.find(name);
  if (found == content->expectations.end()) return std::optional<NftExpectation>{};
  return std::optional(found->second);
}

Result<std::vector<NftFlowRule>> FakeFilterTable::list_flow_rules() {
  ++requests_;
  if (auto fault = faults.next("list flowtables")) return std::move(*fault);
  std::vector<NftFlowRule> rules;
  for (const auto& key : kernel_.tables())
    for (const auto& [name, chain] : kernel_.find(key)->chains)
      for (const auto& rule : chain.rules)
        for (const auto& expression : rule.expressions)
          if (const auto* const other = std::get_if<NftOtherExpression>(&expression)) {
            const auto foreign = read_foreign_expression(*other);
            if (const auto* const flow = std::get_if<NftFlowOffload>(&foreign))
              rules.push_back({key, name, flow->flowtable});
          }
  return rules;
}

std::vector<NftElement> FakeFilterTable::elements_of(const NftTableKey& table,
                                                     const std::string& set) const {
  std::vector<NftElement> elements;
  const auto* const content = kernel_.find(table);
  if (content == nullptr || !content->sets.contains(set)) return elements;
  for (const auto& [key, element] : content->sets.at(set).elements) elements.push_back(element);
  return elements;
}

Result<std::optional<ipset::FilterTable::ElementsPart>> FakeFilterTable::begin_elements(
    const NftTableKey& table, const std::string& set) {
  listing_.reset();
  const auto* const content = kernel_.find(table);
  if (content == nullptr || !content->sets.contains(set)) {
    ++requests_;
    if (auto fault = faults.next("list " + to_string(table) + " " + set)) return std::move(*fault);
    return std::optional<ElementsPart>{};
  }
  listing_.emplace(Listing{table, set, elements_of(table, set)});
  auto part = next_elements();
  if (!part) return std::move(part.error());
  return std::optional(*std::move(part));
}

Result<ipset::FilterTable::ElementsPart> FakeFilterTable::next_elements() {
  if (!listing_) return no_filter_listing();
  ++requests_;
  auto& [table, set, whole, listed] = *listing_;
  if (auto fault = faults.next("list " + to_string(table) + " " + set)) {
    listing_.reset();
    return std::move(*fault);
  }
  ElementsPart part;
  for (; listed < whole.size() && part.elements.size() < kAPart; ++listed)
    part.elements.push_back(whole[listed]);
  part.last = listed == whole.size();
  if (!part.last) return part;
  const bool is_same = elements_of(table, set) == whole;
  listing_.reset();
  if (!is_same) return netlink::Error{netlink::ErrorKind::busy, EBUSY, "the set changed"};
  return part;
}

}  // namespace ipvsproxier::test
