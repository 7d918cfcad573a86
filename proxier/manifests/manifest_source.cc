#include "proxier/manifests/manifest_source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/decode.h"
#include "proxier/api/documents.h"
#include "proxier/api/fields.h"
#include "proxier/api/text_file.h"

namespace ipvsproxier::manifests {

namespace {

namespace fs = std::filesystem;

using api::JsonValue;
using api::ObjectKind;
using api::Problem;
using api::Severity;

using MaybeValue = std::optional<JsonValue>;

MaybeValue member(const MaybeValue& object, std::string_view key) {
  return object ? object->find(key) : std::nullopt;
}

bool has_label(const JsonValue& object, std::string_view label) {
  return member(member(object.find("metadata"), "labels"), label).has_value();
}

bool equals(const MaybeValue& value, std::string_view text) {
  return value && value->text() == text;
}

bool is_absent(const MaybeValue& value) {
  return !value || value->is_null();
}

bool is_headless(const JsonValue& service) {
  const auto spec = service.find("spec");
  if (equals(member(spec, "clusterIP"), "None")) return true;
  if (!is_absent(member(spec, "clusterIP"))) return false;
  const auto list = member(spec, "clusterIPs");
  if (!list || list->elements().empty()) return false;
  return equals(*list->elements().begin(), "None");
}

bool is_selected(const JsonValue& object, ObjectKind kind, std::string_view node_name) {
  switch (kind) {
    case ObjectKind::service:
      return !has_label(object, api::kProxyNameLabel) && !is_headless(object);
    case ObjectKind::endpoint_slice:
      return !has_label(object, api::kHeadlessLabel);
    case ObjectKind::node: {
      const auto name = member(object.find("metadata"), "name");
      // The decoder reports a Node without a name.
      return !name || !name->is_text() || equals(name, node_name);
    }
  }
  return true;
}

struct ListRow {
  std::string_view kind;
  std::string_view api_version;
  std::optional<ObjectKind> item_kind;  // nullopt: items name their own kind
};

constexpr std::array<ListRow, 4> kLists = {{
    {"List", "v1", std::nullopt},
    {"ServiceList", "v1", ObjectKind::service},
    {"EndpointSliceList", "discovery.k8s.io/v1", ObjectKind::endpoint_slice},
    {"NodeList", "v1", ObjectKind::node},
}};

// Whether apiVersion names the group of `wanted`, or no group: a mistake in a known kind.
bool is_of_group(const JsonValue& object, std::string_view wanted) {
  const auto text = api::version_text(object);
  const auto slash = text.find('/');
  return slash == std::string_view::npos ||
         wanted.substr(0, slash + 1) == text.substr(0, slash + 1);
}

// Reads the documents of one file into a ManifestFile.
class FileReader {
 public:
  FileReader(ManifestFile& file, std::string_view node_name) : file_(file), node_name_(node_name) {}

  // `implied`: the kind of items in the enclosing list.
  void read(const JsonValue& value, const std::string& origin,
            std::optional<ObjectKind> implied = std::nullopt) {
    const auto kind = api::kind_text(value, implied);
    for (const auto& row : kLists) {
      if (kind != row.kind) continue;
      if (!is_of_group(value, row.api_version)) return count_unknown(value, implied);
      return read_list(value, row, origin);
    }
    const auto known = api::find_kind(value, implied);
    if (!known && !kind.empty()) return count_unknown(value, implied);
    if (known && !is_selected(value, *known, node_name_))
      return note_other(value, *known, origin, implied);
    // An object without kind is given to the decoder, which reports it.
    api::Problems problems;
    auto object = api::decode_object(value, origin, problems, implied);
    if (const auto why = api::why_unreadable(object, problems))
      note_unreadable(value, known, *why);
    else if (object)
      file_.objects.push_back(*std::move(object));
    std::move(problems.begin(), problems.end(), std::back_inserter(file_.problems));
  }

  // One warning for each unknown kind, however many objects have it.
  void report_unknown() {
    for (const auto& [kind, count] : unknown_)
      file_.problems.push_back(
          Problem{.severity = Severity::warning,
                  .origin = file_.path,
                  .object = kind,
                  .message = fmt::format("unknown kind; {} ignored",
                                         count == 1 ? "it is" : fmt::format("all {} are", count))});
  }

