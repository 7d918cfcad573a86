#include "ipset/nftables/rule_expressions.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::NftBitwise;
using netlink::NftCompare;
using netlink::NftCt;
using netlink::NftExpression;
using netlink::NftFib;
using netlink::NftHeader;
using netlink::NftImmediate;
using netlink::NftLookup;
using netlink::NftMasquerade;
using netlink::NftMeta;
using netlink::NftNat;
using netlink::NftPayload;
using netlink::NftReject;
using netlink::NftVerdict;
using netlink::NftVerdictCode;

constexpr std::uint32_t kInterfaceName = 6;    // NFT_META_IIFNAME
constexpr std::uint32_t kInterfaceBytes = 16;  // IFNAMSIZ
constexpr std::uint32_t kPortOffset = 2;       // of the destination, in TCP, UDP and SCTP
constexpr std::uint32_t kLocalAddress = 2;     // RTN_LOCAL

netlink::Bytes in_machine_order(std::uint32_t number) {
  netlink::Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

netlink::Bytes mask_of(std::size_t bytes, unsigned length) {
  netlink::Bytes mask(bytes);
  for (unsigned bit = 0; bit < length; ++bit)
    mask[bit / 8] = static_cast<std::uint8_t>(mask[bit / 8] | 0x80U >> bit % 8);
  return mask;
}

// Appends the expressions of the parts of a rule.
// In place: gcc 12 takes what a moved variant does not hold for uninitialised, when it optimises.
void append_verdict(std::vector<NftExpression>& expressions, NftVerdictCode code,
                    std::string chain) {
  expressions.emplace_back(std::in_place_type<NftImmediate>);
  std::get<NftImmediate>(expressions.back())
      .data.emplace<NftVerdict>(NftVerdict{.code = code, .chain = std::move(chain)});
}

class Encoder {
 public:
  explicit Encoder(Family family) : family_(family) {}

  // False: a part has no expressions.
  bool add(const Rule& rule) {
    if (rule.source) add(*rule.source);
    if (rule.destination) compare_address(Direction::dst, *rule.destination, false);
    if (rule.in_interface) add(*rule.in_interface);
    if (rule.protocol) protocol_is(static_cast<std::uint8_t>(*rule.protocol));
    const auto add_match = [&](const Match& match) {
      return std::visit([&](const auto& one) { return add(one, rule); }, match);
    };
    return std::ranges::all_of(rule.matches, add_match) &&
           std::visit([&](const auto& target) { return act(target); }, rule.target);
  }

  void address_in(const SetMatch& match) {
    std::uint32_t word = 0;
    for (const auto direction : match.directions) {
      load_address(direction, word);
      word += address_bytes() / 4;
    }
    look_up(match);
  }

  std::vector<NftExpression> take() { return std::move(expressions_); }

 private:
  template <typename Expression>
  void put(Expression expression) {
    expressions_.emplace_back(std::move(expression));
  }

  std::uint32_t address_bytes() const { return netlink::address_bits(family_) / 8; }

  // Offsets in the headers of IPv4 and IPv6.
  void load_address(Direction direction, std::uint32_t word) {
    const bool is_source = direction == Direction::src;
    const auto offset = family_ == Family::ipv4 ? (is_source ? 12U : 16U) : (is_source ? 8U : 24U);
    put(NftPayload{.target = netlink::nft_register(word),
                   .header = NftHeader::network,
                   .offset = offset,
                   .size = address_bytes()});
  }
  void load_protocol(std::uint32_t word) {
    put(NftMeta{.key = NftMeta::kL4Protocol,
                .target = netlink::nft_register(word),
                .source = std::nullopt});
  }
  void load_transport(std::uint32_t word, std::uint32_t offset, std::uint32_t size) {
    put(NftPayload{.target = netlink::nft_register(word),
                   .header = NftHeader::transport,
                   .offset = offset,
                   .size = size});
  }
  void mask(netlink::Bytes with) {
    const auto size = static_cast<std::uint32_t>(with.size());
    const auto first = netlink::nft_register(0);
    put(NftBitwise{.source = first,
                   .target = first,
                   .size = size,
                   .mask = std::move(with),
                   .flip = netlink::Bytes(size)});
  }
  void compare(netlink::Bytes with, bool negated = false) {
    put(NftCompare{.source = netlink::nft_register(0),
                   .op = negated ? NftCompare::Op::not_equal : NftCompare::Op::equal,
                   .data = std::move(with)});
  }
  void look_up(const SetMatch& match) {
    put(NftLookup{.set = std::string(name_in_table(match.set)),
                  .source = netlink::nft_register(0),
                  .target = {},
                  .inverted = match.negated});
  }

  void compare_address(Direction direction, const netlink::IpPrefix& prefix, bool negated) {
    load_address(direction, 0);
    const auto bytes = prefix.address.bytes();
    if (prefix.length < netlink::address_bits(family_)) mask(mask_of(bytes.size(), prefix.length));
    compare(netlink::Bytes(bytes.begin(), bytes.end()), negated);
  }
  void add(const SourceMatch& match) {
    compare_address(Direction::src, match.prefix, match.negated);
  }
  void add(const InInterfaceMatch& match) {
    put(NftMeta{.key = kInterfaceName, .target = netlink::nft_register(0), .source = std::nullopt});
    netlink::Bytes name(match.name.begin(), match.name.end());
    if (!match.is_prefix) name.resize(kInterfaceBytes);
    compare(std::move(name), match.negated);
  }
  void protocol_is(std::uint8_t protocol) {
    load_protocol(0);
    compare({protocol});
  }

  bool add(const SetMatch& match, const Rule& rule) {
    if (asks_for_port(rule, match)) {
      load_transport(0, kPortOffset, 2);
      look_up(match);
    } else {
      address_in(match);
    }
    return true;
  }
  bool add(const MarkMatch& match, const Rule& /*rule*/) {
    put(NftMeta{.key = NftMeta::kMark, .target = netlink::nft_register(0), .source = std::nullopt});
    mask(in_machine_order(match.mask));
    compare(in_machine_order(match.value), match.negated);
    return true;
  }
  bool add(const ConntrackStateMatch& match, const Rule& /*rule*/) {
    put(NftCt{.key = NftCt::kState, .target = netlink::nft_register(0), .direction = {}});
    mask(in_machine_order((match.is_new ? netlink::nft_ct_state::kNew : 0) |
                          (match.related ? netlink::nft_ct_state::kRelated : 0) |
                          (match.established ? netlink::nft_ct_state::kEstablished : 0) |
                          (match.invalid ? netlink::nft_ct_state::kInvalid : 0)));
    compare(in_machine_order(0), true);
    return true;
  }
  bool add(const LocalAddressMatch& match, const Rule& /*rule*/) {
    put(NftFib{
        .target = netlink::nft_register(0),
        .result = NftFib::kAddressType,
        .flags = match.direction == Direction::src ? NftFib::kSource : NftFib::kDestination});
    compare(in_machine_order(kLocalAddress), match.negated);
    return true;
  }
  bool add(const EchoRequestMatch& /*match*/, const Rule& /*rule*/) {
    protocol_is(family_ == Family::ipv4 ? 1 : 58);
    load_transport(0, 0, 1);
    compare({static_cast<std::uint8_t>(family_ == Family::ipv4 ? 8 : 128)});
    return true;
  }
  bool add(const ConfirmedMatch& match, const Rule& /*rule*/) {
    put(NftCt{.key = NftCt::kStatus, .target = netlink::nft_register(0), .direction = {}});
    mask(in_machine_order(netlink::nft_ct_status::kConfirmed));
    compare(in_machine_order(netlink::nft_ct_status::kConfirmed), match.negated);
    return true;
  }
  bool add(const UntranslatedMatch& /*match*/, const Rule& /*rule*/) {
    put(NftCt{.key = NftCt::kStatus, .target = netlink::nft_register(0), .direction = {}});
    mask(in_machine_order(netlink::nft_ct_status::kDestinationTranslated));
    compare(in_machine_order(0));
    return true;
  }
  bool add(const OutsideMatch& match, const Rule& /*rule*/) {
    for (const auto& prefix : match.prefixes) add(SourceMatch{.prefix = prefix, .negated = true});
    return true;
  }
  bool add(const BridgePortInMatch& /*match*/, const Rule& /*rule*/) { return false; }
  bool add(const IpvsMatch& /*match*/, const Rule& /*rule*/) { return false; }
  bool add(const DestinationPortMatch& match, const Rule& /*rule*/) {
    if (match.first != match.last) return false;
    load_transport(0, kPortOffset, 2);
    compare({static_cast<std::uint8_t>(match.first >> 8U),
             static_cast<std::uint8_t>(match.first & 0xffU)});
    return true;
  }

  void decide(NftVerdictCode code, std::string chain = {}) {
    append_verdict(expressions_, code, std::move(chain));
  }
  bool act(Verdict verdict) {
    switch (verdict) {
      case Verdict::accept:
        decide(NftVerdictCode::accept);
        break;
      case Verdict::drop:
        decide(NftVerdictCode::drop);
        break;
      case Verdict::return_:
        decide(NftVerdictCode::give_back);
        break;
    }
    return true;
  }
  bool act(const JumpTarget& target) {
    decide(NftVerdictCode::jump, target.chain);
    return true;
  }
  // As with iptables: the bits of the mask are cleared, then those of the value are flipped.
  bool act(const MarkTarget& target) {
    const auto first = netlink::nft_register(0);
    put(NftMeta{.key = NftMeta::kMark, .target = first, .source = std::nullopt});
    put(NftBitwise{.source = first,
                   .target = first,
                   .size = 4,
                   .mask = in_machine_order(~target.mask),
                   .flip = in_machine_order(target.value)});
    put(NftMeta{.key = NftMeta::kMark, .target = std::nullopt, .source = first});
    return true;
  }
  bool act(const MasqueradeTarget& target) {
    if (target.clears != 0) act(MarkTarget{.value = 0, .mask = target.clears});
    put(NftMasquerade{.flags = target.random_fully ? netlink::kNftFullyRandom : 0});
    return true;
  }
  bool act(const RejectTarget& /*target*/) {
    // Port unreachable, of ICMP and of ICMPv6.
    put(NftReject{.type = NftReject::kIcmp,
                  .code = static_cast<std::uint8_t>(family_ == Family::ipv4 ? 3 : 4)});
    return true;
  }
  void look_up_service(const std::string& map, std::uint32_t target) {
    const auto words = address_bytes() / 4;
    load_address(Direction::dst, 0);
    load_protocol(words);
    load_transport(words + 1, kPortOffset, 2);
    put(NftLookup{.set = std::string(name_in_table(map)),
                  .source = netlink::nft_register(0),
                  .target = target});
  }
  netlink::NftFamily nat_family() const {
    return family_ == Family::ipv4 ? netlink::NftFamily::ip : netlink::NftFamily::ip6;
  }
  bool act(const VerdictMapTarget& target) {
    look_up_service(target.map, netlink::kNftVerdictRegister);
    return true;
  }
  bool act(const DestinationMapTarget& target) {
    look_up_service(target.map, netlink::nft_register(0));
    put_nat(true, netlink::nft_register(address_bytes() / 4));
    return true;
  }
  bool act(const KeepDestinationTarget& /*target*/) {
    load_address(Direction::dst, 0);
    put_nat(true);
    return true;
  }
  // To the address in register 0.
  void put_nat(bool destination, std::optional<std::uint32_t> port = {}) {
    put(NftNat{.destination = destination,
               .family = nat_family(),
               .address = netlink::nft_register(0),
               .address_end = {},
               .port = port,
               .port_end = {}});
  }
  bool translate(bool destination, const netlink::IpAddress& to) {
    const auto bytes = to.bytes();
    expressions_.emplace_back(std::in_place_type<NftImmediate>);
    auto& immediate = std::get<NftImmediate>(expressions_.back());
    immediate.target = netlink::nft_register(0);
    immediate.data.emplace<netlink::Bytes>(bytes.begin(), bytes.end());
    put_nat(destination);
    return to.family() == family_;
  }
  bool act(const DestinationTarget& target) {
    return target.port == 0 && translate(true, target.address);
  }
  bool act(const SourceTarget& target) { return translate(false, target.address); }
  bool act(const UnacceleratedTarget& /*target*/) {
    put(netlink::NftObjectRef{.type = netlink::NftObjectRef::kExpectation,
                              .object = std::string(kUnaccelerated)});
    return true;
  }
  bool act(const ForeignTarget& /*target*/) { return false; }

  Family family_;
  std::vector<NftExpression> expressions_;
};

}  // namespace

std::vector<NftExpression> expressions_of(const Rule& rule, Family family) {
  Encoder encoder(family);
  if (!encoder.add(rule)) return {};
  return encoder.take();
}

}  // namespace ipvsproxier::ipset
