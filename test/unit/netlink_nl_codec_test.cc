#include "netlink/nl_codec.h"

#include <array>
#include <functional>

#include <catch2/catch.hpp>

namespace ipvsproxier::netlink {
namespace {

constexpr std::array kPolicy = {
    AttrRule{1, AttrKind::u8},          AttrRule{2, AttrKind::u16},
    AttrRule{3, AttrKind::u32},         AttrRule{4, AttrKind::string, 0, 3},
    AttrRule{5, AttrKind::bytes, 2, 4}, AttrRule{6, AttrKind::nested},
};

Bytes attributes(const std::function<void(MessageWriter&)>& write) {
  MessageWriter out(16, 0, {});
  write(out);
  const auto message = std::move(out).take();
  return {message.begin() + kMessageHeaderSize, message.end()};
}

TEST_CASE("what is written is read back") {
  const std::array<std::uint8_t, 3> three = {1, 2, 3};
  const auto bytes = attributes([&](MessageWriter& out) {
    out.put_u8(1, 200);
    out.put_be16(2, 8080);
    {
      const auto nest = out.nest(6);
      out.put_u32(3, 7);
      const auto inner = out.nest(6);
      out.put_u8(1, 1);
    }
    out.put_be32(3, 0xffff0000U);
    out.put_string(4, "abc");
    out.put_bytes(5, three);
  });
  CHECK(bytes.size() % 4 == 0);
  const auto in = AttrReader::parse(bytes, kPolicy);
  REQUIRE(in);
  CHECK(in->u8(1) == 200);
  CHECK(in->be16(2) == 8080);
  CHECK(in->be32(3) == 0xffff0000U);
  CHECK(in->string(4) == "abc");
  CHECK(in->bytes(5)->size() == 3);
  const auto nested = AttrReader::parse(*in->nested(6), kPolicy);
  REQUIRE(nested);
  CHECK(nested->u32(3) == 7);
  CHECK_FALSE(nested->has(1));
  CHECK(AttrReader::parse(*nested->nested(6), kPolicy)->u8(1) == 1);
}

TEST_CASE("absent attributes and other kinds are nullopt, of two the last counts") {
  const auto bytes = attributes([](MessageWriter& out) {
    out.put_u32(3, 1);
    out.put_u32(99, 1);
    out.put_u32(3, 2);
  });
  const auto in = AttrReader::parse(bytes, kPolicy);
  REQUIRE(in);
  CHECK(in->u32(3) == 2);
  CHECK_FALSE(in->u16(3));
  CHECK_FALSE(in->u8(1));
  CHECK_FALSE(in->u32(99));
}

TEST_CASE("every truncation of a run of attributes is read within its bounds") {
  const auto bytes = attributes([](MessageWriter& out) {
    out.put_u32(3, 1);
    out.put_string(4, "ab");
    out.put_u8(1, 1);
  });
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    // A copy of exactly this size, so that a sanitizer sees a step outside of it.
    const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto in = AttrReader::parse(part, kPolicy);
    // Attributes end at 8, 15 and 21; what is left of their padding is no attribute.
    const bool whole = size == 0 || size == 8 || size == 15 || size == 16 || size >= 21;
    INFO(size);
    CHECK(in.has_value() == whole);
    if (!in) CHECK(in.error().kind == ErrorKind::malformed);
  }
}

TEST_CASE("sizes that break the policy are refused") {
  const Bytes bytes = GENERATE(Bytes{3, 0, 1, 0},                    // shorter than its header
                               Bytes{9, 0, 3, 0, 1, 2, 3, 4},        // longer than the bytes
                               Bytes{6, 0, 3, 0, 1, 2, 0, 0},        // u32 of 2 bytes
                               Bytes{8, 0, 2, 0, 1, 2, 3, 4},        // u16 of 4 bytes
                               Bytes{4, 0, 1, 0},                    // u8 of none
                               Bytes{7, 0, 4, 0, 'a', 'b', 'c', 0},  // string without NUL
                               Bytes{9, 0, 4, 0, 'a', 'b', 'c', 'd', 0, 0, 0, 0},  // too long
                               Bytes{5, 0, 5, 0, 1, 0, 0, 0},                      // too few bytes
                               Bytes{9, 0, 5, 0, 1, 2, 3, 4, 5, 0, 0, 0},          // too many
                               Bytes{1, 2, 3});
  const auto in = AttrReader::parse(bytes, kPolicy);
  REQUIRE_FALSE(in);
  CHECK(in.error().kind == ErrorKind::malformed);
}

TEST_CASE("messages are taken off a datagram one by one") {
  auto datagram = MessageWriter(20, 4, {}).take();
  const std::array<std::uint8_t, 5> payload = {1, 2, 3, 4, 5};
  const auto second = MessageWriter(21, 0, payload).take();
  datagram.insert(datagram.end(), second.begin(), second.end());
  ByteView rest = datagram;
  const auto first = take_message(rest);
  REQUIRE(first);
  CHECK((*first)->type == 20);
  CHECK((*first)->flags == 5);  // NLM_F_REQUEST too
  CHECK((*first)->payload.empty());
  const auto next = take_message(rest);
  REQUIRE(next);
  CHECK((*next)->type == 21);
  CHECK((*next)->payload.size() == 8);
  const auto end = take_message(rest);
  REQUIRE(end);
  CHECK_FALSE(*end);
}

TEST_CASE("a message that cannot be one is malformed") {
  const auto whole = MessageWriter(20, 0, {}).take();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    ByteView rest = part;
    CHECK_FALSE(take_message(rest));
  }
  auto odd = whole;
  odd[0] = GENERATE(std::uint8_t{0}, std::uint8_t{15}, std::uint8_t{17});
  ByteView rest = odd;
  CHECK_FALSE(take_message(rest));
}

}  // namespace
}  // namespace ipvsproxier::netlink
