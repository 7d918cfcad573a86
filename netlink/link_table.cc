#include "netlink/link_table.h"

#include <fmt/format.h>

namespace ipvsproxier::netlink {

std::string to_string(const AddressOp& op) {
  return fmt::format("{} address {}/{}", op.add ? "add" : "delete", op.address.to_string(),
                     address_bits(op.address.family()));
}

}  // namespace ipvsproxier::netlink
