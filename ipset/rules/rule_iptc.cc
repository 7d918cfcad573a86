#include "ipset/rules/rule_iptc.h"

#include <netinet/in.h>
#include <sys/socket.h>

extern "C" {
#include <libiptc/libip6tc.h>
#include <libiptc/libiptc.h>
}

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_edits.h"
#include "ipset/rules/xtables_lock.h"
#include "ipset/sets/set_resolver.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::make_error;
using netlink::Operation;

// The two libraries have the same functions under different names.
struct Ipv4 {
  using Entry = ipt_entry;
  static constexpr Family family = Family::ipv4;
  static constexpr const char* tables = "/proc/thread-self/net/ip_tables_names";
  static constexpr auto init = iptc_init;
  static constexpr auto free = iptc_free;
  static constexpr auto is_chain = iptc_is_chain;
  static constexpr auto is_builtin = iptc_builtin;
  static constexpr auto get_policy = iptc_get_policy;
  static constexpr auto get_references = iptc_get_references;
  static constexpr auto first_chain = iptc_first_chain;
  static constexpr auto next_chain = iptc_next_chain;
  static constexpr auto first_rule = iptc_first_rule;
  static constexpr auto next_rule = iptc_next_rule;
  static constexpr auto get_target = iptc_get_target;
  static constexpr auto create_chain = iptc_create_chain;
  static constexpr auto rename_chain = iptc_rename_chain;
  static constexpr auto delete_chain = iptc_delete_chain;
  static constexpr auto flush_entries = iptc_flush_entries;
  static constexpr auto append_entry = iptc_append_entry;
  static constexpr auto insert_entry = iptc_insert_entry;
  static constexpr auto delete_num_entry = iptc_delete_num_entry;
  static constexpr auto commit = iptc_commit;
  static constexpr auto error_text = iptc_strerror;
};

struct Ipv6 {
  using Entry = ip6t_entry;
  static constexpr Family family = Family::ipv6;
  static constexpr const char* tables = "/proc/thread-self/net/ip6_tables_names";
  static constexpr auto init = ip6tc_init;
  static constexpr auto free = ip6tc_free;
  static constexpr auto is_chain = ip6tc_is_chain;
  static constexpr auto is_builtin = ip6tc_builtin;
  static constexpr auto get_policy = ip6tc_get_policy;
  static constexpr auto get_references = ip6tc_get_references;
  static constexpr auto first_chain = ip6tc_first_chain;
  static constexpr auto next_chain = ip6tc_next_chain;
  static constexpr auto first_rule = ip6tc_first_rule;
  static constexpr auto next_rule = ip6tc_next_rule;
  static constexpr auto get_target = ip6tc_get_target;
  static constexpr auto create_chain = ip6tc_create_chain;
  static constexpr auto rename_chain = ip6tc_rename_chain;
  static constexpr auto delete_chain = ip6tc_delete_chain;
  static constexpr auto flush_entries = ip6tc_flush_entries;
  static constexpr auto append_entry = ip6tc_append_entry;
  static constexpr auto insert_entry = ip6tc_insert_entry;
  static constexpr auto delete_num_entry = ip6tc_delete_num_entry;
  static constexpr auto commit = ip6tc_commit;
  static constexpr auto error_text = ip6tc_strerror;
};

// Asks the module of the legacy tables by getsockopt(): 0, or the errno of the answer; EIO: nobody
// may ask.
template <typename Request>
int ask_tables(Family family, int option, Request& request) {
  const bool v4 = family == Family::ipv4;
  const netlink::UniqueFd fd(
      ::socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!fd) return EIO;
  socklen_t size = sizeof request;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  return ::getsockopt(fd.get(), level, option, &request, &size) == 0 ? 0 : errno;
}

