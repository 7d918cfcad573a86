#include "ipset/sets/libipset_report.h"

#include <catch2/catch.hpp>

#include <cerrno>

namespace ipvsproxier::ipset {
namespace {

using netlink::ErrorKind;

TEST_CASE("a refused element is found by its line") {
  const auto report =
      parse_libipset_report("Error in line 4711: Hash is full, cannot add more elements\n");
  CHECK(report.line == 4711);
  CHECK(report.text == "Hash is full, cannot add more elements");
  CHECK(report.kind == ErrorKind::io);
  CHECK(report.scope == ReportScope::element);
}

TEST_CASE("a report that is about the whole set says so") {
  const auto gone =
      parse_libipset_report("Error in line 1: The set with the given name does not exist\n");
  CHECK(gone.kind == ErrorKind::missing);
  CHECK(gone.scope == ReportScope::set);
  CHECK_FALSE(gone.type_missing);

  const auto denied = parse_libipset_report("Kernel error received: Operation not permitted\n");
  CHECK(denied.kind == ErrorKind::denied);
  CHECK(denied.sys_errno == EPERM);
  CHECK(denied.scope == ReportScope::set);
  CHECK_FALSE(denied.line);

  const auto busy =
      parse_libipset_report("Set cannot be destroyed: it is in use by a kernel component\n");
  CHECK(busy.kind == ErrorKind::busy);

  const auto type = parse_libipset_report("Kernel error received: set type not supported\n");
  CHECK(type.kind == ErrorKind::missing);
  CHECK(type.type_missing);
}

TEST_CASE("what is no verdict of the kernel on an element is not taken for one") {
  for (const char* text :
       {"Error in line 90: Internal protocol error\n", "Cannot open session to kernel.\n",
        "Error in line 3: Kernel error received: ipset protocol error\n",
        "Error in line 3: Kernel error received: Cannot allocate memory\n", "", "\n"}) {
    INFO(text);
    const auto report = parse_libipset_report(text);
    CHECK(report.scope == ReportScope::unknown);
    CHECK_FALSE(report.text.empty());
  }
  CHECK(parse_libipset_report("Kernel error received: Cannot allocate memory\n").sys_errno ==
        ENOMEM);
}

TEST_CASE("a strange line number is part of the text") {
  for (const char* text : {"Error in line : x", "Error in line 99999999999: x",
                           "Error in line 12 x", "Error in line 12"}) {
    const auto report = parse_libipset_report(text);
    CHECK_FALSE(report.line);
    CHECK(report.text == text);
  }
}

}  // namespace
}  // namespace ipvsproxier::ipset
