#include "proxier/check/kernel_config.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "netlink/text.h"

namespace ipvsproxier::check {

namespace {

constexpr auto kOptions = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"dummy", "DUMMY"},
    {"ip6_tables", "IP6_NF_IPTABLES"},
    {"ip6t_REJECT", "IP6_NF_TARGET_REJECT"},
    {"ip6table_filter", "IP6_NF_FILTER"},
    {"ip6table_nat", "IP6_NF_NAT"},
    {"ip_set", "IP_SET"},
    {"ip_set_bitmap_port", "IP_SET_BITMAP_PORT"},
    {"ip_set_hash_ip", "IP_SET_HASH_IP"},
    {"ip_set_hash_ipport", "IP_SET_HASH_IPPORT"},
    {"ip_set_hash_ipportip", "IP_SET_HASH_IPPORTIP"},
    {"ip_set_hash_ipportnet", "IP_SET_HASH_IPPORTNET"},
    {"ip_tables", "IP_NF_IPTABLES"},
    {"ip_vs", "IP_VS"},
    {"ipt_REJECT", "IP_NF_TARGET_REJECT"},
    {"iptable_filter", "IP_NF_FILTER"},
    {"iptable_nat", "IP_NF_NAT"},
    {"ipv6", "IPV6"},
    {"nf_conntrack_netlink", "NF_CT_NETLINK"},
    {"nf_tables", "NF_TABLES"},
    {"nft_chain_nat", "NFT_NAT"},
    {"nft_ct", "NFT_CT"},
    {"nft_fib_ipv4", "NFT_FIB_IPV4"},
    {"nft_fib_ipv6", "NFT_FIB_IPV6"},
    {"nft_masq", "NFT_MASQ"},
    {"nft_nat", "NFT_NAT"},
    {"nft_reject", "NFT_REJECT"},
    {"nft_reject_ipv4", "NFT_REJECT_IPV4"},
    {"nft_reject_ipv6", "NFT_REJECT_IPV6"},
    {"xt_MASQUERADE", "NETFILTER_XT_TARGET_MASQUERADE"},
    {"xt_addrtype", "NETFILTER_XT_MATCH_ADDRTYPE"},
    {"xt_comment", "NETFILTER_XT_MATCH_COMMENT"},
    {"xt_conntrack", "NETFILTER_XT_MATCH_CONNTRACK"},
    {"xt_ipvs", "NETFILTER_XT_MATCH_IPVS"},
    {"xt_mark", "NETFILTER_XT_MARK"},
    {"xt_physdev", "NETFILTER_XT_MATCH_PHYSDEV"},
    {"xt_set", "NETFILTER_XT_SET"},
});

constexpr std::string_view kSchedulers = "ip_vs_";

// gzip -> text, of at most kMostFileBytes; nullopt if it is no gzip.
std::optional<std::string> unpacked(std::string packed) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (::inflateInit2(&stream, kGzip) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 65536> buffer;
  int status = Z_OK;
  while (status == Z_OK && text.size() < kMostFileBytes) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    text.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  ::inflateEnd(&stream);
  if (status != Z_STREAM_END) return std::nullopt;
  return text;
}

}  // namespace

std::string KernelConfig::value(const std::string& option) const {
  const auto found = options.find(option);
  return found == options.end() ? "" : found->second;
}

KernelConfig parse_kernel_config(std::string_view text, std::string origin) {
  KernelConfig config{.origin = std::move(origin), .options = {}};
  for (const auto line : lines_of(text)) {
    const auto equals = line.find('=');
    if (!line.starts_with("CONFIG_") || equals == std::string_view::npos) continue;
    config.options.insert_or_assign(std::string(line.substr(0, equals)),
                                    std::string(netlink::trimmed(line.substr(equals + 1))));
  }
  // Not a configuration at all: it says nothing about what is not in it.
  if (config.options.empty()) config.origin.clear();
  return config;
}

KernelConfig read_kernel_config(const HostPaths& paths, const std::string& release) {
  if (auto packed = read_some(paths.proc / "config.gz"))
    if (const auto text = unpacked(*std::move(packed)))
      return parse_kernel_config(*text, (paths.proc / "config.gz").string());
  for (const auto& file : {paths.boot / ("config-" + release), paths.modules / release / "config"})
    if (const auto text = read_some(file))
      if (auto config = parse_kernel_config(*text, file.string()); config.known()) return config;
  return {};
}

std::string option_of(std::string_view module) {
  const auto* const found =
      std::ranges::find(kOptions, module, &std::pair<std::string_view, std::string_view>::first);
  if (found != kOptions.end()) return "CONFIG_" + std::string(found->second);
  if (!module.starts_with(kSchedulers)) return "";
  std::string scheduler(module.substr(kSchedulers.size()));
  std::ranges::transform(scheduler, scheduler.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  return "CONFIG_IP_VS_" + scheduler;
}

}  // namespace ipvsproxier::check
