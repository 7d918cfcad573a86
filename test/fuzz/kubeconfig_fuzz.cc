// Whatever a kubeconfig or a plugin's answer holds, reading it ends with an access that a request
// may use, or with problems that a person can read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxier/access/exec_plugin.h"
#include "proxier/access/kubeconfig.h"
#include "proxier/access/pem.h"

namespace ipvsproxier::access {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool is_path(const std::string& file) {
  return file.empty() || file.front() == '/';
}

bool has_secret(const AccessSource& source) {
  const auto& fixed = source.fixed;
  return source.exec || !source.token_file.empty() || !source.client_certificate_file.empty() ||
         !fixed.bearer_token.empty() || !fixed.username.empty() || !fixed.password.empty() ||
         !fixed.client_certificate_pem.empty();
}

void check(const AccessSource& source) {
  const auto& fixed = source.fixed;
  require(server_fault(fixed.server).empty() && !fixed.server.ends_with('/'));
  require(!fixed.insecure_skip_tls_verify || (fixed.ca_pem.empty() && source.ca_file.empty()));
  require(fixed.server.starts_with("https://") || !has_secret(source));
  require(token_fault(fixed.bearer_token).empty());
  require(fixed.ca_pem.empty() || certificate_fault(fixed.ca_pem).empty());
  require(is_path(source.ca_file) && is_path(source.token_file));
  require(is_path(source.client_certificate_file) && is_path(source.client_key_file));
  require((fixed.client_certificate_pem.empty() && source.client_certificate_file.empty()) ==
          (fixed.client_key_pem.empty() && source.client_key_file.empty()));
  if (!source.exec) return;
  require(!source.exec->command.empty() && fixed.bearer_token.empty());
  require(exec_info(source.exec->api_version, nullptr).starts_with('{'));
  const ExecCluster cluster{.server = fixed.server,
                            .ca_pem = fixed.ca_pem,
                            .config_json = source.exec->cluster_config_json};
  require(exec_info(source.exec->api_version, &cluster).ends_with('}'));
}

void check_kubeconfig(std::string_view text, const std::string& master) {
  const auto choice = read_kubeconfig_text(text, "/k/f", master);
  require(choice.source.has_value() != api::has_error(choice.problems));
  for (const auto& problem : choice.problems)
    require(problem.origin.starts_with("/k/f") && !problem.message.empty());
  if (!choice.source) return;
  check(*choice.source);
  require(master.empty() || choice.source->fixed.server == master);
}

void check_answer(std::string_view text) {
  const auto credential = read_exec_credential(text, "client.authentication.k8s.io/v1");
  if (!credential) {
    require(!credential.error().where.empty());
    return;
  }
  require(token_fault(credential->token).empty());
  require(!credential->token.empty() || !credential->client_key_pem.empty());
  require(credential->client_certificate_pem.empty() == credential->client_key_pem.empty());
}

}  // namespace
}  // namespace ipvsproxier::access

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipvsproxier::access;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_kubeconfig(text, "");
  check_kubeconfig(text, "https://a:1");
  check_answer(text);
  const auto bytes = base64_decode(text);
  // Line breaks are skipped, and the bits behind the last byte.
  if (bytes) require(base64_decode(base64_encode(*bytes)) == bytes);
  require(base64_decode(base64_encode(text)) == text);
  return 0;
}
