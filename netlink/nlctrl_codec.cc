#include "netlink/nlctrl_codec.h"

#include <linux/genetlink.h>

#include <array>

namespace ipvsproxier::netlink {

static_assert(kGenericHeaderSize == sizeof(genlmsghdr));

namespace {

constexpr std::array kFamilyPolicy = {AttrRule{CTRL_ATTR_FAMILY_ID, AttrKind::u16}};

}  // namespace

Bytes encode_get_family(std::string_view name) {
  genlmsghdr header{};
  header.cmd = CTRL_CMD_GETFAMILY;
  header.version = 1;
  MessageWriter out(GENL_ID_CTRL, 0, bytes_of(header));
  out.put_string(CTRL_ATTR_FAMILY_NAME, name);
  return std::move(out).take();
}

Result<std::uint16_t> decode_family_id(ByteView payload) {
  if (payload.size() < kGenericHeaderSize) return malformed("a controller reply without header");
  const auto in = AttrReader::parse(payload.subspan(kGenericHeaderSize), kFamilyPolicy);
  if (!in) return in.error();
  const auto id = in->u16(CTRL_ATTR_FAMILY_ID);
  if (!id) return malformed("a controller reply without a family id");
  return *id;
}

}  // namespace ipvsproxier::netlink
