#include "netlink/nftables/nftables_types.h"

#include <string_view>

#include <fmt/format.h>

namespace ipvsproxier::netlink {

namespace {

std::string nft_family_name(NftFamily family) {
  switch (family) {
    case NftFamily::inet:
      return "inet";
    case NftFamily::ip:
      return "ip";
    case NftFamily::ip6:
      return "ip6";
    case NftFamily::netdev:
      return "netdev";
    case NftFamily::bridge:
      return "bridge";
    case NftFamily::unspecified:
      break;
  }
  return fmt::format("family {}", static_cast<int>(family));
}

struct OpText {
  static std::string on(std::string_view verb, const NftTableKey& table, std::string_view what) {
    return fmt::format("{} {} {}", verb, to_string(table), what);
  }
  static std::string elements(std::string_view verb, std::size_t count, std::string_view relation,
                              const NftTableKey& table, std::string_view set) {
    return fmt::format("{} {} element{} {} {} {}", verb, count, count == 1 ? "" : "s", relation,
                       to_string(table), set);
  }

  std::string operator()(const NftAddTable& op) const { return "add table " + to_string(op.table); }
  std::string operator()(const NftDeleteTable& op) const {
    return "delete table " + to_string(op.table);
  }
  std::string operator()(const NftAddChain& op) const {
    return on("add chain", op.table, op.chain.name);
  }
  std::string operator()(const NftFlushChain& op) const {
    return on("flush chain", op.table, op.chain);
  }
  std::string operator()(const NftDeleteChain& op) const {
    return on("delete chain", op.table, op.chain);
  }
  std::string operator()(const NftAddSet& op) const { return on("add set", op.table, op.set.name); }
  std::string operator()(const NftDeleteSet& op) const {
    return on("delete set", op.table, op.set);
  }
  std::string operator()(const NftAddElements& op) const {
    return elements("add", op.elements.size(), "to", op.table, op.set);
  }
  std::string operator()(const NftDeleteElements& op) const {
    return elements("delete", op.elements.size(), "from", op.table, op.set);
  }
  std::string operator()(const NftFlushSet& op) const { return on("flush set", op.table, op.set); }
  std::string operator()(const NftAddRule& op) const {
    return on("add a rule to", op.table, op.rule.chain);
  }
  std::string operator()(const NftDeleteRule& op) const {
    return fmt::format("delete rule {} from {} {}", op.handle, to_string(op.table), op.chain);
  }
  std::string operator()(const NftAddExpectation& op) const {
    return on("add ct expectation", op.table, op.expectation.name);
  }
  std::string operator()(const NftDeleteExpectation& op) const {
    return on("delete ct expectation", op.table, op.expectation);
  }
};

}  // namespace

void append_nft_part(Bytes& key, ByteView part) {
  key.insert(key.end(), part.begin(), part.end());
  key.resize(netlink_align(key.size()));
}

const NftTableKey& table_of(const NftOp& op) {
  return std::visit([](const auto& one) -> const NftTableKey& { return one.table; }, op);
}

std::string to_string(const NftTableKey& table) {
  return nft_family_name(table.family) + " " + table.name;
}

std::string to_string(const NftOp& op) {
  return std::visit(OpText{}, op);
}

}  // namespace ipvsproxier::netlink
