#include "netlink/ipvs/ipvs_channel.h"

#include <linux/netlink.h>

#include "netlink/ipvs/ipvs_codec.h"

namespace ipvsproxier::netlink {

Result<IpvsChannel> IpvsChannel::open(const NlOptions& options) {
  auto channel = NlChannel::open(NETLINK_GENERIC, options);
  if (!channel) return in_context(channel.error(), "open IPVS");
  const auto family = resolve_ipvs(*channel);
  if (!family) return family.error();
  return IpvsChannel{std::move(*channel), *family};
}

Result<std::uint16_t> resolve_ipvs(NlChannel& channel) {
  auto family = resolve_family(channel, kIpvsFamilyName);
  if (!family && family.error().kind == ErrorKind::missing)
    family.error().where =
        "this kernel offers no IPVS: load module ip_vs (modprobe ip_vs) on the host";
  return family;
}

}  // namespace ipvsproxier::netlink
