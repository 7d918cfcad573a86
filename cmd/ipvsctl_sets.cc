#include "cmd/ipvsctl_sets.h"

#include "ipset/set_libipset.h"

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
  return sink(inspect::elements_text(**set, options.format));
}

}  // namespace ipvsproxier::cmd
