#include "netlink/nftables/nftables_expressions.h"

#include <linux/netfilter/nf_tables.h>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace ipvsproxier::netlink {

namespace {

// NF_NAT_RANGE_MAP_IPS and NF_NAT_RANGE_PROTO_SPECIFIED, which nft_nat.c and nft_redir.c set for
// the registers that are there, whether they were asked for or not.
constexpr std::uint32_t kFlagsOfRegisters = 0x3;
constexpr std::uint16_t kAnyFieldSize = 0xffff;

constexpr std::array kNftDataPolicy = {
    AttrRule{NFTA_DATA_VALUE, AttrKind::bytes, 0, NFT_DATA_VALUE_MAXLEN},
    AttrRule{NFTA_DATA_VERDICT, AttrKind::nested},
};
constexpr std::array kNftVerdictPolicy = {
    AttrRule{NFTA_VERDICT_CODE, AttrKind::u32},
    AttrRule{NFTA_VERDICT_CHAIN, AttrKind::string, 0, NFT_NAME_MAXLEN},
};
constexpr std::array kNftExpressionPolicy = {
    AttrRule{NFTA_EXPR_NAME, AttrKind::string, 0, NFT_NAME_MAXLEN},
    AttrRule{NFTA_EXPR_DATA, AttrKind::nested},
};
// The attributes of all expressions: what each means its description below says.
constexpr std::array kExpressionFieldPolicy = {
    AttrRule{1, AttrKind::bytes, 0, kAnyFieldSize}, AttrRule{2, AttrKind::bytes, 0, kAnyFieldSize},
    AttrRule{3, AttrKind::bytes, 0, kAnyFieldSize}, AttrRule{4, AttrKind::bytes, 0, kAnyFieldSize},
    AttrRule{5, AttrKind::bytes, 0, kAnyFieldSize}, AttrRule{6, AttrKind::bytes, 0, kAnyFieldSize},
    AttrRule{7, AttrKind::bytes, 0, kAnyFieldSize}, AttrRule{8, AttrKind::bytes, 0, kAnyFieldSize},
};

std::uint64_t from_big_endian(ByteView bytes) {
  std::uint64_t number = 0;
  for (const auto byte : bytes) number = number << 8 | byte;
  return number;
}

// Writes the fields of an expression. FieldWriter and FieldReader have the same functions, so that
// one description of an expression serves both.
class FieldWriter {
 public:
  explicit FieldWriter(MessageWriter& out) : out_(out) {}

  template <typename T>
  void number(std::uint16_t type, T& value) {
    out_.put_be32(type, static_cast<std::uint32_t>(value));
  }
  void small(std::uint16_t type, std::uint8_t& value) { out_.put_u8(type, value); }
  void large(std::uint16_t type, std::uint64_t& value) {
    if (value != 0) out_.put_be64(type, value);
  }
  void maybe(std::uint16_t type, std::optional<std::uint32_t>& value) {
    if (value) out_.put_be32(type, *value);
  }
  void maybe_small(std::uint16_t type, std::optional<std::uint8_t>& value) {
    if (value) out_.put_u8(type, *value);
  }
  // A number that is 0 if it is absent; `ignored`: bits that are left out.
  void flags(std::uint16_t type, std::uint32_t& value, std::uint32_t /*ignored*/ = 0) {
    if (value != 0) out_.put_be32(type, value);
  }
  // The last of a range, which is its first if it is absent.
  void last(std::uint16_t type, std::optional<std::uint32_t>& value,
            const std::optional<std::uint32_t>& /*first*/) {
    maybe(type, value);
  }
  void text(std::uint16_t type, std::string& value) { out_.put_string(type, value); }
  void data(std::uint16_t type, NftData& value) { put_nft_data(out_, type, value); }
  void bytes(std::uint16_t type, Bytes& value) { put_nft_data(out_, type, NftData(value)); }
  void never(std::uint16_t /*type*/) {}
  void only(std::uint16_t /*type*/, std::uint32_t /*value*/) {}

