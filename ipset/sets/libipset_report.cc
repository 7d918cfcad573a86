#include "ipset/sets/libipset_report.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

namespace ipvsproxier::ipset {
namespace {

using netlink::ErrorKind;

struct KnownText {
  std::string_view text;  // beginning of the report
  ErrorKind kind;
  ReportScope scope;
};

constexpr std::array kKnownTexts = {
    KnownText{"Hash is full", ErrorKind::io, ReportScope::element},
    KnownText{"Null-valued element", ErrorKind::malformed, ReportScope::element},
    KnownText{"The value of the CIDR parameter", ErrorKind::malformed, ReportScope::element},
    KnownText{"An IPv4 address is expected", ErrorKind::malformed, ReportScope::element},
    KnownText{"An IPv6 address is expected", ErrorKind::malformed, ReportScope::element},
    KnownText{"Invalid protocol specified", ErrorKind::malformed, ReportScope::element},
    KnownText{"Element is out of the range", ErrorKind::malformed, ReportScope::element},
    KnownText{"Element cannot be added", ErrorKind::already, ReportScope::element},
    KnownText{"Element cannot be deleted", ErrorKind::missing, ReportScope::element},
    KnownText{"The set with the given name does not exist", ErrorKind::missing, ReportScope::set},
    KnownText{"Set cannot be created: set with the same name", ErrorKind::already,
              ReportScope::set},
    KnownText{"Set cannot be destroyed: it is in use", ErrorKind::busy, ReportScope::set},
    KnownText{"Protocol family not supported", ErrorKind::unsupported, ReportScope::set},
};

constexpr std::string_view kLinePrefix = "Error in line ";
constexpr std::string_view kKernelPrefix = "Kernel error received: ";
constexpr std::string_view kTypeMissing = "set type not supported";
constexpr std::string_view kProtocolError = "ipset protocol error";

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// libipset prints an errno without a text of its own with strerror().
int errno_of(std::string_view message) {
  for (int candidate = 1; candidate < 134; ++candidate) {
    if (std::generic_category().message(candidate) == message) return candidate;
  }
  return 0;
}

std::string_view take_line_number(std::string_view report, LibipsetReport& result) {
  if (!begins_with(report, kLinePrefix)) return report;
  const std::string_view rest = report.substr(kLinePrefix.size());
  std::uint32_t line = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), line);
  const auto used = static_cast<std::size_t>(end - rest.data());
  if (error != std::errc{} || !begins_with(rest.substr(used), ": ")) return report;
  result.line = line;
  return rest.substr(used + 2);
}

void classify(LibipsetReport& result) {
  for (const KnownText& known : kKnownTexts) {
    if (!begins_with(result.text, known.text)) continue;
    result.kind = known.kind;
    result.scope = known.scope;
    return;
  }
  if (!begins_with(result.text, kKernelPrefix)) return;
  const std::string_view message = std::string_view(result.text).substr(kKernelPrefix.size());
  if (message == kTypeMissing) {
    result.kind = ErrorKind::missing;
    result.scope = ReportScope::set;
    result.type_missing = true;
    return;
  }
  if (message == kProtocolError) {
    // The report for an address of the other family, but also for a message in which the kernel did
    // not reach the line: the line number cannot be trusted.
    result.kind = ErrorKind::malformed;
    return;
  }
  result.sys_errno = errno_of(message);
  if (result.sys_errno == 0) return;
  result.kind = netlink::kind_of(netlink::Operation::set, result.sys_errno);
  const bool for_all = result.sys_errno == EPERM || result.sys_errno == EACCES;
  if (for_all) result.scope = ReportScope::set;
}

}  // namespace

LibipsetReport parse_libipset_report(std::string_view report) {
  LibipsetReport result;
  std::string_view text = take_line_number(report, result);
  if (const auto end = text.find('\n'); end != std::string_view::npos) text = text.substr(0, end);
  result.text = text.empty() ? "libipset gave no reason" : std::string(text);
  classify(result);
  return result;
}

}  // namespace ipvsproxier::ipset
