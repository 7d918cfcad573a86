#pragma once

// Reads the Kubernetes objects from the files that --manifests names.
//
// PATH is a file, or a folder whose files *.yaml, *.yml and *.json are read in byte order of their
// names. Subfolders are not searched, hidden names are skipped, symbolic links are followed: each
// file of a mounted ConfigMap (links to ..data/NAME) is read once. A file holds one object, several
// documents, or lists (List, ServiceList, ...), as kubectl prints them.
//
// Objects are selected as by kube-proxy's watches: Services that are not headless and not of
// another proxy, EndpointSlices of Services that are not headless, and this Node. Other objects
// cause no problems.
//
// Each file is read by itself (ManifestFile) and the files are then merged, so a change of one file
// costs the reading of that file. Plain file I/O on the caller's thread; no file stays open.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/model/changes.h"

namespace ipvsproxier::manifests {

api::ObjectKey key_of(const api::Object& object);

// What one file holds.
struct ManifestFile {
  std::string path;
  std::vector<api::Object> objects;
  // Objects of the file that cannot be read, with the reason.
  std::map<api::ObjectKey, std::string> unreadable_objects;
  std::vector<api::Node> other_nodes;  // as far as they can be read
  api::Problems problems;
  bool has_documents = false;
  // The file may hold objects of which nothing is known: something in it is no YAML or JSON, or no
  // object with a kind and a name.
  bool has_unknown = false;
  bool unreadable = false;  // the file, not its text, is at fault: another attempt may succeed
};

struct Manifests {
  std::vector<api::Object> objects;                  // in the order of files and documents
  std::map<api::ObjectKey, std::string> unreadable;  // with the reason
  std::vector<api::Node> other_nodes;
  api::Problems problems;
  // An object that is absent here does not exist.
  bool complete = true;
};

// Reads a text that came from `path`; pure.
ManifestFile read_manifest_text(std::string_view text, const std::string& path,
                                std::string_view node_name);

// An unreadable file becomes a problem.
ManifestFile read_manifest_file(const std::string& path, std::string_view node_name);

// Whether a file of this name (without its folder) in PATH is a manifest.
bool is_manifest_name(std::string_view name);

// The manifest files under PATH in the order that decides between duplicates; PATH itself if it is
// no folder. Problems: a missing or unreadable PATH, a folder without such files.
std::vector<std::string> list_manifest_files(const std::string& path, api::Problems& problems);

// The problem that `object` is ignored, because an object of its kind and name was read before.
api::Problem duplicate_problem(const api::Object& object, const std::string& first_origin);

// Merges all objects; of duplicates the first counts and the other is an error.
Manifests merge_manifests(std::span<const ManifestFile> files);

// Lists, reads and merges. A PATH without any document is a problem, not an empty cluster (an empty
// cluster is a list without items): a mount or a download may have failed.
Manifests load_manifests(const std::string& path, std::string_view node_name);

// The objects, which are moved, as the first ones of a cluster.
model::Changes changes_of(Manifests& manifests);

}  // namespace ipvsproxier::manifests
