#pragma once

// ControlClient: sends requests to the daemon's control socket (control.h). Blocks. One thread.

#include <memory>
#include <string>

#include "netlink/result.h"
#include "proxier/api/json_value.h"

namespace ipvsproxier::ctl {

class ControlClient {
 public:
  // Connects at each request.
  explicit ControlClient(std::string path);
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;
  ~ControlClient();

  // The JSON text of the answer to a path such as "/v1/status". `missing`: no daemon listens;
  // `denied`: not allowed for this user; `timeout`: the daemon is busy; `malformed`: another
  // program answers.
  netlink::Result<std::string> get(const std::string& target);
  // The same, for answers that are an object.
  netlink::Result<api::JsonDocument> ask(const std::string& target);
  // The error `malformed`: another program than ipvs-proxier answered.
  netlink::Error stranger() const;

 private:
  struct Handle;
  std::string path_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace ipvsproxier::ctl
