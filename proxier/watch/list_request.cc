#include "proxier/watch/list_request.h"

#include "proxier/access/query.h"

namespace ipvsproxier::watch {

namespace {

constexpr const char* kPage = "limit=500";

}  // namespace

std::string target_of(const Resource& resource, const Asked& asked) {
  auto target = resource.path + "?" + resource.selector + (resource.selector.empty() ? "" : "&");
  const auto timeout = "&timeoutSeconds=" + std::to_string(asked.time_limit.count());
  switch (asked.step) {
    case Step::streaming_list:
      return target +
             "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
             "&allowWatchBookmarks=true" +
             timeout;
    case Step::first_page:
      return target + kPage;
    case Step::later_page:
      return target + kPage + "&continue=" + access::encode_query(asked.continue_token);
    case Step::question:
      return target + "limit=1";
    case Step::watch:
      break;
  }
  return target +
         "watch=1&allowWatchBookmarks=true&resourceVersion=" + access::encode_query(asked.version) +
         timeout;
}

}  // namespace ipvsproxier::watch
