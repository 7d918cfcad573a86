#include "test/support/api_server/certificates.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include <ctime>

#include <atomic>
#include <memory>
#include <utility>

#include "netlink/unique_fd.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;

constexpr std::time_t kDay = 24 * 60 * 60;

using Crt = std::unique_ptr<gnutls_x509_crt_int, netlink::HandleDeleter<gnutls_x509_crt_deinit>>;
using Key =
    std::unique_ptr<gnutls_x509_privkey_int, netlink::HandleDeleter<gnutls_x509_privkey_deinit>>;

Error failed(int code) {
  return {ErrorKind::io, 0, std::string("make a certificate: ") + gnutls_strerror(code)};
}

Crt new_certificate() {
  gnutls_x509_crt_t certificate = nullptr;
  gnutls_x509_crt_init(&certificate);
  return Crt(certificate);
}

Key new_key() {
  gnutls_x509_privkey_t key = nullptr;
  gnutls_x509_privkey_init(&key);
  return Key(key);
}

std::string taken(gnutls_datum_t data) {
  std::string text(reinterpret_cast<const char*>(data.data), data.size);
  gnutls_free(data.data);
  return text;
}

gnutls_datum_t datum(const std::string& text) {
  return {.data = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
          .size = static_cast<unsigned>(text.size())};
}

// Tries one call after the other until one fails.
class Steps {
 public:
  Steps& then(int code) {
    if (code_ >= 0) code_ = code;
    return *this;
  }
  bool failed() const { return code_ < 0; }
  int code() const { return code_; }

 private:
  int code_ = 0;
};

void describe(Steps& steps, gnutls_x509_crt_t certificate, const CertificateWish& wish,
              bool authority) {
  static std::atomic<unsigned char> number = 0;
  const unsigned char serial[] = {1, ++number};
  const auto now = std::time(nullptr);
  steps.then(gnutls_x509_crt_set_version(certificate, 3))
      .then(gnutls_x509_crt_set_serial(certificate, serial, sizeof serial))
      .then(gnutls_x509_crt_set_activation_time(certificate, now - 2 * kDay))
      .then(
          gnutls_x509_crt_set_expiration_time(certificate, wish.expired ? now - kDay : now + kDay))
      .then(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0,
                                          wish.name.data(),
                                          static_cast<unsigned>(wish.name.size())))
      .then(gnutls_x509_crt_set_basic_constraints(certificate, authority ? 1 : 0, -1))
      .then(gnutls_x509_crt_set_key_usage(
          certificate, authority ? GNUTLS_KEY_KEY_CERT_SIGN : GNUTLS_KEY_DIGITAL_SIGNATURE));
  if (authority) return;
  steps.then(gnutls_x509_crt_set_key_purpose_oid(
      certificate, wish.client ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER, 0));
  for (const auto& name : wish.dns_names)
    steps.then(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, name.data(),
                                                    static_cast<unsigned>(name.size()),
                                                    GNUTLS_FSAN_APPEND));
  for (const auto& text : wish.addresses) {
    in_addr address{};
    inet_pton(AF_INET, text.c_str(), &address);
    steps.then(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, &address,
                                                    sizeof address, GNUTLS_FSAN_APPEND));
  }
}

// Signed by itself without an authority.
Result<Certificate> make(const CertificateWish& wish, const Certificate* authority) {
  const auto certificate = new_certificate();
  const auto key = new_key();
  auto issuer = new_certificate();
  auto issuer_key = new_key();
  Steps steps;
  steps.then(gnutls_x509_privkey_generate(key.get(), GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
  describe(steps, certificate.get(), wish, authority == nullptr);
  steps.then(gnutls_x509_crt_set_key(certificate.get(), key.get()));
  if (authority != nullptr) {
    const auto pem = datum(authority->certificate);
    const auto key_pem = datum(authority->key);
    steps.then(gnutls_x509_crt_import(issuer.get(), &pem, GNUTLS_X509_FMT_PEM))
        .then(gnutls_x509_privkey_import(issuer_key.get(), &key_pem, GNUTLS_X509_FMT_PEM));
  }
  steps.then(gnutls_x509_crt_sign2(
      certificate.get(), authority != nullptr ? issuer.get() : certificate.get(),
      authority != nullptr ? issuer_key.get() : key.get(), GNUTLS_DIG_SHA256, 0));
  if (steps.failed()) return failed(steps.code());

  gnutls_datum_t certificate_pem{};
  gnutls_datum_t key_pem{};
  steps.then(gnutls_x509_crt_export2(certificate.get(), GNUTLS_X509_FMT_PEM, &certificate_pem));
  if (steps.failed()) return failed(steps.code());
  Certificate made{.certificate = taken(certificate_pem), .key = {}};
  steps.then(gnutls_x509_privkey_export2_pkcs8(key.get(), GNUTLS_X509_FMT_PEM, nullptr,
                                               GNUTLS_PKCS_PLAIN, &key_pem));
  if (steps.failed()) return failed(steps.code());
  made.key = taken(key_pem);
  return made;
}

}  // namespace

Result<Certificate> make_authority(const std::string& name) {
  return make({.name = name}, nullptr);
}

Result<Certificate> issue(const Certificate& authority, const CertificateWish& wish) {
  return make(wish, &authority);
}

}  // namespace ipvsproxier::test