// Whether the kernel lacks the extension of this name and revision, even after loading its module.
Result<bool> lacks(Family family, const ExtensionName& extension) {
  xt_get_revision request{};
  extension.name.copy(request.name, sizeof request.name - 1);
  request.revision = extension.revision;
  const int option =
      family == Family::ipv4
          ? (extension.is_target ? IPT_SO_GET_REVISION_TARGET : IPT_SO_GET_REVISION_MATCH)
          : (extension.is_target ? IP6T_SO_GET_REVISION_TARGET : IP6T_SO_GET_REVISION_MATCH);
  const int error = ask_tables(family, option, request);
  if (error == ENOENT || error == EPROTONOSUPPORT) return true;
  if (error != 0) return make_error(Operation::rule, error, "ask for extensions of iptables");
  return false;
}

std::string table_name(Family family, Table table) {
  return fmt::format("{} table {}", to_string(family), to_string(table));
}

Error in_table(Family family, Table table, Error error) {
  error.where = fmt::format("{}: {}", table_name(family, table), error.where);
  return error;
}

// An error of libiptc, which explains some errnos by the function that was called last.
template <typename Library>
Error library_error(Table table, int sys_errno, const std::string& what) {
  std::string where = fmt::format("{}: {}", table_name(Library::family, table), what);
  if (sys_errno == EPERM || sys_errno == EACCES)
    where += ": CAP_NET_ADMIN and CAP_NET_RAW are needed";
  else
    where += fmt::format(": {}", Library::error_text(sys_errno));
  return make_error(Operation::rule, sys_errno, std::move(where));
}

// Entries of a table that exists: its rules, and an end or two of each chain. 0: nobody may ask.
std::size_t entries_of(Family family, Table table) {
  // The number and the answer are the same for IPv6.
  static_assert(int{IPT_SO_GET_INFO} == int{IP6T_SO_GET_INFO});
  ipt_getinfo info{};
  to_string(table).copy(info.name, sizeof info.name - 1);
  return ask_tables(family, IPT_SO_GET_INFO, info) == 0 ? info.num_entries : 0;
}

// Whether this network namespace has the table: asking libiptc would create it. True if the list of
// tables cannot be read.
template <typename Library>
bool table_exists(Table table) {
  std::ifstream names(Library::tables);
  if (!names) return errno != ENOENT;
  for (std::string name; names >> name;)
    if (name == to_string(table)) return true;
  return false;
}

// One snapshot of a table, edited in memory until it is committed.
template <typename Library>
class Snapshot {
 public:
  static Result<Snapshot> read(Table table, const IptcSettings& settings) {
    const std::string name(to_string(table));
    Handle handle(Library::init(name.c_str()));
    // nf_getsockopt() answers ENOPROTOOPT if no module has registered the option.
    if (!handle && errno == ENOPROTOOPT && settings.load_module) {
      settings.load_module(module_of(Library::family));
      handle.reset(Library::init(name.c_str()));
    }
    if (handle) return Snapshot(table, std::move(handle));
    const int error = errno;
    if (error == ENOPROTOOPT)
      return make_error(
          Operation::rule, error,
          fmt::format("{}: the kernel has no legacy tables: module {}",
                      table_name(Library::family, table), module_of(Library::family)));
    return library_error<Library>(table, error, "read");
  }

  bool has_chain(const std::string& chain) const {
    return Library::is_chain(chain.c_str(), handle_.get()) != 0;
  }

  std::vector<Rule> rules(const std::string& chain, SetResolver& sets) const {
    std::vector<Rule> result;
    for_each_rule(chain, [&](unsigned, std::string_view target, auto bytes) {
      result.push_back(decode_rule(Library::family, bytes, target, sets));
    });
    return result;
  }

  std::vector<RuleCount> counts(const std::string& chain) const {
    std::vector<RuleCount> result;
    for_each_rule(chain, [&](unsigned, std::string_view, auto bytes) {
      const auto& counters =
          reinterpret_cast<const typename Library::Entry*>(bytes.data())->counters;
      result.push_back({.packets = counters.pcnt, .bytes = counters.bcnt});
    });
    return result;
  }

