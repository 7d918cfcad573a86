#include "proxier/access/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>

#include "netlink/unique_fd.h"

namespace ipvsproxier::access {

namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
// OpenSSL uses int for sizes.
constexpr std::size_t kMost = std::numeric_limits<int>::max() / 2;

using Bio = std::unique_ptr<BIO, netlink::HandleDeleter<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, netlink::HandleDeleter<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, netlink::HandleDeleter<EVP_PKEY_free>>;

// Reads from `text`, which must outlive the result.
Bio reader_of(const std::string& text) {
  if (text.size() > kMost) return nullptr;
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Without this callback OpenSSL would ask the terminal for a password.
int no_password(char*, int, int, void*) {
  return 0;
}

Certificate next_certificate(BIO* reader) {
  return Certificate(PEM_read_bio_X509(reader, nullptr, no_password, nullptr));
}

}  // namespace

// Checks the text first: EVP_DecodeBlock takes padding anywhere for zeros and skips characters at
// both ends.
std::optional<std::string> base64_decode(std::string_view text) {
  std::string packed(text);
  std::erase_if(packed, [](char c) { return c == '\n' || c == '\r'; });
  if (packed.size() % 4 != 0 || packed.size() > kMost) return std::nullopt;
  const auto digits = std::min(packed.find_first_not_of(kAlphabet), packed.size());
  const auto padding = packed.size() - digits;
  if (padding > 2 || packed.find_first_not_of('=', digits) != std::string::npos)
    return std::nullopt;
  std::string bytes(packed.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(packed.data()),
                                   static_cast<int>(packed.size()));
  if (size < 0 || static_cast<std::size_t>(size) != bytes.size()) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string base64_encode(std::string_view bytes) {
  // One byte more: EVP_EncodeBlock appends a NUL.
  std::string text(((bytes.size() + 2) / 3 * 4) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string certificate_fault(const std::string& certificates) {
  const Bio reader = reader_of(certificates);
  if (!reader) return "is too large";
  int count = 0;
  while (next_certificate(reader.get())) ++count;
  const auto end = ERR_GET_REASON(ERR_peek_last_error());
  ERR_clear_error();
  if (end != PEM_R_NO_START_LINE)
    return "holds a certificate that cannot be read (PEM, -----BEGIN CERTIFICATE-----)";
  return count > 0 ? "" : "holds no certificate (PEM, -----BEGIN CERTIFICATE-----)";
}

std::string key_pair_fault(const std::string& certificates, const std::string& key) {
  const Bio certificate_reader = reader_of(certificates);
  const Bio key_reader = reader_of(key);
  if (!certificate_reader || !key_reader) return "the client certificate or its key is too large";
  const auto certificate = next_certificate(certificate_reader.get());
  const Key private_key(PEM_read_bio_PrivateKey(key_reader.get(), nullptr, no_password, nullptr));
  const bool fits = certificate && private_key &&
                    X509_check_private_key(certificate.get(), private_key.get()) == 1;
  ERR_clear_error();
  if (!certificate) return "the client certificate holds no certificate (PEM)";
  if (!private_key)
    return "the client key holds no private key (PEM), or one with a password, which nobody is "
           "here to type";
  return fits ? "" : "the client key is not that of the client certificate";
}

}  // namespace ipvsproxier::access
