#pragma once

// Text of a file, YAML or JSON -> its documents. Pure; any thread.
//
// The text is cut at the lines that start with "---", as kubectl cuts it (inside a document YAML
// allows no such line), and each part is read on its own: a broken document costs the others
// nothing. A part whose first character is { or [ is JSON, of which several may follow each other;
// any other is YAML. Empty documents are skipped. YAML in UTF-8 with a control character is
// refused: the reader would take some of them for the end of the text.
//
// All end as JsonDocuments, of which there is one reader. YAML is made into JSON text for it, and
// so is JSON that it refuses and that is JSON all the same: integers beyond 64 bits become
// fractions.

#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/json_value.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {

struct Document {
  std::string origin;  // the file's; from the second on with its number: "web.yaml#2"
  JsonDocument json;
  std::vector<std::string> duplicates;  // paths of keys that came twice; the last value counts
};

struct Documents {
  std::vector<Document> documents;
  Problems problems;  // errors: "line 3, column 7: ..."
};

Documents parse_documents(std::string_view text, const std::string& origin);

}  // namespace ipvsproxier::api