  bool has_rules(const std::string& chain) const {
    return Library::first_rule(chain.c_str(), handle_.get()) != nullptr;
  }

  std::vector<std::string> chains() const {
    std::vector<std::string> result;
    for (const auto* name = Library::first_chain(handle_.get()); name != nullptr;
         name = Library::next_chain(handle_.get()))
      result.emplace_back(name);
    return result;
  }

  bool is_builtin(const std::string& chain) const {
    return Library::is_builtin(chain.c_str(), handle_.get()) != 0;
  }

  // The policy of a built-in chain.
  Verdict policy(const std::string& chain) const {
    xt_counters counters{};
    const auto* const name = Library::get_policy(chain.c_str(), &counters, handle_.get());
    return name != nullptr && std::string_view(name) == "DROP" ? Verdict::drop : Verdict::accept;
  }

  // Calls fn(index, target, entry) for each rule; `target` is "" for a rule without target.
  template <typename Fn>
  void for_each_rule(const std::string& chain, const Fn& fn) const {
    unsigned index = 0;
    for (const auto* entry = Library::first_rule(chain.c_str(), handle_.get()); entry != nullptr;
         entry = Library::next_rule(entry, handle_.get())) {
      const auto* const label = Library::get_target(entry, handle_.get());
      const std::span bytes(reinterpret_cast<const std::uint8_t*>(entry), entry->next_offset);
      fn(index++, std::string_view(label == nullptr ? "" : label), bytes);
    }
  }

  // Positions of the rules in built-in chains for which `wanted(target, comment)` is true, in
  // order.
  template <typename Wanted>
  std::vector<Position> base_jumps(const Wanted& wanted) const {
    std::vector<Position> result;
    for (const auto& chain : chains()) {
      if (!is_builtin(chain)) continue;
      for_each_rule(chain, [&](unsigned index, std::string_view target, auto bytes) {
        if (wanted(target, comment_of(Library::family, bytes))) result.push_back({chain, index});
      });
    }
    return result;
  }

  Status erase(const Position& rule) {
    if (Library::delete_num_entry(rule.chain.c_str(), rule.index, handle_.get()) != 0) return {};
    return library_error<Library>(table_, errno, "remove a rule of " + rule.chain);
  }

  Status flush(const std::string& chain) {
    if (Library::flush_entries(chain.c_str(), handle_.get()) != 0) return {};
    return library_error<Library>(table_, errno, "flush the chain " + chain);
  }

  // Whether a rule leads to the chain.
  Result<bool> is_used(const std::string& chain) const {
    unsigned references = 0;
    if (Library::get_references(&references, chain.c_str(), handle_.get()) != 0)
      return references > 0;
    return library_error<Library>(table_, errno, "look at the chain " + chain);
  }

  // False if a rule still leads to the chain.
  Result<bool> remove(const std::string& chain) {
    if (Library::delete_chain(chain.c_str(), handle_.get()) != 0) return true;
    if (errno == EMLINK) return false;  // libiptc.c, TC_DELETE_CHAIN
    return library_error<Library>(table_, errno, "remove the chain " + chain);
  }

  Status rename(const std::string& chain, const std::string& name) {
    if (Library::rename_chain(chain.c_str(), name.c_str(), handle_.get()) != 0) return {};
    return library_error<Library>(table_, errno, "rename the chain " + chain);
  }

  Status create(const std::string& chain) {
    if (Library::create_chain(chain.c_str(), handle_.get()) != 0) return {};
    return library_error<Library>(table_, errno, "create the chain " + chain);
  }

  Status rewrite(const Chain& chain, SetResolver& sets) {
    if (auto status = flush(chain.name); !status) return status;
    for (const auto& rule : chain.rules) {
      const auto bytes = encode(rule, sets);
      if (!bytes) return bytes.error();
      if (Library::append_entry(chain.name.c_str(), entry_of(*bytes), handle_.get()) == 0)
        return library_error<Library>(table_, errno, rule_text("append", chain.name, rule));
    }
    return {};
  }

