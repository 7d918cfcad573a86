#include "proxier/access/secret_fields.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/json_text.h"

namespace ipvsproxier::access {

using api::Json;

SecretFields::SecretFields(const Json& document, std::string origin, api::Problems& problems)
    : origin_(std::move(origin)), problems_(&problems) {
  if (document.is_object())
    object_ = &document;
  else
    refuse("", fmt::format("must be an object, not {}", api::kind_of_json(document)));
}

SecretFields::SecretFields(const SecretFields& parent, const Json* value, std::string path)
    : origin_(parent.origin_), path_(std::move(path)), problems_(parent.problems_) {
  if (value == nullptr) return;
  if (value->is_object())
    object_ = value;
  else
    refuse("", fmt::format("must be an object, not {}", api::kind_of_json(*value)));
}

const Json* SecretFields::find(std::string_view key) const {
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string SecretFields::text(std::string_view key) const {
  const auto* value = find(key);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  refuse(key, fmt::format("must be text (in quotes), not {}", api::kind_of_json(*value)));
  return "";
}

bool SecretFields::flag(std::string_view key) const {
  const auto* value = find(key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  refuse(key, fmt::format("must be true or false, not {}", api::kind_of_json(*value)));
  return false;
}

std::vector<std::string> SecretFields::texts(std::string_view key) const {
  std::vector<std::string> texts;
  const auto* list = find(key);
  if (list == nullptr) return texts;
  if (!list->is_array())
    refuse(key, fmt::format("must be a list, not {}", api::kind_of_json(*list)));
  else
    for (const auto& element : *list)
      if (element.is_string())
        texts.push_back(element.get<std::string>());
      else
        refuse(key, fmt::format("must be a list of texts; {} is among them",
                                api::kind_of_json(element)));
  return texts;
}

SecretFields SecretFields::child(std::string_view key) const {
  return {*this, find(key), path_of(key)};
}

std::vector<SecretFields> SecretFields::children(std::string_view key) const {
  std::vector<SecretFields> sections;
  const auto* list = find(key);
  if (list == nullptr) return sections;
  if (!list->is_array())
    refuse(key, fmt::format("must be a list, not {}", api::kind_of_json(*list)));
  else
    for (std::size_t i = 0; i < list->size(); ++i)
      sections.push_back(SecretFields(*this, &(*list)[i], fmt::format("{}[{}]", path_of(key), i)));
  return sections;
}

std::string SecretFields::json(std::string_view key) const {
  const auto* value = find(key);
  return value == nullptr ? "" : api::to_json_text(*value);
}

std::string SecretFields::path_of(std::string_view key) const {
  if (path_.empty() || key.empty()) return path_ + std::string(key);
  return fmt::format("{}.{}", path_, key);
}

void SecretFields::refuse(std::string_view key, std::string message) const {
  note(api::Severity::error, key, std::move(message));
}

void SecretFields::warn(std::string_view key, std::string message) const {
  note(api::Severity::warning, key, std::move(message));
}

// Members may be read more than once: each problem is added once.
void SecretFields::note(api::Severity severity, std::string_view key, std::string message) const {
  api::Problem problem{.severity = severity,
                       .origin = origin_,
                       .field = path_of(key),
                       .message = std::move(message)};
  if (std::find(problems_->begin(), problems_->end(), problem) == problems_->end())
    problems_->push_back(std::move(problem));
}

}  // namespace ipvsproxier::access