 private:
  void note_other(const JsonValue& value, ObjectKind kind, const std::string& origin,
                  std::optional<ObjectKind> implied) {
    if (kind != ObjectKind::node) return;
    api::Problems ignored;
    if (auto node = api::decode_object(value, origin, ignored, implied))
      file_.other_nodes.push_back(std::get<api::Node>(*std::move(node)));
  }

  void note_unreadable(const JsonValue& value, std::optional<ObjectKind> kind,
                       const std::string& why) {
    auto name = kind ? api::name_of(value, *kind) : api::NamespacedName{};
    if (name.name.empty())
      file_.has_unknown = true;
    else
      file_.unreadable_objects.emplace(api::ObjectKey{*kind, std::move(name)}, why);
  }

  void read_list(const JsonValue& list, const ListRow& row, const std::string& origin) {
    api::Report report{.origin = origin,
                       .problems = file_.problems,
                       .describe = [&row] { return std::string(row.kind); },
                       .consequence = "the list is left out"};
    const api::Fields fields(list, report);
    if (api::version_text(list) != row.api_version)
      fields.refuse("apiVersion", fmt::format("must be {}", row.api_version));
    else
      fields.each("items", [&](std::size_t index, const JsonValue& item) {
        if (item.is_object()) return read(item, origin, row.item_kind);
        file_.has_unknown = true;
        fields.note(Severity::error, "items",
                    fmt::format("must be an object, not {}; it is left out", api::show(item)),
                    index);
      });
    file_.has_unknown = file_.has_unknown || report.refused;
  }

  void count_unknown(const JsonValue& value, std::optional<ObjectKind> implied) {
    const std::string kind(api::kind_text(value, implied));
    const auto version = api::version_text(value, implied);
    // Names the group: a "Service" of another API group would be confusing without it.
    ++unknown_[version.empty() ? kind : fmt::format("{} ({})", kind, version)];
  }

  ManifestFile& file_;
  std::string_view node_name_;
  std::map<std::string, std::size_t> unknown_;
};

// "items[3].spec.ports" -> the fourth item and "spec.ports".
std::pair<JsonValue, std::string> item_of(const JsonValue& document, const std::string& path) {
  constexpr std::string_view kItems = "items[";
  const auto close = path.find("].");
  const auto items = document.find("items");
  if (path.rfind(kItems, 0) != 0 || close == std::string::npos || !items) return {document, path};
  // A key of the document may look like such a path.
  std::size_t index = 0;
  const auto* digits = path.data() + kItems.size();
  const auto [end, error] = std::from_chars(digits, path.data() + close, index);
  if (error != std::errc{} || end != path.data() + close) return {document, path};
  for (const auto& item : items->elements())
    if (index-- == 0) return {item, path.substr(close + 2)};
  return {document, path};
}

void report_duplicates(const api::Document& document, api::Problems& problems) {
  for (const auto& path : document.duplicates) {
    auto [item, field] = item_of(document.json.root(), path);
    problems.push_back(Problem{.severity = Severity::error,
                               .origin = document.origin,
                               .object = api::describe_json(item),
                               .field = std::move(field),
                               .message = "is given more than once; the last one counts"});
  }
}

Problem problem_of(Severity severity, const std::string& path, std::string message) {
  return Problem{.severity = severity, .origin = path, .message = std::move(message)};
}

}  // namespace

api::ObjectKey key_of(const api::Object& object) {
  struct Visitor {
    api::ObjectKey operator()(const api::Service& service) const {
      return {.kind = api::ObjectKind::service, .name = service.name};
    }
    api::ObjectKey operator()(const api::EndpointSlice& slice) const {
      return {.kind = api::ObjectKind::endpoint_slice, .name = slice.name};
    }
    api::ObjectKey operator()(const api::Node& node) const {
      return {.kind = api::ObjectKind::node, .name = {.ns = "", .name = node.name}};
    }
  };
  return std::visit(Visitor{}, object);
}

bool is_manifest_name(std::string_view name) {
  if (name.empty() || name.front() == '.') return false;
  constexpr std::array<std::string_view, 3> kExtensions = {".yaml", ".yml", ".json"};
  return std::any_of(kExtensions.begin(), kExtensions.end(),
                     [&](std::string_view extension) { return name.ends_with(extension); });
}

ManifestFile read_manifest_text(std::string_view text, const std::string& path,
                                std::string_view node_name) {
  ManifestFile file;
  file.path = path;
  auto parsed = api::parse_documents(text, path);
  file.has_documents = !parsed.documents.empty() || !parsed.problems.empty();
  file.problems = std::move(parsed.problems);
  file.has_unknown = api::has_error(file.problems);
  for (auto& problem : file.problems) problem.message += "; this document is left out";
  FileReader reader(file, node_name);
  for (auto& held : parsed.documents) {
    const auto document = std::move(held);  // released early: a list may be large
    report_duplicates(document, file.problems);
    reader.read(document.json.root(), document.origin);
  }
  reader.report_unknown();
  return file;
}

ManifestFile read_manifest_file(const std::string& path, std::string_view node_name) {
  api::Problems problems;
  const auto text = api::read_text_file(path, problems);
  if (text) return read_manifest_text(*text, path, node_name);
  return ManifestFile{.path = path,
                      .objects = {},
                      .unreadable_objects = {},
                      .other_nodes = {},
                      .problems = std::move(problems),
                      .has_documents = true,
                      .has_unknown = true,
                      .unreadable = true};
}

std::vector<std::string> list_manifest_files(const std::string& path, api::Problems& problems) {
  std::error_code error;
  const auto status = fs::status(path, error);
  const auto refuse = [&](const std::string& message) -> std::vector<std::string> {
    problems.push_back(problem_of(Severity::error, path, message));
    return {};
  };
  if (status.type() == fs::file_type::not_found) return refuse("does not exist");
  if (error) return refuse(fmt::format("cannot be read: {}", error.message()));
  if (!fs::is_directory(status)) return {path};
  std::vector<std::string> files;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!is_manifest_name(entry->path().filename().native())) continue;
    std::error_code ignored;  // a dangling link is listed, so that reading it is an error
    const auto type = entry->status(ignored).type();
    if (type == fs::file_type::regular || type == fs::file_type::not_found)
      files.push_back(entry->path().string());
  }
  if (error) return refuse(fmt::format("cannot be read: {}", error.message()));
  std::sort(files.begin(), files.end());
  if (files.empty())
    problems.push_back(problem_of(Severity::error, path, "holds no file *.yaml, *.yml or *.json"));
  return files;
}

