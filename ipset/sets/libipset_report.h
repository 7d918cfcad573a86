#pragma once

// Parses libipset's reports. The library describes a refused command in English text only, without
// an errno or code. Only this file knows these texts (libipset 7.17, lib/errcode.c and
// lib/session.c). Pure; any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::ipset {

// What a refusal concerns.
enum class ReportScope : std::uint8_t {
  element,  // the kernel refused one element: the earlier ones are in, the later ones untried
  set,      // the kernel refuses every element of this set for the same reason
  unknown,  // no verdict on an element: the outcome of the whole batch is unknown
};

struct LibipsetReport {
  std::optional<std::uint32_t> line;  // line of the refused element in a batch
  std::string text;                   // one line, without the line number
  netlink::ErrorKind kind = netlink::ErrorKind::io;
  int sys_errno = 0;  // set if the kernel answered an ordinary errno
  ReportScope scope = ReportScope::unknown;
  bool type_missing = false;  // the kernel has no set type of this name

  friend bool operator==(const LibipsetReport&, const LibipsetReport&) = default;
};

LibipsetReport parse_libipset_report(std::string_view report);

}  // namespace ipvsproxier::ipset
