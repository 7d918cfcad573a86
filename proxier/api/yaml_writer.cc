#include "proxier/api/yaml_writer.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>
#include <yaml-cpp/null.h>
#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"
#include "proxier/api/visible_text.h"
#include "proxier/api/yaml_scalar.h"

namespace ipvsproxier::api {

namespace {

using Json = nlohmann::json;

void write_text(YAML::Emitter& out, const std::string& text) {
  // The library does not quote these marks, which begin and end documents.
  const bool is_mark = text.rfind("---", 0) == 0 || text.rfind("...", 0) == 0;
  // Nor does it quote invalid UTF-8 and invisible characters.
  const bool is_plain = resolve_plain_scalar(text).is_string() && visible_lines(text) == text;
  if (is_mark || !is_plain) out << YAML::DoubleQuoted;
  out << text;
}

void write(YAML::Emitter& out, const Json& value) {
  if (value.is_object()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key;
      write_text(out, key);
      out << YAML::Value;
      write(out, member);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const auto& element : value) write(out, element);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    write_text(out, value.get_ref<const std::string&>());
  } else if (value.is_null()) {
    out << YAML::Null;  // written as text, the library would quote it
  } else {
    out << to_json_text(value);  // numbers, true and false look the same in YAML
  }
}

}  // namespace

std::string write_yaml(const Json& value) {
  YAML::Emitter out;
  out.SetNullFormat(YAML::LowerNull);
  write(out, value);
  // Inside quotes "\u202e" stands for the character.
  return visible_yaml({out.c_str(), out.size()}) + "\n";
}

}  // namespace ipvsproxier::api
