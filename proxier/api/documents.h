#pragma once

// Splits the text of a YAML or JSON file into its documents. Pure; any thread.
//
// The text is cut at lines that start with "---", as in kubectl (YAML allows no such line inside a
// document), and each part is read by itself: a broken document does not affect the others. A part
// whose first character is { or [ is JSON and may hold several values; any other part is YAML.
// Empty documents are skipped. YAML in UTF-8 with a control character is refused: the YAML library
// would take some control characters for the end of the text.
//
// All parts become JsonDocuments, the one form that is read (fields.h). YAML is converted to JSON
// text for that, and so is valid JSON that JsonDocument refuses: integers beyond 64 bits become
// fractions.

#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/json_value.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {

struct Document {
  std::string origin;  // the file's name, for later documents with a number: "web.yaml#2"
  JsonDocument json;
  std::vector<std::string> duplicates;  // paths of repeated keys; the last value counts
};

struct Documents {
  std::vector<Document> documents;
  Problems problems;  // errors: "line 3, column 7: ..."
};

Documents parse_documents(std::string_view text, const std::string& origin);

}  // namespace ipvsproxier::api
