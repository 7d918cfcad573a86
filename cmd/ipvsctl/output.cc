#include "cmd/ipvsctl/output.h"

#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

netlink::Status Output::write(std::string_view lines) {
  const auto shown = api::visible_lines(lines);
  std::string_view text = shown;
  while (sys_errno_ == 0 && !text.empty()) {
    const auto written = ::write(fd_, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      sys_errno_ = errno;
  }
  if (sys_errno_ == 0) return {};
  return netlink::make_error(netlink::Operation::generic, sys_errno_, "write the output");
}

bool Output::reader_gone() const {
  return sys_errno_ == EPIPE;
}

void complain(std::string_view text) {
  std::cerr << "ipvsctl: " << api::visible_lines(text) << '\n';
}

}  // namespace ipvsproxier::ctl
