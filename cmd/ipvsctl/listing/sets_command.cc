#include "cmd/ipvsctl/listing/sets_command.h"

#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/names/element_owners.h"
#include "ipset/sets/set_libipset.h"

namespace ipvsproxier::ctl {

netlink::Status run_sets(const SetsOptions& options, const TextSink& sink) {
  const auto table = ipset::LibipsetTable::open();
  if (!table) return table.error();
  if (options.name.empty()) {
    const auto sets = list_sets(**table);
    if (!sets) return sets.error();
    return sink(sets_text(*sets, options.format));
  }
  const auto set = (*table)->list(options.name);
  if (!set) return set.error();
  if (!*set)
    return netlink::Error{netlink::ErrorKind::missing, 0,
                          "there is no set of the name " + options.name};
  // Names are read after the elements: an element of a new Service then has its owner.
  const auto key = our_set(options.name);
  const auto names = key && options.names ? names_if_known(options.socket) : std::nullopt;
  if (!names) return sink(elements_text(**set, options.format, nullptr));
  const ElementOwners owners(*key, *names);
  return sink(elements_text(**set, options.format, &owners));
}

}  // namespace ipvsproxier::ctl
