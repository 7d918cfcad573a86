#include "ipset/nft_tables.h"

#include <linux/netlink.h>
#include <nftables/libnftables.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "netlink/unique_fd.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::make_error;
using netlink::Operation;
using netlink::Result;

struct FreeContext {
  void operator()(nft_ctx* context) const { nft_ctx_free(context); }
};
using Context = std::unique_ptr<nft_ctx, FreeContext>;

// libnftables ends the process where there are no such sockets (mnl.c, nft_mnl_socket_open).
bool kernel_has_netfilter_sockets() {
  const netlink::UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  return static_cast<bool>(fd);
}

// What the kernel answers where it has no nf_tables (nfnetlink.c), or not of this family.
bool means_none(int sys_errno) {
  return sys_errno == EINVAL || sys_errno == EOPNOTSUPP || sys_errno == EPROTONOSUPPORT ||
         sys_errno == EAFNOSUPPORT;
}

// What was printed.
Result<std::string> run(nft_ctx& context, const std::string& command) {
  errno = 0;
  if (nft_run_cmd_from_buffer(&context, command.c_str()) == 0)
    return std::string(nft_ctx_get_output_buffer(&context));
  const int error = errno;
  std::string said = nft_ctx_get_error_buffer(&context);
  said = said.substr(0, said.find('\n'));
  return make_error(Operation::generic, error, fmt::format("nftables: {}: {}", command, said));
}

bool has_line(const std::string& text, const std::string& wanted) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line == wanted) return true;
  return false;
}

}  // namespace

Result<bool> remove_nft_table(Family family, const std::string& name) {
  if (!kernel_has_netfilter_sockets()) return false;
  const Context context(nft_ctx_new(NFT_CTX_DEFAULT));
  if (!context || nft_ctx_buffer_output(context.get()) != 0 ||
      nft_ctx_buffer_error(context.get()) != 0)
    return make_error(Operation::generic, ENOMEM, "nftables: make a context");
  const std::string family_name = family == Family::ipv4 ? "ip" : "ip6";
  const auto tables = run(*context, "list tables " + family_name);
  if (!tables && means_none(tables.error().sys_errno)) return false;
  if (!tables) return tables.error();
  const std::string table = fmt::format("table {} {}", family_name, name);
  if (!has_line(*tables, table)) return false;
  const auto gone = run(*context, "delete " + table);
  if (!gone && gone.error().sys_errno == ENOENT) return false;  // somebody else did just now
  if (!gone) return gone.error();
  return true;
}

}  // namespace ipvsproxier::ipset
