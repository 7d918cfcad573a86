#pragma once

// Reading libipset's reports. The library answers a refused command with English text only: no
// errno, no code. This is the one place that knows these texts (libipset 7.17, lib/errcode.c and
// lib/session.c). Pure; any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::ipset {

// What a refusal is about.
enum class ReportScope : std::uint8_t {
  element,  // the kernel refused one element; those before it are in, those after it untried
  set,      // the kernel refuses every element of this set alike
  unknown,  // not the kernel's verdict on an element: nothing is known of the whole batch
};

struct LibipsetReport {
  std::optional<std::uint32_t> line;  // of the refused element in a batch
  std::string text;                   // one line, without the line number
  netlink::ErrorKind kind = netlink::ErrorKind::io;
  int sys_errno = 0;  // where the kernel answered an ordinary errno
  ReportScope scope = ReportScope::unknown;
  bool type_missing = false;  // the kernel has no set type of this name

  friend bool operator==(const LibipsetReport&, const LibipsetReport&) = default;
};

LibipsetReport parse_libipset_report(std::string_view report);

}  // namespace ipvsproxier::ipset
