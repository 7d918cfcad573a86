#pragma once

// Certificates for tests, made when they are needed.

#include <string>
#include <vector>

#include "netlink/result.h"

namespace ipvsproxier::test {

struct Certificate {
  std::string certificate;  // PEM
  std::string key;          // PEM, PKCS 8
};

struct CertificateWish {
  std::string name = "kube-apiserver";  // common name: for a client, its user
  std::vector<std::string> dns_names;
  std::vector<std::string> addresses;  // IPv4, dotted
  bool expired = false;
  bool client = false;
};

netlink::Result<Certificate> make_authority(const std::string& name);
netlink::Result<Certificate> issue(const Certificate& authority, const CertificateWish& wish);

// What ApiServer shows: for 127.0.0.1 and localhost.
inline CertificateWish server_wish() {
  return {.dns_names = {"localhost"}, .addresses = {"127.0.0.1"}};
}

}  // namespace ipvsproxier::test
