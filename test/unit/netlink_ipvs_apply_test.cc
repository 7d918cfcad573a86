#include "netlink/ipvs/ipvs_apply.h"

#include <cerrno>

#include <catch2/catch.hpp>

#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {
namespace {

const Error kNoAnswer{ErrorKind::timeout, ETIMEDOUT, "no answer from the kernel"};

// The other end of a channel: answers what a test says, and counts what it was asked.
struct Peer {
  std::vector<std::vector<Status>> answers;  // to the first calls; the others are answered well
  std::vector<std::size_t> asked;            // requests of each call

  std::vector<Status> operator()(std::span<const Bytes> requests) {
    asked.push_back(requests.size());
    if (asked.size() > answers.size()) return std::vector<Status>(requests.size());
    auto answer = answers[asked.size() - 1];
    answer.resize(requests.size());
    return answer;
  }
};

VirtualServiceKey key(std::size_t number) {
  return {IpAddress::v4(0x0a600000U + static_cast<std::uint32_t>(number)), Protocol::tcp, 80};
}

std::vector<IpvsOp> adds(std::size_t count) {
  std::vector<IpvsOp> ops;
  for (std::size_t i = 0; i < count; ++i)
    ops.emplace_back(AddService{{.key = key(i), .scheduler = "rr"}, true});
  return ops;
}

std::size_t timeouts(const std::vector<Status>& outcomes) {
  std::size_t count = 0;
  for (const auto& outcome : outcomes) count += timed_out(std::span(&outcome, 1)) ? 1 : 0;
  return count;
}

TEST_CASE("after a timeout no further window is sent, and every operation left says so") {
  constexpr auto kWindow = NlChannel::kWindow;
  Peer peer;
  peer.answers = {{}, std::vector<Status>(kWindow, kNoAnswer)};
  const auto ops = adds(5 * kWindow);
  const auto outcomes = apply_ipvs_ops(33, ops, std::ref(peer));
  CHECK(peer.asked == std::vector<std::size_t>{kWindow, kWindow});
  REQUIRE(outcomes.size() == ops.size());
  CHECK(timeouts(outcomes) == 4 * kWindow);
  for (std::size_t i = 0; i < kWindow; ++i) CHECK(outcomes[i]);
  CHECK(outcomes.back().error().where == "not sent after a timeout");
}

TEST_CASE("after a timeout what could have been asked otherwise is not asked again") {
  Peer peer;
  peer.answers = {{make_error(Operation::ipvs_service, EEXIST, ""), Status{}, kNoAnswer}};
  const auto outcomes = apply_ipvs_ops(33, adds(3), std::ref(peer));
  CHECK(peer.asked == std::vector<std::size_t>{3});
  REQUIRE(outcomes.size() == 3);
  CHECK(outcomes[1]);
  CHECK(timeouts(outcomes) == 2);
}

TEST_CASE("a timeout of the second round ends the operations too") {
  Peer peer;
  peer.answers = {{make_error(Operation::ipvs_service, EEXIST, "")}, {kNoAnswer}};
  const auto outcomes = apply_ipvs_ops(33, adds(NlChannel::kWindow + 1), std::ref(peer));
  CHECK(peer.asked == std::vector<std::size_t>{NlChannel::kWindow, 1});
  CHECK(timeouts(outcomes) == 2);
}

TEST_CASE("an add of what exists is an edit in a second round, before the next window") {
  Peer peer;
  peer.answers = {{make_error(Operation::ipvs_service, EEXIST, "")}};
  const auto outcomes = apply_ipvs_ops(33, adds(NlChannel::kWindow + 1), std::ref(peer));
  CHECK(peer.asked == std::vector<std::size_t>{NlChannel::kWindow, 1, 1});
  for (const auto& outcome : outcomes) CHECK(outcome);
}

TEST_CASE("what a new virtual service asks for is sent only if it was added") {
  Peer peer;
  peer.answers = {{make_error(Operation::ipvs_service, EEXIST, "")}};
  std::vector<IpvsOp> ops;
  for (std::size_t i = 0; i < 3; ++i) {
    ops.emplace_back(AddService{{.key = key(i), .scheduler = "rr"}});
    ops.emplace_back(AddServer{key(i), {.key = {IpAddress::v4(0x0a010001U), 80}}});
    ops.emplace_back(AddServer{key(i), {.key = {IpAddress::v4(0x0a010002U), 80}}});
  }
  const auto outcomes = apply_ipvs_ops(33, ops, std::ref(peer));
  CHECK(peer.asked == std::vector<std::size_t>{3, 4});
  REQUIRE(outcomes.size() == ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    INFO(to_string(ops[i]));
    REQUIRE(outcomes[i].has_value() == (i >= 3));
    if (i < 3) CHECK(outcomes[i].error().kind == ErrorKind::already);
  }
}

TEST_CASE("a virtual service of others stays theirs in all windows of a call") {
  Peer peer;
  peer.answers = {{make_error(Operation::ipvs_service, EEXIST, "")}};
  const std::vector<IpvsOp> ops = {AddService{{.key = key(1), .scheduler = "none"}},
                                   EditService{{.key = key(1), .scheduler = "mh"}},
                                   DeleteService{key(1)}};
  const auto outcomes = apply_ipvs_ops(33, ops, std::ref(peer));
  CHECK(peer.asked == std::vector<std::size_t>{1});
  for (const auto& outcome : outcomes) CHECK_FALSE(outcome);
}

}  // namespace
}  // namespace ipvsproxier::netlink