 private:
  MessageWriter& out_;
};

// Reads them; ok() is false if they are not what our expressions have.
class FieldReader {
 public:
  explicit FieldReader(const AttrReader& in) : in_(in) {}
  bool ok() const { return ok_; }

  template <typename T>
  void number(std::uint16_t type, T& value) {
    value = static_cast<T>(take(type, 4, true).value_or(0));
  }
  void small(std::uint16_t type, std::uint8_t& value) {
    value = static_cast<std::uint8_t>(take(type, 1, false).value_or(0));
  }
  void large(std::uint16_t type, std::uint64_t& value) { value = take(type, 8, false).value_or(0); }
  void maybe(std::uint16_t type, std::optional<std::uint32_t>& value) {
    if (const auto number = take(type, 4, false)) value = static_cast<std::uint32_t>(*number);
  }
  void maybe_small(std::uint16_t type, std::optional<std::uint8_t>& value) {
    if (const auto number = take(type, 1, false)) value = static_cast<std::uint8_t>(*number);
  }
  void flags(std::uint16_t type, std::uint32_t& value, std::uint32_t ignored = 0) {
    value = static_cast<std::uint32_t>(take(type, 4, false).value_or(0)) & ~ignored;
  }
  void last(std::uint16_t type, std::optional<std::uint32_t>& value,
            const std::optional<std::uint32_t>& first) {
    maybe(type, value);
    if (value == first) value.reset();
  }
  void text(std::uint16_t type, std::string& value) {
    const auto bytes = in_.bytes(type);
    ok_ = ok_ && bytes && !bytes->empty() && bytes->back() == 0;
    if (!ok_) return;
    value.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size() - 1);
    ok_ = value.find('\0') == std::string::npos;
  }
  void data(std::uint16_t type, NftData& value) {
    const auto nest = in_.bytes(type);
    auto read = nest ? decode_nft_data(*nest) : Result<NftData>(malformed("no data"));
    ok_ = ok_ && read;
    if (read) value = *std::move(read);
  }
  void bytes(std::uint16_t type, Bytes& value) {
    NftData all;
    data(type, all);
    auto* const plain = std::get_if<Bytes>(&all);
    ok_ = ok_ && plain != nullptr;
    if (plain != nullptr) value = std::move(*plain);
  }
  // An attribute that makes it another expression.
  void never(std::uint16_t type) { ok_ = ok_ && !in_.has(type); }
  // An attribute that makes it another expression unless it has this value.
  void only(std::uint16_t type, std::uint32_t value) {
    ok_ = ok_ && take(type, 4, false).value_or(value) == value;
  }

 private:
  std::optional<std::uint64_t> take(std::uint16_t type, std::size_t size, bool needed) {
    const auto bytes = in_.bytes(type);
    if (bytes && bytes->size() == size) return from_big_endian(*bytes);
    ok_ = ok_ && !bytes && !needed;
    return std::nullopt;
  }

  const AttrReader& in_;
  bool ok_ = true;
};

template <typename Fields>
void describe(Fields& fields, NftPayload& one) {
  fields.number(NFTA_PAYLOAD_DREG, one.target);
  fields.number(NFTA_PAYLOAD_BASE, one.header);
  fields.number(NFTA_PAYLOAD_OFFSET, one.offset);
  fields.number(NFTA_PAYLOAD_LEN, one.size);
  fields.never(NFTA_PAYLOAD_SREG);
}

template <typename Fields>
void describe(Fields& fields, NftMeta& one) {
  fields.number(NFTA_META_KEY, one.key);
  fields.maybe(NFTA_META_DREG, one.target);
  fields.maybe(NFTA_META_SREG, one.source);
}

template <typename Fields>
void describe(Fields& fields, NftCt& one) {
  fields.number(NFTA_CT_KEY, one.key);
  fields.number(NFTA_CT_DREG, one.target);
  fields.maybe_small(NFTA_CT_DIRECTION, one.direction);
  fields.never(NFTA_CT_SREG);
}

