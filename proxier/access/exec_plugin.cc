#include "proxier/access/exec_plugin.h"

#include <algorithm>

#include <fmt/format.h>

#include "proxier/access/pem.h"
#include "proxier/api/document_writer.h"
#include "proxier/api/documents.h"
#include "proxier/api/fields.h"
#include "proxier/api/timestamp.h"

namespace ipvsproxier::access {

namespace {

using netlink::Error;
using netlink::ErrorKind;

Error malformed(std::string what) {
  return Error{ErrorKind::malformed, 0, std::move(what)};
}

void write_cluster(api::JsonWriter& out, const ExecCluster& cluster) {
  out.member("server", cluster.server);
  if (!cluster.tls_server_name.empty()) out.member("tls-server-name", cluster.tls_server_name);
  if (cluster.insecure_skip_tls_verify) out.member("insecure-skip-tls-verify", true);
  if (!cluster.ca_pem.empty())
    out.member("certificate-authority-data", base64_encode(cluster.ca_pem));
  if (!cluster.proxy_url.empty()) out.member("proxy-url", cluster.proxy_url);
  if (!cluster.config_json.empty()) {
    out.key("config");
    out.splice(cluster.config_json);
  }
}

}  // namespace

std::string exec_info(const std::string& api_version, const ExecCluster* cluster) {
  api::JsonWriter out;
  out.object([&] {
    out.member("kind", "ExecCredential");
    out.member("apiVersion", api_version);
    out.object("spec", [&] {
      if (cluster != nullptr) out.object("cluster", [&] { write_cluster(out, *cluster); });
      out.member("interactive", false);
    });
  });
  return out.take();
}

std::string token_fault(std::string_view token) {
  const bool printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  return printable ? "" : "holds blanks or characters that no token has";
}

netlink::Result<ExecCredential> read_exec_credential(std::string_view output,
                                                     const std::string& api_version) {
  const auto parsed = api::parse_documents(output, "");
  if (has_error(parsed.problems) || parsed.documents.size() != 1 ||
      !parsed.documents.front().json.root().is_object())
    return malformed("printed no ExecCredential (one JSON object)");
  api::Problems problems;
  api::Report report{.origin = "", .problems = problems, .hides_values = true};
  const api::Fields answer(parsed.documents.front().json.root(), report);
  const auto kind = answer.text("kind");
  const auto version = answer.text("apiVersion");
  const api::Fields status(answer, "status");
  ExecCredential credential{.token = status.text("token"),
                            .client_certificate_pem = status.text("clientCertificateData"),
                            .client_key_pem = status.text("clientKeyData")};
  const auto expires = status.text("expirationTimestamp");
  if (!problems.empty())
    return malformed("printed what is no ExecCredential: " + to_string(problems.front()));
  if (kind != "ExecCredential")
    return malformed("printed an object of another kind than ExecCredential");
  if (version != api_version)
    return malformed(
        fmt::format("printed an ExecCredential of another apiVersion than {}, which "
                    "the kubeconfig says it speaks",
                    api_version));
  if (!status.exists()) return malformed("printed an ExecCredential without a status");
  if (!expires.empty()) {
    credential.expires = api::parse_rfc3339(expires);
    if (!credential.expires)
      return malformed("printed an expirationTimestamp that is no time of RFC 3339");
  }
  const bool has_certificate = !credential.client_certificate_pem.empty();
  if (has_certificate != !credential.client_key_pem.empty())
    return malformed("printed only one of clientCertificateData and clientKeyData");
  if (credential.token.empty() && !has_certificate)
    return malformed("printed neither a token nor a client certificate");
  if (const auto fault = token_fault(credential.token); !fault.empty())
    return malformed("printed a token that " + fault);
  if (has_certificate)
    if (const auto fault =
            key_pair_fault(credential.client_certificate_pem, credential.client_key_pem);
        !fault.empty())
      return malformed("printed a client certificate that is of no use: " + fault);
  return credential;
}

}  // namespace ipvsproxier::access
