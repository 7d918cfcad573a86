#pragma once

// SecretFields: reading the members of an object that a person (or a plugin) wrote and that may
// hold secrets: what is wrong becomes a Problem with the field's path and never shows the value.
// null counts as absent. A value for one reading on one thread; the document and the problems
// outlive it.

#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/json_tree.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::watch {

class SecretFields {
 public:
  // A document. Complains if it is no object.
  SecretFields(const api::Json& document, std::string origin, api::Problems& problems);

  bool exists() const { return object_ != nullptr; }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // A wrong type is a problem; then, and when it is absent: "", false, nothing.
  std::string text(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  SecretFields child(std::string_view key) const;
  std::vector<SecretFields> children(std::string_view key) const;
  // Any value, as JSON; "" if it is absent.
  std::string json(std::string_view key) const;

  // "users[0].user.token"; of "" this section's own path.
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

}  // namespace ipvsproxier::watch