template <typename Fields>
void describe(Fields& fields, NftLookup& one) {
  std::uint32_t flags = one.inverted ? NFT_LOOKUP_F_INV : 0;
  fields.number(NFTA_LOOKUP_SREG, one.source);
  fields.maybe(NFTA_LOOKUP_DREG, one.target);
  fields.text(NFTA_LOOKUP_SET, one.set);
  fields.flags(NFTA_LOOKUP_FLAGS, flags);
  one.inverted = (flags & NFT_LOOKUP_F_INV) != 0;
}

template <typename Fields>
void describe(Fields& fields, NftImmediate& one) {
  fields.number(NFTA_IMMEDIATE_DREG, one.target);
  fields.data(NFTA_IMMEDIATE_DATA, one.data);
}

template <typename Fields>
void describe(Fields& fields, NftBitwise& one) {
  fields.number(NFTA_BITWISE_SREG, one.source);
  fields.number(NFTA_BITWISE_DREG, one.target);
  fields.number(NFTA_BITWISE_LEN, one.size);
  fields.bytes(NFTA_BITWISE_MASK, one.mask);
  fields.bytes(NFTA_BITWISE_XOR, one.flip);
  fields.only(NFTA_BITWISE_OP, NFT_BITWISE_BOOL);
}

template <typename Fields>
void describe(Fields& fields, NftCompare& one) {
  fields.number(NFTA_CMP_SREG, one.source);
  fields.number(NFTA_CMP_OP, one.op);
  fields.bytes(NFTA_CMP_DATA, one.data);
}

template <typename Fields>
void describe(Fields& fields, NftFib& one) {
  fields.number(NFTA_FIB_FLAGS, one.flags);
  fields.number(NFTA_FIB_RESULT, one.result);
  fields.number(NFTA_FIB_DREG, one.target);
}

template <typename Fields>
void describe(Fields& fields, NftCounter& one) {
  fields.large(NFTA_COUNTER_BYTES, one.bytes);
  fields.large(NFTA_COUNTER_PACKETS, one.packets);
}

template <typename Fields>
void describe(Fields& fields, NftMasquerade& one) {
  fields.flags(NFTA_MASQ_FLAGS, one.flags);
  fields.never(NFTA_MASQ_REG_PROTO_MIN);
  fields.never(NFTA_MASQ_REG_PROTO_MAX);
}

template <typename Fields>
void describe(Fields& fields, NftNat& one) {
  std::uint32_t type = one.destination ? NFT_NAT_DNAT : NFT_NAT_SNAT;
  auto family = static_cast<std::uint32_t>(one.family);
  fields.number(NFTA_NAT_TYPE, type);
  fields.number(NFTA_NAT_FAMILY, family);
  one.destination = type == NFT_NAT_DNAT;
  one.family = static_cast<NftFamily>(family);
  fields.maybe(NFTA_NAT_REG_ADDR_MIN, one.address);
  fields.last(NFTA_NAT_REG_ADDR_MAX, one.address_end, one.address);
  fields.maybe(NFTA_NAT_REG_PROTO_MIN, one.port);
  fields.last(NFTA_NAT_REG_PROTO_MAX, one.port_end, one.port);
  fields.flags(NFTA_NAT_FLAGS, one.flags, kFlagsOfRegisters);
}

template <typename Fields>
void describe(Fields& fields, NftRedirect& one) {
  fields.maybe(NFTA_REDIR_REG_PROTO_MIN, one.port);
  fields.last(NFTA_REDIR_REG_PROTO_MAX, one.port_end, one.port);
  fields.flags(NFTA_REDIR_FLAGS, one.flags, kFlagsOfRegisters);
}

template <typename Fields>
void describe(Fields& fields, NftReject& one) {
  fields.number(NFTA_REJECT_TYPE, one.type);
  // Of a reset the kernel lists none.
  fields.small(NFTA_REJECT_ICMP_CODE, one.code);
}

template <typename Fields>
void describe(Fields& fields, NftObjectRef& one) {
  fields.number(NFTA_OBJREF_IMM_TYPE, one.type);
  fields.text(NFTA_OBJREF_IMM_NAME, one.object);
  fields.never(NFTA_OBJREF_SET_SREG);
}

