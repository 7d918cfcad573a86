#include "test/support/api_server/kubeconfig.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ipvsproxier::test {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    const auto count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      out += i <= count ? kLetters[bits >> (18 - 6 * i) & 0x3fU] : '=';
  }
  return out;
}

std::string line(const std::string& key, const std::string& value) {
  return value.empty() ? "" : "    " + key + ": " + value + "\n";
}

}  // namespace

std::string kubeconfig(const KubeconfigParts& parts) {
  const auto user = line("token", parts.token) + line("tokenFile", parts.token_file) +
                    line("client-certificate-data", base64(parts.certificate)) +
                    line("client-key-data", base64(parts.key));
  return "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
         "clusters:\n- name: test\n  cluster:\n" +
         line("server", parts.server) +
         line("certificate-authority-data", base64(parts.authority)) +
         "users:\n- name: test\n  user:" + (user.empty() ? " {}\n" : "\n" + user) +
         "contexts:\n- name: test\n  context:\n    cluster: test\n    user: test\n";
}

}  // namespace ipvsproxier::test
