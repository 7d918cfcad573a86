#include "proxier/access/access_files.h"

#include <utility>

#include "netlink/text.h"
#include "proxier/access/exec_plugin.h"
#include "proxier/access/pem.h"
#include "proxier/api/text_file.h"

namespace ipvsproxier::access {

namespace {

void refuse(api::Problems& problems, const std::string& file, std::string message) {
  problems.push_back(api::Problem{.origin = file, .message = std::move(message)});
}

std::optional<std::string> read_ca(const std::string& file, api::Problems& problems) {
  auto text = api::read_text_file(file, problems);
  if (!text) return std::nullopt;
  const auto fault = certificate_fault(*text);
  if (fault.empty()) return text;
  refuse(problems, file, fault);
  return std::nullopt;
}

std::optional<std::string> read_token(const std::string& file, api::Problems& problems) {
  const auto text = api::read_text_file(file, problems);
  if (!text) return std::nullopt;
  std::string token(netlink::trimmed(*text));
  const auto fault = token.empty() ? "holds no token" : token_fault(token);
  if (fault.empty()) return token;
  refuse(problems, file, fault);
  return std::nullopt;
}

std::optional<AccessFiles::KeyPair> read_key_pair(const AccessSource& source,
                                                  api::Problems& problems) {
  const auto& certificate_file = source.client_certificate_file;
  const auto& key_file = source.client_key_file;
  auto certificate = certificate_file.empty() ? source.fixed.client_certificate_pem
                                              : api::read_text_file(certificate_file, problems);
  auto key =
      key_file.empty() ? source.fixed.client_key_pem : api::read_text_file(key_file, problems);
  if (!certificate || !key) return std::nullopt;
  const auto fault = key_pair_fault(*certificate, *key);
  if (fault.empty())
    return AccessFiles::KeyPair{.certificate_pem = std::move(*certificate),
                                .key_pem = std::move(*key)};
  refuse(problems, certificate_file.empty() ? key_file : certificate_file, fault);
  return std::nullopt;
}

}  // namespace

AccessFiles read_access_files(const AccessSource& source) {
  AccessFiles files;
  if (!source.ca_file.empty()) files.ca_pem = read_ca(source.ca_file, files.problems);
  if (!source.token_file.empty()) files.token = read_token(source.token_file, files.problems);
  if (!source.client_certificate_file.empty() || !source.client_key_file.empty())
    files.key_pair = read_key_pair(source, files.problems);
  return files;
}

}  // namespace ipvsproxier::access
