#include "test/support/api_server/commands.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/documents.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;

Error wrong(const std::string& what) {
  return {ErrorKind::malformed, 0, what};
}

template <typename Number>
bool read_number(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// "429,5,2": code, seconds of Retry-After ("" for none), times.
Result<FaultAnswer> answer_of(const std::string& text) {
  FaultAnswer answer;
  std::istringstream parts(text);
  std::string code;
  std::string retry;
  std::string times;
  std::getline(parts, code, ',');
  std::getline(parts, retry, ',');
  std::getline(parts, times, ',');
  int seconds = 0;
  if (!read_number(code, answer.code)) return wrong("no status code: " + text);
  if (!retry.empty()) {
    if (!read_number(retry, seconds)) return wrong("no seconds: " + text);
    answer.retry_after_seconds = seconds;
  }
  if (!times.empty() && !read_number(times, answer.times)) return wrong("no number: " + text);
  return answer;
}

netlink::Status add_fault(Faults& faults, const std::string& text) {
  static const std::map<std::string, bool Faults::*> kSwitches{
      {"silent", &Faults::silent},       {"silent-answer", &Faults::silent_answer},
      {"malformed", &Faults::malformed}, {"duplicate", &Faults::duplicate},
      {"reorder", &Faults::reorder},     {"bookmarks-only", &Faults::bookmarks_only},
  };
  if (const auto found = kSwitches.find(text); found != kSwitches.end()) {
    faults.*found->second = true;
    return {};
  }
  const auto equals = text.find('=');
  const auto name = text.substr(0, equals);
  const auto value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (name == "answer") {
    auto answer = answer_of(value);
    if (!answer) return answer.error();
    faults.answers.push_back(*std::move(answer));
    return {};
  }
  std::size_t number = 0;
  if (!read_number(value, number)) return wrong("no such fault: " + text);
  if (name == "tear")
    faults.tear = number;
  else if (name == "trickle")
    faults.bytes_per_second = static_cast<double>(number);
  else if (name == "cut")
    faults.cut_after = number;
  else
    return wrong("no such fault: " + text);
  return {};
}

Result<std::string> fault(ApiServer& server, std::istringstream& words, const std::string& kind) {
  Faults faults;
  for (std::string word; words >> word;)
    if (auto added = add_fault(faults, word); !added) return added.error();
  if (kind == "all") {
    server.set_faults(std::move(faults));
    return std::string{};
  }
  const auto resource = resource_of_kind(kind);
  if (!resource) return wrong("no such kind: " + kind);
  server.set_faults(*resource, std::move(faults));
  return std::string{};
}

// YAML becomes JSON as for kubectl.
Result<std::string> put(ApiServer& server, const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return Error{ErrorKind::missing, 0, "read " + path};
  std::ostringstream text;
  text << stream.rdbuf();
  const auto documents = api::parse_documents(text.str(), path);
  if (!documents.problems.empty()) return wrong(api::to_string(documents.problems.front()));
  for (const auto& document : documents.documents)
    if (auto done = server.put(api::to_json_text(document.json.root())); !done) return done.error();
  return std::string{};
}

Result<std::string> remove(ApiServer& server, const std::string& kind, const std::string& full) {
  const auto resource = resource_of_kind(kind);
  if (!resource) return wrong("no such kind: " + kind);
  const auto slash = full.find('/');
  const auto name_space = slash == std::string::npos ? "" : full.substr(0, slash);
  const auto name = slash == std::string::npos ? full : full.substr(slash + 1);
  if (!server.remove(*resource, name, name_space))
    return Error{ErrorKind::missing, 0, "no such object: " + full};
  return std::string{};
}

std::string state_of(const ApiServer& server) {
  auto text = fmt::format("version {}", server.version());
  for (const auto resource : kResources)
    text += fmt::format("; {} {}, {} watched", server.count(resource), facts_of(resource).plural,
                        server.watches(resource));
  return text;
}

std::string requests_of(const ApiServer& server) {
  std::string text;
  for (const auto& request : server.requests()) {
    text += fmt::format("{}{} {} {} {}", text.empty() ? "" : "\n", request.status, request.method,
                        request.path, request.credential);
    for (const auto& [key, value] : request.query) text += fmt::format(" {}={}", key, value);
  }
  return text;
}

std::string events_of(const ApiServer& server) {
  const auto events = server.events();
  return fmt::format("[{}]", fmt::join(events, ","));
}

}  // namespace

Result<std::string> run_command(ApiServer& server, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  std::string first;
  std::string second;
  words >> command;
  if (command == "put") return put(server, line.substr(std::min(line.size(), command.size() + 1)));
  words >> first;
  if (command == "fault") return fault(server, words, first);
  words >> second;
  if (command == "delete") return remove(server, first, second);
  if (command == "requests") return requests_of(server);
  if (command == "events") return events_of(server);
  if (command == "state") return state_of(server);
  if (command == "resume") {
    if (auto done = server.resume(); !done) return done.error();
    return std::string{};
  }
  if (command == "token") {
    server.set_token(first);
    return std::string{};
  }
  static const std::map<std::string, void (ApiServer::*)()> kPlain{
      {"compact", &ApiServer::compact}, {"reset", &ApiServer::reset_connections},
      {"vanish", &ApiServer::vanish},   {"reappear", &ApiServer::reappear},
      {"stop", &ApiServer::stop},
  };
  if (const auto found = kPlain.find(command); found != kPlain.end()) {
    (server.*found->second)();
    return std::string{};
  }
  static const std::map<std::string, void (ApiServer::*)(Resource)> kWatches{
      {"end", &ApiServer::end_watches},
      {"expire", &ApiServer::expire_watches},
      {"bookmark", &ApiServer::send_bookmark},
  };
  const auto found = kWatches.find(command);
  if (found == kWatches.end()) return wrong("no such command: " + command);
  const auto resource = resource_of_kind(first);
  if (!resource) return wrong("no such kind: " + first);
  (server.*found->second)(*resource);
  return std::string{};
}

}  // namespace ipvsproxier::test
