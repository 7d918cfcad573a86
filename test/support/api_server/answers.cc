#include "test/support/api_server/answers.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "test/support/api_server/documents.h"
#include "test/support/api_server/listing.h"

namespace ipvsproxier::test {
namespace {

// Of the core group, what a real server knows and kube-proxy's user may not see.
bool forbidden_path(const std::string& path) {
  return std::ranges::any_of(
      std::array{"secrets", "pods", "configmaps", "endpoints", "namespaces"},
      [&](const char* name) { return path == "/api/v1/" + std::string(name); });
}

Answer failure(const StatusParts& parts) {
  Answer out{.code = parts.code, .headers = {}, .body = status_document(parts), .watch = nullptr};
  return out;
}

Answer forbidden(const std::string& user, const std::string& path) {
  const auto plural = path.substr(path.rfind('/') + 1);
  const auto group = path.starts_with("/apis/") ? path.substr(6, path.find('/', 6) - 6) : "";
  auto out = failure({.code = 403,
                      .reason = "Forbidden",
                      .message = fmt::format(
                          "{} is forbidden: User \"{}\" cannot list resource \"{}\" in API group "
                          "\"{}\" at the cluster scope",
                          plural, user, plural, group),
                      .details = fmt::format(R"({{"kind":"{}"}})", plural)});
  out.headers.emplace_back("X-Content-Type-Options", "nosniff");
  return out;
}

std::optional<Answer> refused(ServerState& state, const LoggedRequest& request)
    IPVSPROXIER_THREADS(requires_capability(state.mutex)) {
  const bool certified = request.credential.starts_with("certificate ");
  const StatusParts unauthorized{.code = 401, .reason = "Unauthorized", .message = "Unauthorized"};
  if (certified) return std::nullopt;
  // Before HTTP/2 nghttpx has seen to it.
  if (state.options.tls && state.options.tls->client_ca_required && !state.options.http2)
    return failure(unauthorized);
  if (state.options.token.empty()) return std::nullopt;
  if (request.credential == "anonymous") return forbidden("system:anonymous", request.path);
  if (request.credential != "token " + state.options.token) return failure(unauthorized);
  return std::nullopt;
}

std::optional<Answer> fault_answer(Faults& faults, bool watch) {
  for (auto& fault : faults.answers) {
    if (fault.times == 0) continue;
    if (fault.asked != Asked::anything && (fault.asked == Asked::watches) != watch) continue;
    if (fault.times != SIZE_MAX) --fault.times;
    Answer out{.code = fault.code, .headers = {}, .body = {}, .watch = nullptr};
    if (fault.retry_after_seconds)
      out.headers.emplace_back("Retry-After", std::to_string(*fault.retry_after_seconds));
    if (fault.plain_text) {
      out.headers.emplace_back("Content-Type", "text/plain; charset=utf-8");
      out.body = fault.message + "\n";
    } else {
      out.body = fault_document(fault);
    }
    return out;
  }
  return std::nullopt;
}

// As kube-apiserver: lists of more than 128 KiB, at the fastest level.
void compress(const LoggedRequest& request, Answer& answer) {
  constexpr std::size_t kWorthIt = 128 * 1024;
  const auto accepted = request.headers.find("accept-encoding");
  if (accepted == request.headers.end() || accepted->second.find("gzip") == std::string::npos)
    return;
  if (answer.code != 200 || answer.watch || answer.body.size() <= kWorthIt) return;
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return;
  std::string packed(deflateBound(&stream, answer.body.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(answer.body.data());
  stream.avail_in = static_cast<uInt>(answer.body.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) == Z_STREAM_END) {
    packed.resize(stream.total_out);
    answer.body = std::move(packed);
    answer.headers.emplace_back("Content-Encoding", "gzip");
    answer.headers.emplace_back("Vary", "Accept-Encoding");
  }
  deflateEnd(&stream);
}

Answer one_object(ServerState& state, const Target& target)
    IPVSPROXIER_THREADS(requires_capability(state.mutex)) {
  const auto& facts = facts_of(*target.resource);
  const auto* object = state.store.find(*target.resource, target.name, target.name_space);
  if (object != nullptr)
    return {
        .code = 200, .headers = {}, .body = whole_object(facts, *object) + "\n", .watch = nullptr};
  return failure(
      {.code = 404,
       .reason = "NotFound",
       .message = fmt::format("{} \"{}\" not found", facts.plural, target.name),
       .details = fmt::format(R"({{"name":"{}","kind":"{}"}})", target.name, facts.plural)});
}

Answer event(ServerState& state, const LoggedRequest& request)
    IPVSPROXIER_THREADS(requires_capability(state.mutex)) {
  const auto type = request.headers.find("content-type");
  auto taken = state.events.take({.method = request.method,
                                  .path = request.path,
                                  .content_type = type == request.headers.end() ? "" : type->second,
                                  .body = request.body});
  if (!taken.reason.empty())
    return failure({.code = taken.code, .reason = taken.reason, .message = taken.message});
  return {.code = taken.code, .headers = {}, .body = taken.body + "\n", .watch = nullptr};
}

// Waits until the store has the version that a list wants at least; answers whether it has.
bool wait_for_version(ServerState& state, std::uint64_t version)
    IPVSPROXIER_THREADS(requires_capability(state.mutex)) {
  const auto deadline = RunningWatch::Clock::now() +
                        std::chrono::milliseconds(state.options.future_wait_milliseconds);
  while (state.store.version() < version && !state.stopping)
    if (state.changed.wait_until(state.mutex, deadline) == std::cv_status::timeout) break;
  return state.store.version() >= version;
}

Answer list_or_watch(ServerState& state, const LoggedRequest& request, const Target& target)
    IPVSPROXIER_THREADS(requires_capability(state.mutex)) {
  const bool watch = asks_for_watch(request);
  auto wanted = listing_of(request, target);
  if (!wanted)
    return failure({.code = 400, .reason = "BadRequest", .message = wanted.error().where});
  if (auto wrong = refuse_version(*wanted, state.options)) return failure(*wrong);
  if (wanted->waits_for_version() && !wait_for_version(state, wanted->version))
    return failure(too_large_version(wanted->version, state.store.version()));
  if (watch) {
    auto running = start_watch(*wanted, state.store, state.options);
    return {.code = 200, .headers = {}, .body = {}, .watch = std::move(running)};
  }
  auto listed = list(*wanted, state.store);
  if (!listed.failure.empty())
    return {
        .code = listed.code, .headers = {}, .body = std::move(listed.failure), .watch = nullptr};
  return {.code = 200, .headers = {}, .body = std::move(listed.body), .watch = nullptr};
}

}  // namespace

Target target_of(const std::string& path) {
  Target target;
  if (path.starts_with("/apis/events.k8s.io/v1/")) {
    target.events = true;
    return target;
  }
  for (const auto resource : kResources) {
    const auto& facts = facts_of(resource);
    const auto group = facts.path.substr(0, facts.path.size() - facts.plural.size());
    if (!path.starts_with(group)) continue;
    auto rest = path.substr(group.size());
    std::string name_space;
    if (facts.namespaced && rest.starts_with("namespaces/")) {
      const auto slash = rest.find('/', 11);
      if (slash == std::string::npos) continue;
      name_space = rest.substr(11, slash - 11);
      rest = rest.substr(slash + 1);
    }
    const auto slash = rest.find('/');
    if (rest.substr(0, slash) != facts.plural) continue;
    target.resource = resource;
    target.name_space = name_space;
    if (slash != std::string::npos) target.name = rest.substr(slash + 1);
    break;
  }
  return target;
}

bool asks_for_watch(const LoggedRequest& request) {
  const auto found = request.query.find("watch");
  return found != request.query.end() && (found->second == "1" || found->second == "true");
}

std::string credential_of(const LoggedRequest& request,
                          const std::optional<std::string>& certificate_name) {
  if (certificate_name) return "certificate " + *certificate_name;
  const auto header = request.headers.find("authorization");
  if (header == request.headers.end()) return "anonymous";
  constexpr std::string_view kBearer = "Bearer ";
  return header->second.starts_with(kBearer) ? "token " + header->second.substr(kBearer.size())
                                             : "unknown";
}

Answer answer(ServerState& state, const LoggedRequest& request) {
  const auto target = target_of(request.path);
  const loop::MutexLock lock(state.mutex);
  auto out = [&]() IPVSPROXIER_THREADS(requires_capability(state.mutex)) -> Answer {
    if (auto refusal = refused(state, request)) return *std::move(refusal);
    if (auto fault = fault_answer(state.faults_of(target.resource), asks_for_watch(request)))
      return *std::move(fault);
    if (request.path == "/livez")
      return {.code = 200, .headers = {}, .body = "ok", .watch = nullptr};
    if (target.events) return event(state, request);
    if (forbidden_path(request.path)) return forbidden("system:kube-proxy", request.path);
    if (!target.resource || request.method != "GET")
      return failure({.code = 404,
                      .reason = "NotFound",
                      .message = "the server could not find the requested resource",
                      .details = "{}"});
    if (!target.name.empty()) return one_object(state, target);
    return list_or_watch(state, request, target);
  }();
  if (out.code == 504 && target.resource && out.headers.empty())
    out.headers.emplace_back("Retry-After", "1");
  if (state.faults_of(target.resource).malformed && out.code == 200 && !out.watch)
    out.body = malformed(std::move(out.body));
  compress(request, out);
  if (out.watch) state.watches.insert(out.watch.get());
  return out;
}

}  // namespace ipvsproxier::test
