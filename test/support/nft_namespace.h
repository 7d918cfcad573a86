#pragma once

// A network namespace of this host's own kernel with nf_tables, for unit tests: the scratch kernel
// has no tables of these families.

#include <nftables/libnftables.h>
#include <sched.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace ipvsproxier::test {

// What nft prints; "failed" if it does not do it.
inline std::string nft(const std::string& commands) {
  const std::unique_ptr<nft_ctx, decltype(&nft_ctx_free)> context(nft_ctx_new(NFT_CTX_DEFAULT),
                                                                  nft_ctx_free);
  nft_ctx_buffer_output(context.get());
  nft_ctx_buffer_error(context.get());
  if (nft_run_cmd_from_buffer(context.get(), commands.c_str()) != 0) return "failed";
  return nft_ctx_get_output_buffer(context.get());
}

// Ends the process with 77 if none can be made.
inline void enter_namespace() {
  // As where iptables is not installed: libnftables has no plugins that explain its rules.
  ::setenv("XTABLES_LIBDIR", "/nonexistent", 1);
  static const bool usable = unshare(CLONE_NEWNET) == 0 &&
                             socket(AF_NETLINK, SOCK_RAW, 12) >= 0 &&  // NETLINK_NETFILTER
                             nft("add table ip probe; add table ip6 probe; delete table ip probe; "
                                 "delete table ip6 probe") != "failed";
  if (usable) return;
  std::puts("no namespace with nf_tables can be made here");
  std::_Exit(77);
}

}  // namespace ipvsproxier::test
