#include "netlink/ipvs_channel.h"

#include <linux/netlink.h>

#include "netlink/ipvs_codec.h"

namespace ipvsproxier::netlink {

Result<IpvsChannel> IpvsChannel::open(const NlOptions& options) {
  auto channel = NlChannel::open(NETLINK_GENERIC, options);
  if (!channel) return in_context(channel.error(), "open IPVS");
  const auto family = resolve_family(*channel, kIpvsFamilyName);
  if (family) return IpvsChannel{std::move(*channel), *family};
  auto error = family.error();
  if (error.kind == ErrorKind::missing)
    error.where = "this kernel offers no IPVS: load module ip_vs (modprobe ip_vs) on the host";
  return error;
}

}  // namespace ipvsproxier::netlink
