#pragma once

// ControlClient: asks the daemon on its control socket (control.h). Blocks. One thread.

#include <memory>
#include <string>

#include "netlink/result.h"

namespace ipvsproxier::cmd {

class ControlClient {
 public:
  // Connects with each question.
  explicit ControlClient(std::string path);
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;
  ~ControlClient();

  // The text of the JSON object that answers "/v1/status". `missing`: no daemon answers there;
  // `denied`: this user may not ask; `timeout`: it is busy; `malformed`: it is something else that
  // answers.
  netlink::Result<std::string> get(const std::string& target);
  // `malformed`: what answered is no ipvs-proxier.
  netlink::Error stranger() const;

 private:
  struct Handle;
  std::string path_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace ipvsproxier::cmd
