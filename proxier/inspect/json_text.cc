#include "proxier/inspect/json_text.h"

#include <algorithm>

#include "proxier/api/json_text.h"

namespace ipvsproxier::inspect {

void append_json_text(std::string& text, std::string_view value) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(value, is_plain))
    text.append(1, '"').append(value).append(1, '"');
  else
    text += api::json_quoted(value);
}

}  // namespace ipvsproxier::inspect
