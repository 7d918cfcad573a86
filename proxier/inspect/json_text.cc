#include "proxier/inspect/json_text.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace ipvsproxier::inspect {

void append_json_text(std::string& text, std::string_view value) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(value, is_plain))
    text.append(1, '"').append(value).append(1, '"');
  else
    text += nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ipvsproxier::inspect