  Status insert(const Position& where, const Rule& rule, SetResolver& sets) {
    const auto bytes = encode(rule, sets);
    if (!bytes) return bytes.error();
    if (Library::insert_entry(where.chain.c_str(), entry_of(*bytes), where.index, handle_.get()) !=
        0)
      return {};
    return library_error<Library>(table_, errno, rule_text("insert", where.chain, rule));
  }

  // The positive errno, 0 on success.
  int commit() { return Library::commit(handle_.get()) != 0 ? 0 : errno; }

 private:
  struct Free {
    void operator()(xtc_handle* handle) const { Library::free(handle); }
  };
  using Handle = std::unique_ptr<xtc_handle, Free>;

  Snapshot(Table table, Handle handle) : table_(table), handle_(std::move(handle)) {}

  static const typename Library::Entry* entry_of(const Bytes& bytes) {
    return reinterpret_cast<const typename Library::Entry*>(bytes.data());
  }

  static std::string rule_text(const char* verb, const std::string& chain, const Rule& rule) {
    return fmt::format("{} in {}: {}", verb, chain, to_string(rule, Library::family));
  }

  Result<Bytes> encode(const Rule& rule, SetResolver& sets) const {
    auto bytes = encode_rule(rule, Library::family, sets);
    if (!bytes) return in_table(Library::family, table_, bytes.error());
    return bytes;
  }

  Table table_;
  Handle handle_;
};

// Reads the table, lets `edit` change the snapshot, and commits if `edit` returns true. True if it
// was committed. `explain` adds details to a commit's error.
template <typename Library, typename Edit, typename Explain>
Result<bool> edit_table(Table table, const IptcSettings& settings, const Edit& edit,
                        const Explain& explain) {
  // A program that writes without the lock may come between our read and our commit. The kernel
  // then answers EAGAIN because the number of rules differs, and the table is read again.
  constexpr int kTries = 5;
  int error = EAGAIN;
  for (int attempt = 0; attempt < kTries && error == EAGAIN; ++attempt) {
    const auto lock = XtablesLock::acquire(settings.lock_path, settings.lock_wait);
    if (!lock) return in_table(Library::family, table, lock.error());
    auto snapshot = Snapshot<Library>::read(table, settings);
    if (!snapshot) return snapshot.error();
    auto changed = edit(*snapshot);
    if (!changed || !*changed || settings.dry_run) return changed;
    error = snapshot->commit();
    if (error == 0) return true;
  }
  auto failure = library_error<Library>(table, error, "commit");
  failure.where += explain(error);
  return failure;
}

template <typename Library>
Result<bool> apply_with(const TableRules& desired, const IptcSettings& settings) {
  return edit_table<Library>(
      desired.table, settings,
      [&](Snapshot<Library>& snapshot) {
        KernelSetResolver sets;
        return edit(snapshot, desired, sets);
      },
      [&](int error) {
        const bool lacks = error == ENOENT || error == EINVAL || error == EPROTONOSUPPORT;
        return lacks ? missing_extensions(desired) : "";
      });
}

template <typename Library>
Result<RemovedRules> remove_with(const RuleRemoval& removal, const IptcSettings& settings) {
  RemovedRules removed;
  if (!table_exists<Library>(removal.table)) return removed;
  const auto done = edit_table<Library>(
      removal.table, settings,
      [&](Snapshot<Library>& snapshot) { return take_out(snapshot, removal, removed); },
      [](int) { return ""; });
  if (!done) return done.error();
  return removed;
}

template <typename Library>
Result<bool> set_aside_with(const ChainMove& move, const RuleRemoval& surplus,
                            const IptcSettings& settings) {
  if (!table_exists<Library>(surplus.table)) return false;
  return edit_table<Library>(
      surplus.table, settings,
      [&](Snapshot<Library>& snapshot) {
        KernelSetResolver sets;
        return move_chain(snapshot, move, surplus, sets);
      },
      [](int) { return ""; });
}

