#include "ipset/rule_iptc.h"

#include <netinet/in.h>
#include <sys/socket.h>

extern "C" {
#include <libiptc/libip6tc.h>
#include <libiptc/libiptc.h>
}

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "ipset/rule_codec.h"
#include "ipset/set_resolver.h"
#include "ipset/xtables_lock.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::make_error;
using netlink::Operation;

// The two libraries have the same calls under other names.
struct Ipv4 {
  using Entry = ipt_entry;
  static constexpr Family family = Family::ipv4;
  static constexpr const char* module = "ip_tables";
  static constexpr auto init = iptc_init;
  static constexpr auto free = iptc_free;
  static constexpr auto is_chain = iptc_is_chain;
  static constexpr auto first_rule = iptc_first_rule;
  static constexpr auto next_rule = iptc_next_rule;
  static constexpr auto get_target = iptc_get_target;
  static constexpr auto create_chain = iptc_create_chain;
  static constexpr auto flush_entries = iptc_flush_entries;
  static constexpr auto append_entry = iptc_append_entry;
  static constexpr auto insert_entry = iptc_insert_entry;
  static constexpr auto commit = iptc_commit;
  static constexpr auto error_text = iptc_strerror;
};

struct Ipv6 {
  using Entry = ip6t_entry;
  static constexpr Family family = Family::ipv6;
  static constexpr const char* module = "ip6_tables";
  static constexpr auto init = ip6tc_init;
  static constexpr auto free = ip6tc_free;
  static constexpr auto is_chain = ip6tc_is_chain;
  static constexpr auto first_rule = ip6tc_first_rule;
  static constexpr auto next_rule = ip6tc_next_rule;
  static constexpr auto get_target = ip6tc_get_target;
  static constexpr auto create_chain = ip6tc_create_chain;
  static constexpr auto flush_entries = ip6tc_flush_entries;
  static constexpr auto append_entry = ip6tc_append_entry;
  static constexpr auto insert_entry = ip6tc_insert_entry;
  static constexpr auto commit = ip6tc_commit;
  static constexpr auto error_text = ip6tc_strerror;
};

// The kernel's extension of this name and revision, loaded if need be; true if it has none.
bool lacks(Family family, const ExtensionName& extension) {
  const bool v4 = family == Family::ipv4;
  const netlink::UniqueFd fd(
      ::socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!fd) return false;
  xt_get_revision request{};
  extension.name.copy(request.name, sizeof request.name - 1);
  request.revision = extension.revision;
  socklen_t size = sizeof request;
  const int option =
      v4 ? (extension.is_target ? IPT_SO_GET_REVISION_TARGET : IPT_SO_GET_REVISION_MATCH)
         : (extension.is_target ? IP6T_SO_GET_REVISION_TARGET : IP6T_SO_GET_REVISION_MATCH);
  if (::getsockopt(fd.get(), v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, option, &request, &size) ==
      0)
    return false;
  return errno == ENOENT || errno == EPROTONOSUPPORT;
}

std::string module_of(Family family, const ExtensionName& extension) {
  if (extension.name == "REJECT") return family == Family::ipv4 ? "ipt_REJECT" : "ip6t_REJECT";
  return "xt_" + extension.name;
}

// " (the kernel has no match set, module xt_set)" for each extension that is needed and missing.
std::string missing_extensions(const TableRules& desired) {
  std::set<ExtensionName> needed;
  for (const auto& chain : desired.chains)
    for (const auto& rule : chain.rules)
      for (auto& extension : extensions_of(rule, desired.family))
        needed.insert(std::move(extension));
  for (const auto& jump : desired.jumps)
    for (auto& extension : extensions_of(jump.rule, desired.family))
      needed.insert(std::move(extension));
  std::string result;
  for (const auto& extension : needed)
    if (lacks(desired.family, extension))
      result += fmt::format(" (the kernel has no {} {} of revision {}: module {})",
                            extension.is_target ? "target" : "match", extension.name,
                            extension.revision, module_of(desired.family, extension));
  return result;
}

std::string table_name(Family family, Table table) {
  return fmt::format("{} table {}", to_string(family), to_string(table));
}

Error in_table(Family family, Table table, Error error) {
  error.where = fmt::format("{}: {}", table_name(family, table), error.where);
  return error;
}

// An error of libiptc itself; it explains some errnos by what was called last.
template <typename Library>
Error library_error(Table table, int sys_errno, const std::string& what) {
  std::string where = fmt::format("{}: {}", table_name(Library::family, table), what);
  if (sys_errno == EPERM || sys_errno == EACCES)
    where += ": CAP_NET_ADMIN and CAP_NET_RAW are needed";
  else
    where += fmt::format(": {}", Library::error_text(sys_errno));
  return make_error(Operation::rule, sys_errno, std::move(where));
}

// One snapshot of a table, edited in memory until it is committed.
template <typename Library>
class Snapshot {
 public:
  static Result<Snapshot> read(Table table, const IptcSettings& settings) {
    const std::string name(to_string(table));
    Handle handle(Library::init(name.c_str()));
    // nf_getsockopt() answers ENOPROTOOPT while nobody has registered the option.
    if (!handle && errno == ENOPROTOOPT && settings.load_module) {
      settings.load_module(Library::module);
      handle.reset(Library::init(name.c_str()));
    }
    if (handle) return Snapshot(table, std::move(handle));
    const int error = errno;
    if (error == ENOPROTOOPT)
      return make_error(Operation::rule, error,
                        fmt::format("{}: the kernel has no legacy tables: module {}",
                                    table_name(Library::family, table), Library::module));
    return library_error<Library>(table, error, "read");
  }

