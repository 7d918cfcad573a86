#pragma once

// Base64, and what certificates and keys look like (PEM), by OpenSSL's libcrypto, which libcurl
// brings along. Pure; any thread.

#include <optional>
#include <string>
#include <string_view>

namespace ipvsproxier::watch {

// RFC 4648's standard alphabet with padding; line breaks are skipped, as Kubernetes does.
std::optional<std::string> base64_decode(std::string_view text);
std::string base64_encode(std::string_view bytes);

// What is wrong, "" if nothing is. No part of the text is repeated in the answer.
std::string certificate_fault(const std::string& certificates);
std::string key_pair_fault(const std::string& certificates, const std::string& key);

}  // namespace ipvsproxier::watch
