#include "netlink/link_table.h"

#include <fmt/format.h>

namespace ipvsproxier::netlink {

void LinkEvents::merge(LinkEvents later) {
  link_lost = link_lost || later.link_lost;
  lost.merge(later.lost);
  others_changed = others_changed || later.others_changed;
  overrun = overrun || later.overrun;
}

std::string to_string(const AddressOp& op) {
  return fmt::format("{} address {}/{}", op.add ? "add" : "delete", op.address.to_string(),
                     address_bits(op.address.family()));
}

}  // namespace ipvsproxier::netlink
