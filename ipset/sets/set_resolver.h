#pragma once

// KernelSetResolver: indexes and names of sets, read from the kernel over the socket option that
// iptables uses. One thread. An index is valid until the set is destroyed or renamed: make a new
// resolver for each edit of a table.

#include <map>

#include "ipset/rules/rule_codec.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::ipset {

class KernelSetResolver : public SetResolver {
 public:
  netlink::Result<std::uint16_t> index_of(const std::string& name, netlink::Family family) override;
  std::optional<std::string> name_of(std::uint16_t index) override;

 private:
  netlink::Status open();

  netlink::UniqueFd fd_;
  unsigned version_ = 0;
  std::map<std::string, std::uint16_t> indexes_;
  std::map<std::uint16_t, std::string> names_;
};

}  // namespace ipvsproxier::ipset
