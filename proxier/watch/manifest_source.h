#pragma once

// Kubernetes objects from files: what --manifests names.
//
// PATH is a file, or a folder whose files *.yaml, *.yml and *.json are read in byte order of their
// names. A folder is not searched recursively, hidden names are skipped, and symbolic links are
// followed: of a mounted ConfigMap (links to ..data/NAME) each file is read once. A file holds one
// object, several documents, or lists (List, ServiceList, ...), as kubectl prints them.
//
// Objects are selected as kube-proxy's watches select them: no Service of another proxy and no
// headless one, no EndpointSlice of a headless Service, no Node but this one. What is not selected
// is not looked at any further, so nothing is reported of it.
//
// Each file is read on its own (ManifestFile) and the files are then merged, so that a change of
// one file costs reading that file. Plain file I/O on the caller's thread; nothing is kept open.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/objects.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::watch {

// What one file holds.
struct ManifestFile {
  std::string path;
  std::vector<api::Object> objects;
  api::Problems problems;
  bool has_documents = false;
  bool unreadable = false;  // the file, not its text: another try may do
};

struct Manifests {
  std::vector<api::Object> objects;  // in the order of files and documents
  api::Problems problems;
  // Everything could be read: what is not among the objects does not exist.
  bool complete = true;
};

// Text that was read from `path`; pure.
ManifestFile read_manifest_text(std::string_view text, const std::string& path,
                                std::string_view node_name);

// An unreadable file is a problem of that file.
ManifestFile read_manifest_file(const std::string& path, std::string_view node_name);

// Whether a file of this name (without its folder) in PATH is a manifest.
bool is_manifest_name(std::string_view name);

// The manifest files under PATH in the order in which they count; PATH itself when it is no folder.
// Problems: a missing or unreadable PATH, a folder without such files.
std::vector<std::string> list_manifest_files(const std::string& path, api::Problems& problems);

// That `object` does not count, because one of its kind and name was read before it.
api::Problem duplicate_problem(const api::Object& object, const std::string& first_origin);

// All objects; of the same kind and name twice the first counts, the other is an error.
Manifests merge_manifests(std::span<const ManifestFile> files);

// The three together. A PATH that holds no document at all is a problem, not an empty cluster (that
// is a list without items): a mount or a download may have failed.
Manifests load_manifests(const std::string& path, std::string_view node_name);

}  // namespace ipvsproxier::watch
