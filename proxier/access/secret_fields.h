#pragma once

// SecretFields: reads the members of an object that may hold secrets (a kubeconfig, a plugin's
// output). An invalid value becomes a Problem with the field's path, which never shows the value.
// null counts as absent. A value for one reading on one thread; the document and the problems must
// outlive it.

#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/json_tree.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::access {

class SecretFields {
 public:
  // A document; adds a problem if it is no object.
  SecretFields(const api::Json& document, std::string origin, api::Problems& problems);

  bool exists() const { return object_ != nullptr; }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // A wrong type is a problem; then, and for an absent member: "", false, or nothing.
  std::string text(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  SecretFields child(std::string_view key) const;
  std::vector<SecretFields> children(std::string_view key) const;
  // Any value as JSON text; "" if it is absent.
  std::string json(std::string_view key) const;

  // "users[0].user.token"; for "" the path of this section.
  std::string path_of(std::string_view key) const;
  void refuse(std::string_view key, std::string message) const;
  void warn(std::string_view key, std::string message) const;

 private:
  SecretFields(const SecretFields& parent, const api::Json* value, std::string path);
  const api::Json* find(std::string_view key) const;
  void note(api::Severity severity, std::string_view key, std::string message) const;

  const api::Json* object_ = nullptr;
  std::string origin_;
  std::string path_;
  api::Problems* problems_;
};

}  // namespace ipvsproxier::access
