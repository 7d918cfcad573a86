#include "cmd/ipvsctl/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include <catch2/catch.hpp>

#include "netlink/unique_fd.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::UniqueFd;

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST_CASE("output: what is written arrives") {
  const auto ends = make_pipe();
  Output output(ends.writer.get());
  CHECK(output.write("some "));
  CHECK(output.write(""));
  CHECK(output.write("text"));
  std::array<char, 64> text{};
  const auto size = read(ends.reader.get(), text.data(), text.size());
  CHECK(std::string_view(text.data(), static_cast<std::size_t>(size)) == "some text");
  CHECK_FALSE(output.reader_gone());
}

TEST_CASE("output: nothing that is written acts on a terminal") {
  const auto ends = make_pipe();
  Output output(ends.writer.get());
  CHECK(output.write("web\x1b[2J\xc2\x9b\x7f\xff \xc3\xbc\r\nnext\n"));
  std::array<char, 64> text{};
  const auto size = read(ends.reader.get(), text.data(), text.size());
  CHECK(std::string_view(text.data(), static_cast<std::size_t>(size)) ==
        "web\\u001b[2J\\u009b\\u007f\\xff \xc3\xbc\\r\nnext\n");
}

TEST_CASE("output: a reader that is gone is told from other failures") {
  auto ends = make_pipe();
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  ends.reader.reset();
  Output output(ends.writer.get());
  CHECK_FALSE(output.write("text"));
  CHECK_FALSE(output.write("more"));
  CHECK(output.reader_gone());
  std::signal(SIGPIPE, before);

  const auto full = UniqueFd(open("/dev/full", O_WRONLY | O_CLOEXEC));
  Output to_full(full.get());
  const auto status = to_full.write("text");
  REQUIRE_FALSE(status);
  CHECK(to_string(status.error()).find("No space left") != std::string::npos);
  CHECK_FALSE(to_full.reader_gone());
}

}  // namespace
}  // namespace ipvsproxier::ctl
