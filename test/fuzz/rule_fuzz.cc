// Whatever an entry of the legacy tables holds, the decoder neither leaves it nor takes for ours
// what it could not write again. The first byte chooses the family, the others are the entry.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "ipset/rules/rule_codec.h"
#include "test/rule_bytes.h"

namespace ipvsproxier::ipset {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_entry(netlink::Family family, std::span<const std::uint8_t> bytes) {
  test::CatalogSets sets;
  const std::string label = "KUBE-SERVICES";
  const auto rule = decode_rule(family, bytes, label, sets);
  const auto encoded = encode_rule(rule, family, sets);
  if (std::holds_alternative<ForeignTarget>(rule.target)) {
    require(!encoded);
    return;
  }
  require(encoded.has_value());
  require(decode_rule(family, test::as_read(rule, family, *encoded), label, sets) == rule);
  require(!to_string(rule, family).empty());
}

}  // namespace
}  // namespace ipvsproxier::ipset

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ipvsproxier::netlink::Family;
  if (size == 0) return 0;
  ipvsproxier::ipset::read_entry(data[0] == 4 ? Family::ipv4 : Family::ipv6, {data + 1, size - 1});
  return 0;
}
