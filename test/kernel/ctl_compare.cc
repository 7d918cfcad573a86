#include "test/kernel/ctl_compare.h"

#include <sstream>

#include <catch2/catch.hpp>

#include "cmd/ipvsctl/commands.h"
#include "cmd/ipvsctl/ipvsctl_options.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::test {

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

CtlAnswer ctl(const std::vector<std::string>& words) {
  std::vector<const char*> arguments = {"ipvsctl"};
  for (const auto& word : words) arguments.push_back(word.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const auto command =
      ctl::parse_ctl_options(static_cast<int>(arguments.size()), arguments.data(), out, err);
  const auto* list = std::get_if<ctl::ListOptions>(&command);
  if (list == nullptr) return {std::get<int>(command), out.str(), err.str()};
  CtlAnswer answer;
  const auto status = ctl::run_list(*list, [&](std::string_view text) {
    answer.out += text;
    return netlink::Status{};
  });
  if (!status) return {1, answer.out, to_string(status.error())};
  return answer;
}

const std::vector<SameOptions>& table_options() {
  static const std::vector<SameOptions> options = {
      {"-Ln", "list -n"},
      {"-Ln", "list --ipvsadm"},
      {"-S -n", "list -o save"},
      {"-Ln --stats", "list -n --stats"},
      {"-Ln --stats --exact", "list --ipvsadm --stats --exact"},
      {"-Ln --rate", "list --ipvsadm --rate"},
      {"-Ln --rate --exact", "list -n --rate --exact"},
      {"-Ln --thresholds", "list -n --thresholds"},
      {"-Ln --persistent-conn", "list -n --persistent-conn"},
      {"-Ln --tun-info", "list -n --tun-info"},
      {"-Ln --sort", "list -n --sort"},
      {"-Ln --nosort", "list -n --nosort"},
      {"-Ln --nosort --stats", "list --ipvsadm --nosort --stats"},
      {"-Ln --stats --rate --thresholds", "list -n --stats --rate --thresholds"},
  };
  return options;
}

const std::vector<SameOptions>& connection_options() {
  static const std::vector<SameOptions> options = {
      {"-Lnc", "list -nc"},
      {"-Lnc --persistent-conn", "list -n --connections --persistent-conn"},
  };
  return options;
}

std::string check_same(const SameOptions& options) {
  constexpr int kAttempts = 40;  // times go on while they list: both must do it in one second
  std::string expected;
  CtlAnswer answer;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    expected = shell("ipvsadm " + options.ipvsadm);
    answer = ctl(words_of(options.ipvsctl));
    if (answer.out == expected) break;
  }
  INFO("ipvsadm " << options.ipvsadm << ", ipvsctl " << options.ipvsctl);
  INFO(answer.err);
  CHECK(answer.status == 0);
  CHECK(answer.out == expected);
  return expected;
}

}  // namespace ipvsproxier::test