template <typename Library>
Result<TableRules> list_with(const TableRules& wanted, const IptcSettings& settings) {
  if (settings.dry_run && !table_exists<Library>(wanted.table))
    return TableRules{.family = wanted.family, .table = wanted.table};
  const auto snapshot = Snapshot<Library>::read(wanted.table, settings);
  if (!snapshot) return snapshot.error();
  KernelSetResolver sets;
  return list_from(*snapshot, wanted, sets);
}

template <typename Library>
Result<std::optional<WholeTable>> read_with(Table table, std::size_t most,
                                            const IptcSettings& settings) {
  if (!table_exists<Library>(table)) return std::optional<WholeTable>();
  if (entries_of(Library::family, table) > most)
    return Error{
        ErrorKind::unsupported, E2BIG,
        fmt::format("{} has more than {} rules", table_name(Library::family, table), most)};
  const auto snapshot = Snapshot<Library>::read(table, settings);
  if (!snapshot) return snapshot.error();
  KernelSetResolver sets;
  WholeTable whole;
  for (const auto& chain : snapshot->chains()) {
    whole.chains.emplace(chain, snapshot->rules(chain, sets));
    const auto counts = snapshot->counts(chain);
    whole.counts[chain].assign(counts.begin(), counts.end());
    if (snapshot->is_builtin(chain)) whole.policies.emplace(chain, snapshot->policy(chain));
  }
  return std::optional(std::move(whole));
}

template <typename Library>
Status usable_with(const IptcSettings& settings) {
  // A dry run must not read a table that is absent: reading would create it.
  if (settings.dry_run && !table_exists<Library>(Table::nat)) return {};
  const auto snapshot = Snapshot<Library>::read(Table::nat, settings);
  if (!snapshot) return snapshot.error();
  if (snapshot->has_chain("POSTROUTING")) return {};
  return Error{.kind = ErrorKind::unsupported,
               .where = table_name(Library::family, Table::nat) + " has no chain POSTROUTING"};
}

}  // namespace

std::string missing_extensions(const TableRules& desired) {
  std::string result;
  for (const auto& extension : extensions_of(desired))
    if (lacks(desired.family, extension).value_or(false))
      result += fmt::format(" (the kernel has no {} {} of revision {}: module {})",
                            extension.is_target ? "target" : "match", extension.name,
                            extension.revision, module_of(desired.family, extension));
  return result;
}

Result<TableRules> IptcRuleTable::list(const TableRules& wanted) {
  return wanted.family == Family::ipv4 ? list_with<Ipv4>(wanted, settings_)
                                       : list_with<Ipv6>(wanted, settings_);
}

Result<bool> IptcRuleTable::apply(const TableRules& desired) {
  auto result = desired.family == Family::ipv4 ? apply_with<Ipv4>(desired, settings_)
                                               : apply_with<Ipv6>(desired, settings_);
  if (result && *result) ++commits_;
  return result;
}

Result<RemovedRules> IptcRuleTable::remove(const RuleRemoval& removal) {
  return removal.family == Family::ipv4 ? remove_with<Ipv4>(removal, settings_)
                                        : remove_with<Ipv6>(removal, settings_);
}

Result<bool> IptcRuleTable::set_aside(const ChainMove& move, const RuleRemoval& surplus) {
  return surplus.family == Family::ipv4 ? set_aside_with<Ipv4>(move, surplus, settings_)
                                        : set_aside_with<Ipv6>(move, surplus, settings_);
}

Result<std::optional<WholeTable>> IptcRuleTable::read(Family family, Table table,
                                                      std::size_t most) {
  return family == Family::ipv4 ? read_with<Ipv4>(table, most, settings_)
                                : read_with<Ipv6>(table, most, settings_);
}

Status IptcRuleTable::family_usable(Family family) {
  return family == Family::ipv4 ? usable_with<Ipv4>(settings_) : usable_with<Ipv6>(settings_);
}

}  // namespace ipvsproxier::ipset
