#include "cmd/ipvsctl_sets.h"

#include "cmd/daemon_names.h"
#include "ipset/set_libipset.h"
#include "proxier/inspect/element_owners.h"

namespace ipvsproxier::cmd {

netlink::Status run_sets(const SetsOptions& options, const inspect::TextSink& sink) {
  const auto table = ipset::LibipsetTable::open();
  if (!table) return table.error();
  if (options.name.empty()) {
    const auto sets = inspect::list_sets(**table);
    if (!sets) return sets.error();
    return sink(inspect::sets_text(*sets, options.format));
  }
  const auto set = (*table)->list(options.name);
  if (!set) return set.error();
  if (!*set)
    return netlink::Error{netlink::ErrorKind::missing, 0,
                          "there is no set of the name " + options.name};
  // Names are read after the elements: an element of a new Service then has its owner.
  const auto key = inspect::our_set(options.name);
  const auto names = key && options.names ? names_if_known(options.socket) : std::nullopt;
  if (!names) return sink(inspect::elements_text(**set, options.format, nullptr));
  const inspect::ElementOwners owners(*key, *names);
  return sink(inspect::elements_text(**set, options.format, &owners));
}

}  // namespace ipvsproxier::cmd
