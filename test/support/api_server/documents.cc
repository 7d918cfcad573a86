#include "test/support/api_server/documents.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// base64url without padding (RFC 4648, section 5).
std::string base64url(std::string_view bytes) {
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (held += 8; held >= 6; held -= 6) out += kBase64[bits >> (held - 6) & 0x3f];
  }
  if (held > 0) out += kBase64[bits << (6 - held) & 0x3f];
  return out;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char letter : text) {
    const auto value = kBase64.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      out += static_cast<char>(bits >> (held - 8) & 0xff);
      held -= 8;
    }
  }
  return out;
}

std::string_view name_of(ChangeType type) {
  switch (type) {
    case ChangeType::added:
      return "ADDED";
    case ChangeType::modified:
      return "MODIFIED";
    case ChangeType::deleted:
      return "DELETED";
  }
  return "";
}

}  // namespace

std::string json_text(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string reason_of_code(int code) {
  static constexpr std::array<std::pair<int, std::string_view>, 11> kReasons{{
      {400, "BadRequest"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "NotFound"},
      {409, "Conflict"},
      {410, "Expired"},
      {422, "Invalid"},
      {429, "TooManyRequests"},
      {500, "InternalError"},
      {503, "ServiceUnavailable"},
      {504, "Timeout"},
  }};
  for (const auto& [known, reason] : kReasons)
    if (known == code) return std::string(reason);
  return "";
}

std::string status_document(const StatusParts& parts) {
  std::string text = R"({"kind":"Status","apiVersion":"v1","metadata":{)";
  if (!parts.continue_token.empty()) text += R"("continue":)" + json_text(parts.continue_token);
  text += R"(},"status":"Failure","message":)" + json_text(parts.message);
  if (!parts.reason.empty()) text += R"(,"reason":)" + json_text(parts.reason);
  if (!parts.details.empty()) text += R"(,"details":)" + parts.details;
  return text + fmt::format(",\"code\":{}}}\n", parts.code);
}

std::string fault_document(const FaultAnswer& answer) {
  StatusParts parts{.code = answer.code,
                    .reason = answer.reason.empty() ? reason_of_code(answer.code) : answer.reason,
                    .message = answer.message};
  if (answer.retry_after_seconds)
    parts.details = fmt::format(R"({{"retryAfterSeconds":{}}})", *answer.retry_after_seconds);
  return status_document(parts);
}

std::string whole_object(const ResourceFacts& facts, const StoredObject& object) {
  return fmt::format(R"({{"kind":"{}","apiVersion":"{}",)", facts.kind, facts.api_version) +
         object.text.substr(1);
}

std::string event_line(ChangeType type, const ResourceFacts& facts, const StoredObject& object) {
  return fmt::format(R"({{"type":"{}","object":{}}})", name_of(type), whole_object(facts, object)) +
         "\n";
}

std::string bookmark_line(const ResourceFacts& facts, std::uint64_t version, bool initial_end) {
  return fmt::format(R"({{"type":"BOOKMARK","object":{{"kind":"{}","apiVersion":"{}",)"
                     R"("metadata":{{"resourceVersion":"{}"{}}},{}}}}})",
                     facts.kind, facts.api_version, version,
                     initial_end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "",
                     facts.bookmark) +
         "\n";
}

std::string error_line(const std::string& status) {
  return R"({"type":"ERROR","object":)" + status.substr(0, status.size() - 1) + "}\n";
}

std::string list_head(const ResourceFacts& facts, std::uint64_t version,
                      const std::string& continue_token, std::optional<std::size_t> remaining) {
  auto text =
      fmt::format(R"({{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{}")",
                  facts.kind, facts.api_version, version);
  if (!continue_token.empty()) text += R"(,"continue":)" + json_text(continue_token);
  if (remaining) text += fmt::format(R"(,"remainingItemCount":{})", *remaining);
  return text + R"(},"items":[)";
}

std::string encode_continue(const Continuation& at) {
  nlohmann::ordered_json token{{"v", "meta.k8s.io/v1"}};
  token["rv"] = at.version == 0 ? nlohmann::ordered_json(-1) : nlohmann::ordered_json(at.version);
  token["start"] = at.start;
  return base64url(token.dump());
}

Result<Continuation> decode_continue(std::string_view token) {
  const Error wrong{ErrorKind::malformed, 0, "continue key is not valid"};
  const auto text = from_base64url(token);
  if (!text) return wrong;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("start") || !json["start"].is_string()) return wrong;
  if (!json.contains("rv") || !json["rv"].is_number_integer()) return wrong;
  const auto version = json["rv"].get<std::int64_t>();
  return Continuation{.version = version < 0 ? 0 : static_cast<std::uint64_t>(version),
                      .start = json["start"].get<std::string>()};
}

}  // namespace ipvsproxier::test