  bool has_chain(const std::string& chain) const {
    return Library::is_chain(chain.c_str(), handle_.get()) != 0;
  }

  std::vector<Rule> rules(const std::string& chain, SetResolver& sets) const {
    std::vector<Rule> result;
    for (const auto* entry = Library::first_rule(chain.c_str(), handle_.get()); entry != nullptr;
         entry = Library::next_rule(entry, handle_.get())) {
      const auto* const label = Library::get_target(entry, handle_.get());
      const std::span bytes(reinterpret_cast<const std::uint8_t*>(entry), entry->next_offset);
      result.push_back(decode_rule(Library::family, bytes, label == nullptr ? "" : label, sets));
    }
    return result;
  }

  Status create(const std::string& chain) {
    if (Library::create_chain(chain.c_str(), handle_.get()) != 0) return {};
    return library_error<Library>(table_, errno, "create the chain " + chain);
  }

  Status rewrite(const Chain& chain, SetResolver& sets) {
    if (Library::flush_entries(chain.name.c_str(), handle_.get()) == 0)
      return library_error<Library>(table_, errno, "flush the chain " + chain.name);
    for (const auto& rule : chain.rules) {
      const auto bytes = encode(rule, sets);
      if (!bytes) return bytes.error();
      if (Library::append_entry(chain.name.c_str(), entry_of(*bytes), handle_.get()) == 0)
        return library_error<Library>(table_, errno, rule_text("append", chain.name, rule));
    }
    return {};
  }

  Status insert_first(const BaseJump& jump, SetResolver& sets) {
    const auto bytes = encode(jump.rule, sets);
    if (!bytes) return bytes.error();
    if (Library::insert_entry(jump.from.c_str(), entry_of(*bytes), 0, handle_.get()) != 0)
      return {};
    return library_error<Library>(table_, errno, rule_text("insert", jump.from, jump.rule));
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

template <typename Library>
TableRules list_from(const Snapshot<Library>& snapshot, const TableRules& wanted,
                     SetResolver& sets) {
  TableRules result{.family = wanted.family, .table = wanted.table};
  for (const auto& chain : wanted.chains)
    if (snapshot.has_chain(chain.name))
      result.chains.push_back(Chain{.name = chain.name, .rules = snapshot.rules(chain.name, sets)});
  for (const auto& jump : wanted.jumps) {
    const auto rules = snapshot.rules(jump.from, sets);
    if (std::find(rules.begin(), rules.end(), jump.rule) != rules.end())
      result.jumps.push_back(jump);
  }
  return result;
}

// Changes the snapshot until it holds what is desired; true if anything had to be changed.
template <typename Library>
Result<bool> edit(Snapshot<Library>& snapshot, const TableRules& desired, SetResolver& sets) {
  const auto actual = list_from(snapshot, desired, sets);
  if (holds(actual, desired)) return false;
  // All chains first: rules lead to chains that may come later.
  for (const auto& chain : desired.chains)
    if (!snapshot.has_chain(chain.name))
      if (auto status = snapshot.create(chain.name); !status) return status.error();
  for (const auto& chain : desired.chains) {
    const auto found = std::find_if(actual.chains.begin(), actual.chains.end(),
                                    [&](const Chain& other) { return other.name == chain.name; });
    if (found != actual.chains.end() && same_rules(*found, chain)) continue;
    if (auto status = snapshot.rewrite(chain, sets); !status) return status.error();
  }
  for (const auto& jump : desired.jumps) {
    if (std::find(actual.jumps.begin(), actual.jumps.end(), jump) != actual.jumps.end()) continue;
    if (auto status = snapshot.insert_first(jump, sets); !status) return status.error();
  }
  return true;
}

template <typename Library>
Result<bool> apply_with(const TableRules& desired, const IptcSettings& settings) {
  // A writer without the lock may come between our read and our commit: then the kernel, which
  // compares the number of rules, says EAGAIN and what we read is old.
  constexpr int kTries = 5;
  int error = EAGAIN;
  for (int attempt = 0; attempt < kTries && error == EAGAIN; ++attempt) {
    const auto lock = XtablesLock::acquire(settings.lock_path, settings.lock_wait);
    if (!lock) return in_table(desired.family, desired.table, lock.error());
    auto snapshot = Snapshot<Library>::read(desired.table, settings);
    if (!snapshot) return snapshot.error();
    KernelSetResolver sets;
    auto changed = edit(*snapshot, desired, sets);
    if (!changed || !*changed) return changed;
    error = snapshot->commit();
    if (error == 0) return true;
  }
  auto failure = library_error<Library>(desired.table, error, "commit");
  if (error == ENOENT || error == EINVAL || error == EPROTONOSUPPORT)
    failure.where += missing_extensions(desired);
  return failure;
}

template <typename Library>
Result<TableRules> list_with(const TableRules& wanted, const IptcSettings& settings) {
  const auto snapshot = Snapshot<Library>::read(wanted.table, settings);
  if (!snapshot) return snapshot.error();
  KernelSetResolver sets;
  return list_from(*snapshot, wanted, sets);
}

template <typename Library>
Status usable_with(const IptcSettings& settings) {
  const auto snapshot = Snapshot<Library>::read(Table::nat, settings);
  if (!snapshot) return snapshot.error();
  if (snapshot->has_chain("POSTROUTING")) return {};
  return Error{.kind = ErrorKind::unsupported,
               .where = table_name(Library::family, Table::nat) + " has no chain POSTROUTING"};
}

}  // namespace

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

Status IptcRuleTable::family_usable(Family family) {
  return family == Family::ipv4 ? usable_with<Ipv4>(settings_) : usable_with<Ipv6>(settings_);
}

}  // namespace ipvsproxier::ipset
