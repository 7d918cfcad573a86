#pragma once

// What an API server writes about Services, as text: events, bookmarks, lists, Statuses.

#include <string>
#include <vector>

namespace ipvsproxier::test {

// In namespace "shop".
inline std::string service_text(const std::string& name, unsigned long version,
                                const std::string& cluster_ip) {
  return R"({"kind":"Service","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"shop","resourceVersion":")" + std::to_string(version) +
         R"("},"spec":{"clusterIP":")" + cluster_ip + R"(","clusterIPs":[")" + cluster_ip +
         R"("],"type":"ClusterIP","ports":[{"protocol":"TCP","port":80}]},"status":{}})";
}

inline std::string event_text(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

inline std::string added(const std::string& name, unsigned long version,
                         const std::string& cluster_ip) {
  return event_text("ADDED", service_text(name, version, cluster_ip));
}
inline std::string modified(const std::string& name, unsigned long version,
                            const std::string& cluster_ip) {
  return event_text("MODIFIED", service_text(name, version, cluster_ip));
}
inline std::string deleted(const std::string& name, unsigned long version,
                           const std::string& cluster_ip) {
  return event_text("DELETED", service_text(name, version, cluster_ip));
}

inline std::string bookmark(unsigned long version) {
  return event_text("BOOKMARK",
                    R"({"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":")" +
                        std::to_string(version) + R"("},"spec":{},"status":{"loadBalancer":{}}})");
}
// The one that ends the initial events of a streaming list.
inline std::string list_end(unsigned long version) {
  return event_text(
      "BOOKMARK",
      R"({"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":")" +
          std::to_string(version) +
          R"(","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{},"status":{}})");
}

inline std::string list_text(unsigned long version, const std::vector<std::string>& items,
                             const std::string& continue_token = "") {
  std::string text = R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                     std::to_string(version) + "\"";
  if (!continue_token.empty()) text += R"(,"continue":")" + continue_token + "\"";
  text += R"(},"items":[)";
  for (const auto& item : items) text += (&item == items.data() ? "" : ",") + item;
  return text + "]}\n";
}

inline std::string status_text(int code, const std::string& reason, const std::string& message,
                               int retry_after = 0) {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" +
         message + R"(","reason":")" + reason + "\"" +
         (retry_after == 0
              ? ""
              : R"(,"details":{"retryAfterSeconds":)" + std::to_string(retry_after) + "}") +
         R"(,"code":)" + std::to_string(code) + "}\n";
}

}  // namespace ipvsproxier::test
