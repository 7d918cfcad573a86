// Rules in the words of nft(8), whichever program wrote them, by the steps of foreign_steps.h.

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/nft_value_words.h"
#include "ipset/nftables/rule_expressions.h"

namespace ipvsproxier::ipset {

using netlink::Family;

namespace {

using netlink::NftCtKey;
using netlink::NftMetaKey;

// What a register holds.
struct Held {
  std::string words;  // "ip saddr"
  Form form = Form::hex;
  std::size_t size = 0;            // bytes
  std::string mask;                // " & 0xff"
  std::optional<unsigned> prefix;  // of an address
  netlink::Bytes flags;            // that are asked for, of a state or status
};

unsigned ones_of(const netlink::Bytes& mask) {
  unsigned ones = 0;
  for (const auto byte : mask) ones += static_cast<unsigned>(std::popcount(byte));
  return ones;
}

constexpr std::size_t kWholeRegister = 16;
constexpr std::string_view kProtocol = "meta l4proto";
constexpr std::string_view kFamily = "meta nfproto";

class Words {
 public:
  Words(Family family, const std::map<std::string, FilterSet>& sets)
      : network_(family == Family::ipv4 ? "ip" : "ip6"), family_(family), sets_(sets) {}

  std::string of(std::span<const NftStep> steps) && {
    for (const auto& step : steps) std::visit([this](const auto& one) { take(one); }, step);
    say_implied();
    return std::move(text_);
  }

 private:
  void say(const std::string& words) {
    if (words.empty()) return;
    say_implied();
    text_ += (text_.empty() ? "" : " ") + words;
  }
  void say_implied() {
    if (const auto implied = std::exchange(implied_, ""); !implied.empty()) say(implied);
  }
  void hold(std::uint32_t where, std::string words, Form form) {
    held_[where] = {.words = std::move(words),
                    .form = form,
                    .size = size_,
                    .mask = "",
                    .prefix = {},
                    .flags = {}};
    recent_.push_back(where);
  }
  Held use(std::uint32_t where) {
    recent_.clear();
    const auto found = held_.find(where);
    if (found != held_.end()) return found->second;
    return {.words = fmt::format("[register {}]", where), .mask = "", .prefix = {}, .flags = {}};
  }
  // A value that was put into a register.
  std::string value_at(std::optional<std::uint32_t> where, Form form) {
    if (!where) return "";
    const auto value = values_.find(*where);
    if (value == values_.end()) {
      const auto held = use(*where);
      return held.words + held.mask;
    }
    return value_words(form, value->second);
  }

