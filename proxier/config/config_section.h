#pragma once

// ConfigSection: typed reading of one object of a configuration file. Each read() names a field;
// report_unknown() reports the fields that no read() named. Absent and null fields leave the value
// unchanged. For one read on one thread; the JSON must outlive it.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "proxier/api/problem.h"
#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::config {

class ConfigSection {
 public:
  using Json = nlohmann::json;

  ConfigSection(const Json& object, std::string path, std::string origin, api::Problems& problems)
      : object_(object), path_(std::move(path)), origin_(std::move(origin)), problems_(problems) {}

  // Whether the fields read from now on have an effect: without, a wrong type is a warning instead
  // of an error.
  void set_effect(bool has_effect) {
    severity_ = has_effect ? api::Severity::error : api::Severity::warning;
  }

  // A wrong type becomes an error problem and leaves the value unchanged.
  void read(std::string_view key, std::string& value);
  void read(std::string_view key, bool& value);
  void read(std::string_view key, double& value);
  void read(std::string_view key, std::int32_t& value);
  void read(std::string_view key, std::uint32_t& value);
  void read(std::string_view key, std::vector<std::string>& value);
  void read(std::string_view key, std::map<std::string, bool>& value);
  // A list of objects with a pattern and a verbosity.
  void read(std::string_view key, std::vector<VModule>& value);
  // "1m30s" or 0.
  void read(std::string_view key, std::chrono::nanoseconds& value);
  // The same, or an integer number of nanoseconds.
  void read_with_nanoseconds(std::string_view key, std::chrono::nanoseconds& value);
  // "64Ki" or a number, as text.
  void read_quantity(std::string_view key, std::string& value);

  // A member object; nullopt if absent or no object.
  std::optional<ConfigSection> section(std::string_view key);
  // The elements of a list of objects.
  std::vector<ConfigSection> sections(std::string_view key);

  // One warning for each field that was not read.
  void report_unknown() const;

  void problem(api::Severity severity, std::string_view key, std::string message) const;

 private:
  const Json* find(std::string_view key);
  const Json* find_list(std::string_view key);
  void read_integer(std::string_view key, std::int64_t smallest, std::int64_t largest,
                    std::int64_t& value);
  void wrong_type(std::string_view key, std::string_view wanted, const Json& value) const;
  std::string path_of(std::string_view key) const;

  const Json& object_;
  std::string path_;
  std::string origin_;
  api::Problems& problems_;
  std::set<std::string, std::less<>> known_;
  api::Severity severity_ = api::Severity::error;  // for a wrong type
};

}  // namespace ipvsproxier::config
