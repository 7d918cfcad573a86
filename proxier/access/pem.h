#pragma once

// Base64, and checks of certificates and keys (PEM), by OpenSSL's libcrypto, which libcurl uses as
// well. Pure; any thread.

#include <optional>
#include <string>
#include <string_view>

namespace ipvsproxier::access {

// RFC 4648's standard alphabet with padding; line breaks are skipped, as in Kubernetes.
std::optional<std::string> base64_decode(std::string_view text);
std::string base64_encode(std::string_view bytes);

// A description of the fault, "" if there is none. Never repeats the text.
std::string certificate_fault(const std::string& certificates);
std::string key_pair_fault(const std::string& certificates, const std::string& key);

}  // namespace ipvsproxier::access