api::Problem duplicate_problem(const api::Object& object, const std::string& first_origin) {
  return Problem{.severity = Severity::error,
                 .origin = std::visit([](const auto& known) { return known.origin; }, object),
                 .object = api::describe(object),
                 .message = fmt::format("was already read from {}; that one counts", first_origin)};
}

Manifests merge_manifests(std::span<const ManifestFile> files) {
  Manifests merged;
  std::map<std::string, std::string> origins;  // by description
  for (const auto& file : files) {
    merged.problems.insert(merged.problems.end(), file.problems.begin(), file.problems.end());
    for (const auto& object : file.objects) {
      const auto origin = std::visit([](const auto& known) { return known.origin; }, object);
      const auto [first, added] = origins.emplace(api::describe(object), origin);
      if (added) {
        merged.objects.push_back(object);
        continue;
      }
      merged.problems.push_back(duplicate_problem(object, first->second));
    }
    merged.other_nodes.insert(merged.other_nodes.end(), file.other_nodes.begin(),
                              file.other_nodes.end());
    merged.unreadable.insert(file.unreadable_objects.begin(), file.unreadable_objects.end());
  }
  return merged;
}

Manifests load_manifests(const std::string& path, std::string_view node_name) {
  api::Problems problems;
  const auto paths = list_manifest_files(path, problems);
  std::vector<ManifestFile> files;
  files.reserve(paths.size());
  for (const auto& file : paths) files.push_back(read_manifest_file(file, node_name));
  const bool any = std::any_of(files.begin(), files.end(),
                               [](const ManifestFile& file) { return file.has_documents; });
  if (!any && problems.empty())
    problems.push_back(problem_of(Severity::error, path, "holds no objects, not even a list"));
  Manifests merged = merge_manifests(files);
  const auto has_unknown = [](const ManifestFile& file) { return file.has_unknown; };
  merged.complete =
      !api::has_error(problems) && std::none_of(files.begin(), files.end(), has_unknown);
  merged.problems.insert(merged.problems.begin(), problems.begin(), problems.end());
  return merged;
}

model::Changes changes_of(Manifests& manifests) {
  model::Changes changes;
  for (auto& object : manifests.objects) changes.put(std::move(object));
  for (const auto& [key, why] : manifests.unreadable) changes.unreadable.emplace(key, why);
  changes.complete = manifests.complete;
  return changes;
}

}  // namespace ipvsproxier::manifests