void put_expression(MessageWriter& out, NftExpression expression) {
  const auto element = out.nest(NFTA_LIST_ELEM);
  std::visit(
      [&](auto& one) {
        using One = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<One, NftOtherExpression>) {
          out.put_string(NFTA_EXPR_NAME, one.name);
          out.put_bytes(NFTA_EXPR_DATA, one.data);
        } else {
          out.put_string(NFTA_EXPR_NAME, One::kName);
          const auto data = out.nest(NFTA_EXPR_DATA);
          FieldWriter fields(out);
          describe(fields, one);
        }
      },
      expression);
}

// The expression as one of the first `Last` alternatives of NftExpression, by its name.
template <std::size_t Index = 0>
std::optional<NftExpression> read_known(std::string_view name, const AttrReader& in) {
  using One = std::variant_alternative_t<Index, NftExpression>;
  if constexpr (std::is_same_v<One, NftOtherExpression>) {
    return std::nullopt;
  } else {
    if (name != One::kName) return read_known<Index + 1>(name, in);
    One one;
    FieldReader fields(in);
    describe(fields, one);
    if (!fields.ok()) return std::nullopt;
    return NftExpression(std::move(one));
  }
}

Result<NftExpression> decode_expression(ByteView element) {
  const auto in = AttrReader::parse(element, kNftExpressionPolicy);
  if (!in) return in.error();
  const auto name = in->string(NFTA_EXPR_NAME);
  if (!name) return malformed("an expression without a name");
  const auto data = in->nested(NFTA_EXPR_DATA).value_or(ByteView());
  const auto fields = AttrReader::parse(data, kExpressionFieldPolicy);
  if (!fields) return fields.error();
  if (auto known = read_known(*name, *fields)) return *std::move(known);
  return NftExpression(NftOtherExpression{std::string(*name), Bytes(data.begin(), data.end())});
}

}  // namespace

void put_nft_data(MessageWriter& out, std::uint16_t type, const NftData& data) {
  const auto nest = out.nest(type);
  if (const auto* const bytes = std::get_if<Bytes>(&data)) {
    out.put_bytes(NFTA_DATA_VALUE, *bytes);
    return;
  }
  const auto& verdict = std::get<NftVerdict>(data);
  const auto inner = out.nest(NFTA_DATA_VERDICT);
  out.put_be32(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(verdict.code));
  if (!verdict.chain.empty()) out.put_string(NFTA_VERDICT_CHAIN, verdict.chain);
}

Result<NftData> decode_nft_data(ByteView nest) {
  const auto in = AttrReader::parse(nest, kNftDataPolicy);
  if (!in) return in.error();
  if (const auto bytes = in->bytes(NFTA_DATA_VALUE))
    return NftData(Bytes(bytes->begin(), bytes->end()));
  const auto verdict = in->nested(NFTA_DATA_VERDICT);
  if (!verdict) return malformed("data that is neither a value nor a verdict");
  const auto fields = AttrReader::parse(*verdict, kNftVerdictPolicy);
  if (!fields) return fields.error();
  const auto code = fields->be32(NFTA_VERDICT_CODE);
  if (!code) return malformed("a verdict without a code");
  return NftData(NftVerdict{static_cast<NftVerdictCode>(*code),
                            std::string(fields->string(NFTA_VERDICT_CHAIN).value_or(""))});
}

void put_nft_expressions(MessageWriter& out, const std::vector<NftExpression>& expressions) {
  const auto nest = out.nest(NFTA_RULE_EXPRESSIONS);
  for (const auto& expression : expressions) put_expression(out, expression);
}

Result<std::vector<NftExpression>> decode_nft_expressions(ByteView nest) {
  std::vector<NftExpression> expressions;
  while (!nest.empty()) {
    std::uint16_t type = 0;
    const auto element = take_attribute(nest, type);
    if (!element) return malformed("an expression that is no attribute");
    auto expression = decode_expression(*element);
    if (!expression) return expression.error();
    expressions.push_back(*std::move(expression));
  }
  return expressions;
}

}  // namespace ipvsproxier::netlink