  void take(const netlink::NftPayload& one) {
    values_.erase(one.target);
    size_ = one.size;
    const auto is = [&](netlink::NftHeader header, std::uint32_t offset, std::uint32_t most) {
      return one.header == header && one.offset == offset && one.size <= most;
    };
    const bool is_v4 = family_ == Family::ipv4;
    const auto length = is_v4 ? 4U : 16U;
    using netlink::NftHeader;
    // A protocol that the field implies is not said.
    if (implied_.starts_with(one.header == NftHeader::transport ? kProtocol : kFamily) &&
        one.header != NftHeader::link)
      implied_.clear();
    if (is(NftHeader::network, is_v4 ? 12 : 8, length))
      return hold(one.target, network_ + " saddr", Form::address);
    if (is(NftHeader::network, is_v4 ? 16 : 24, length))
      return hold(one.target, network_ + " daddr", Form::address);
    if (is(NftHeader::network, is_v4 ? 9 : 6, 1))
      return hold(one.target, is_v4 ? "ip protocol" : "ip6 nexthdr", Form::protocol);
    if (is(NftHeader::transport, 0, 2) && one.size == 2)
      return hold(one.target, transport_ + " sport", Form::port);
    if (is(NftHeader::transport, 2, 2) && one.size == 2)
      return hold(one.target, transport_ + " dport", Form::port);
    if (is(NftHeader::transport, 0, 1) && (transport_ == "icmp" || transport_ == "ipv6-icmp"))
      return hold(one.target, transport_ == "icmp" ? "icmp type" : "icmpv6 type", Form::icmp_type);
    if (is(NftHeader::transport, 13, 1)) return hold(one.target, "tcp flags", Form::hex);
    constexpr std::array<std::string_view, 3> kHeaders = {"@ll", "@nh", "@th"};
    const auto header = static_cast<std::size_t>(one.header);
    hold(one.target,
         fmt::format("{},{},{}", header < kHeaders.size() ? kHeaders[header] : "@ih",
                     one.offset * 8, one.size * 8),
         Form::hex);
  }
  void take(const netlink::NftMeta& one) {
    size_ = kWholeRegister;
    if (one.source) {
      const bool is_mark = one.key == netlink::NftMeta::kMark;
      return say(fmt::format("meta {} set {}", is_mark ? "mark" : std::to_string(one.key),
                             value_at(*one.source, Form::number)));
    }
    const auto where = one.target.value_or(0);
    values_.erase(where);
    switch (static_cast<NftMetaKey>(one.key)) {
      case NftMetaKey::mark:
        return hold(where, "meta mark", Form::number);
      case NftMetaKey::in_index:
        return hold(where, "iif", Form::number);
      case NftMetaKey::out_index:
        return hold(where, "oif", Form::number);
      case NftMetaKey::in_name:
        return hold(where, "iifname", Form::name);
      case NftMetaKey::out_name:
        return hold(where, "oifname", Form::name);
      case NftMetaKey::l4_protocol:
        return hold(where, std::string(kProtocol), Form::protocol);
      case NftMetaKey::family:
        return hold(where, std::string(kFamily), Form::family);
      case NftMetaKey::protocol:
        return hold(where, "meta protocol", Form::hex);
    }
    hold(where, fmt::format("meta {}", one.key), Form::hex);
  }
  void take(const netlink::NftCt& one) {
    size_ = kWholeRegister;
    values_.erase(one.target);
    const std::string side = !one.direction ? "" : *one.direction == 0 ? "original " : "reply ";
    const auto ct = [&](std::string_view what, Form form) {
      hold(one.target, fmt::format("ct {}{}", side, what), form);
    };
    switch (static_cast<NftCtKey>(one.key)) {
      case NftCtKey::state:
        return ct("state", Form::state);
      case NftCtKey::status:
        return ct("status", Form::status);
      case NftCtKey::mark:
        return ct("mark", Form::number);
      case NftCtKey::direction:
        return ct("direction", Form::hex);
      case NftCtKey::protocol:
        return ct("protocol", Form::protocol);
      case NftCtKey::l3_protocol:
        return ct("l3proto", Form::hex);
      case NftCtKey::source:
      case NftCtKey::source_ip:
      case NftCtKey::source_ip6:
        return ct("saddr", Form::address);
      case NftCtKey::destination:
      case NftCtKey::destination_ip:
      case NftCtKey::destination_ip6:
        return ct("daddr", Form::address);
      case NftCtKey::source_port:
        return ct("proto-src", Form::port);
      case NftCtKey::destination_port:
        return ct("proto-dst", Form::port);
    }
    ct(std::to_string(one.key), Form::hex);
  }
  void take(const netlink::NftFib& one) {
    size_ = kWholeRegister;
    values_.erase(one.target);
    std::string words = "fib";
    const auto add = [&](std::uint32_t flag, std::string_view name) {
      if ((one.flags & flag) != 0) words += fmt::format("{}{}", words == "fib" ? " " : " . ", name);
    };
    add(netlink::NftFib::kSource, "saddr");
    add(netlink::NftFib::kDestination, "daddr");
    add(netlink::kNftFibMark, "mark");
    add(netlink::kNftFibInLink, "iif");
    add(netlink::kNftFibOutLink, "oif");
    const bool is_type = one.result == netlink::NftFib::kAddressType;
    const bool is_name = one.result == netlink::kNftFibLinkName;
    const bool is_presence = (one.flags & netlink::kNftFibPresent) != 0;
    hold(one.target,
         words + (is_type   ? " type"
                  : is_name ? " oifname"
                            : " oif"),
         is_presence ? Form::presence
         : is_type   ? Form::type
         : is_name   ? Form::name
                     : Form::hex);
  }
  void take(const netlink::NftBitwise& one) {
    auto held = use(one.source);
    values_.erase(one.target);
    const bool flips = std::ranges::any_of(one.flip, [](auto byte) { return byte != 0; });
    if (one.size > held.size) held.form = Form::hex;
    if (is_flags(held.form) && host_number(one.mask).value_or(0) != 0) held.flags = one.mask;
    const bool plain = held.form != Form::number && !is_flags(held.form);
    const auto write = [&](std::string_view sign, const netlink::Bytes& bits) {
      held.mask += fmt::format(" {} {}", sign, value_words(plain ? Form::hex : held.form, bits));
    };
    if (held.form == Form::address && !flips) {
      held.prefix = ones_of(one.mask);
    } else if (held.form == Form::number && sets_bits(one)) {
      write("|", one.flip);
    } else {
      const bool keeps_all = std::ranges::all_of(one.mask, [](auto byte) { return byte == 0xff; });
      if (!flips || !keeps_all) write("&", one.mask);
      if (flips) write("^", one.flip);
    }
    held_[one.target] = std::move(held);
    recent_ = {one.target};
  }
  // Those that are cleared are set.
  static bool sets_bits(const netlink::NftBitwise& one) {
    return std::ranges::equal(one.mask, one.flip, [](auto mask, auto flip) {
      return static_cast<std::uint8_t>(~mask) == flip;
    });
  }
  void take(const netlink::NftByteOrder& one) {
    auto held = use(one.source);
    held.form = Form::hex;
    held_[one.target] = std::move(held);
    recent_ = {one.target};
  }
  void take(const netlink::NftCompare& one) {
    auto held = use(one.source);
    if (one.data.size() > held.size) held.form = Form::hex;
    const bool equals = one.op == netlink::NftCompare::Op::equal;
    if (held.form == Form::protocol && equals) transport_ = protocol_of(one.data);
    const bool none = std::ranges::all_of(one.data, [](auto byte) { return byte == 0; });
    // "ct state new": one of these bits.
    if (!held.flags.empty() && none && one.op == netlink::NftCompare::Op::not_equal)
      return say(fmt::format("{} {}", held.words, value_words(held.form, held.flags)));
    auto value = equals && none && is_flags(held.form) ? "0" : words_for(held, one.data);
    if (held.prefix && one.data.size() * 8 != *held.prefix)
      value += fmt::format("/{}", *held.prefix);
    auto words = fmt::format("{}{} {}{}", held.words, held.mask,
                             equals && !held.mask.empty() ? "== " : op_words(one.op), value);
    if (!equals || !(held.words == kProtocol || held.form == Form::family)) return say(words);
    say_implied();
    implied_ = std::move(words);
  }
  // nft(8) loads a prefix of whole bytes alone: four bytes or fewer may be of an IPv6 address.
  std::string words_for(const Held& held, netlink::Bytes data) const {
    const auto bits = data.size() * 8;
    const bool is_short = held.form == Form::address && family_ == Family::ipv6 && bits <= 32;
    if (!is_short) return value_words(held.form, data);
    data.resize(netlink::address_bits(Family::ipv6) / 8);
    return fmt::format("{}/{}", value_words(held.form, data), bits);
  }
  static std::string protocol_of(const netlink::Bytes& data) {
    return data.size() == 1 ? value_words(Form::protocol, data) : "th";
  }
  void take(const netlink::NftRange& one) {
    const auto held = use(one.source);
    say(fmt::format("{}{} {}{}-{}", held.words, held.mask, one.outside ? "!= " : "",
                    words_for(held, one.from), words_for(held, one.to)));
  }
  void take(const netlink::NftLookup& one) {
    std::string words;
    for (const auto where : recent_)
      words +=
          fmt::format("{}{}{}", words.empty() ? "" : " . ", held_[where].words, held_[where].mask);
    if (words.empty()) words = use(one.source).words;
    recent_.clear();
    const auto set = sets_.find(one.set);
    const bool listed = set != sets_.end() && !set->second.elements.empty() &&
                        (set->second.spec.flags & netlink::NftSetSpec::kAnonymous) != 0;
    const auto name = listed ? elements_words(set->second) : "@" + one.set;
    if (one.target && *one.target != netlink::kNftVerdictRegister) {
      // How many registers the value takes is not in the rule.
      values_.erase(values_.lower_bound(*one.target), values_.end());
      held_.erase(held_.lower_bound(*one.target), held_.end());
      mapped_ = one.target;
      return hold(*one.target, fmt::format("{} map {}", words, name), Form::hex);
    }
    say(fmt::format("{} {}{}", words, one.target ? "vmap " : one.inverted ? "!= " : "", name));
  }
  void take(const netlink::NftImmediate& one) {
    if (const auto* verdict = std::get_if<netlink::NftVerdict>(&one.data))
      return say(verdict_words(*verdict));
    values_[one.target] = std::get<netlink::Bytes>(one.data);
  }
  void take(const netlink::NftMasquerade& one) {
    say(one.flags == netlink::kNftFullyRandom ? "masquerade fully-random" : "masquerade");
  }
  void take(const netlink::NftNat& one) {
    auto address = value_at(one.address, Form::address);
    if (one.address && values_.contains(*one.address) && one.port && family_ == Family::ipv6)
      address = "[" + address + "]";
    if (one.address_end) address += "-" + value_at(one.address_end, Form::address);
    const auto what = one.destination ? "dnat" : "snat";
    const bool maps_port = one.port && one.address && one.address == mapped_ &&
                           !held_.contains(*one.port) && !values_.contains(*one.port);
    if (maps_port) return say(fmt::format("{} {} to {}", what, network_, address));
    say(fmt::format("{} to {}{}", what, address, port_words(one.port, one.port_end)));
  }
  void take(const netlink::NftRedirect& one) {
    const auto port = port_words(one.port, one.port_end);
    say(port.empty() ? "redirect" : "redirect to " + port);
  }
  std::string port_words(std::optional<std::uint32_t> first, std::optional<std::uint32_t> last) {
    if (!first) return "";
    return ":" + value_at(first, Form::port) + (last ? "-" + value_at(last, Form::port) : "");
  }
  void take(const netlink::NftReject& one) {
    if (one.type == netlink::NftReject::kTcpReset) return say("reject with tcp reset");
    if (one.type == netlink::NftReject::kIcmp && one.code == (family_ == Family::ipv4 ? 3 : 4))
      return say("reject");
    constexpr std::array<std::string_view, 4> kEither = {"no-route", "port-unreachable",
                                                         "host-unreachable", "admin-prohibited"};
    if (one.type == netlink::kNftRejectEither && one.code < kEither.size())
      return say(fmt::format("reject with icmpx {}", kEither[one.code]));
    say(fmt::format("reject with {} code {}",
                    one.type == netlink::NftReject::kIcmp ? "icmp" : "type", one.code));
  }
  void take(const netlink::NftSetConnectionMark& one) {
    say("ct mark set " + value_at(one.source, Form::number));
  }
  void take(const netlink::NftNoTrack& /*one*/) { say("notrack"); }
  void take(const netlink::NftFlowOffload& one) { say("flow add @" + one.flowtable); }
  void take(const ExtensionStep& one) { say(one.text); }
  void take(const NamedStep& one) {
    recent_.clear();
    say(one.text);
  }

  std::string network_;
  Family family_;
  const std::map<std::string, FilterSet>& sets_;
  std::string text_;
  std::size_t size_ = kWholeRegister;  // of what is loaded next
  std::string implied_;                // "meta l4proto tcp", said unless what follows implies it
  std::string transport_ = "th";
  std::optional<std::uint32_t> mapped_;  // where the value of the last map begins
  std::map<std::uint32_t, Held> held_;
  std::map<std::uint32_t, netlink::Bytes> values_;
  std::vector<std::uint32_t> recent_;  // registers that were loaded since one was used
};

}  // namespace

std::string words_of(std::span<const NftStep> steps, Family family,
                     const std::map<std::string, FilterSet>& sets) {
  return Words(family, sets).of(steps);
}

std::string to_nft_string(const Rule& rule, Family family) {
  if (const auto* foreign = std::get_if<ForeignTarget>(&rule.target)) return foreign->description;
  NoSets no_sets;
  return words_of(steps_of(expressions_of(rule, family), family, no_sets), family, {});
}

}  // namespace ipvsproxier::ipset
