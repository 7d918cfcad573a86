#pragma once

// FailedLook: logs that a watch of the packet filter cannot look, once for each reason, and that it
// can again. Sync thread only.

#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "netlink/result.h"

namespace ipvsproxier::sync {

class FailedLook {
 public:
  // `what`: what the watch looks for. `logger` must outlive this.
  FailedLook(std::string_view what, spdlog::logger& logger) : what_(what), logger_(logger) {}

  void failed(const netlink::Error& error) {
    const auto why = netlink::to_string(error);
    // Others can make a table busy at any time.
    const bool is_usual = error.kind == netlink::ErrorKind::busy || why == why_;
    logger_.log(is_usual ? spdlog::level::debug : spdlog::level::warn, "{} cannot be read: {}",
                what_, why);
    if (!is_usual) why_ = why;
  }
  void succeeded() {
    if (!why_.empty()) logger_.info("{} can be read again", what_);
    why_.clear();
  }

 private:
  std::string_view what_;
  spdlog::logger& logger_;
  std::string why_;  // the last reason that was logged as a warning; "": none
};

}  // namespace ipvsproxier::sync
