#include "netlink/nl_answers.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <catch2/catch.hpp>

namespace ipvsproxier::netlink {
namespace {

// A message as the kernel sends it.
Bytes message(std::uint16_t type, std::uint16_t flags, std::uint32_t sequence,
              const Bytes& payload) {
  auto bytes = MessageWriter(type, 0, payload).take();
  nlmsghdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.nlmsg_flags = flags;
  header.nlmsg_seq = sequence;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

Bytes answer(std::uint32_t sequence, int sys_errno) {
  nlmsgerr body{};
  body.error = -sys_errno;
  const auto view = bytes_of(body);
  return message(NLMSG_ERROR, NLM_F_CAPPED, sequence, {view.begin(), view.end()});
}

Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

AnswerWindow window_of(std::vector<std::uint32_t> sequences) {
  return AnswerWindow(Operation::ipvs_service, std::move(sequences));
}

TEST_CASE("once the last is acknowledged, silence is success and failures have their place") {
  auto window = window_of({10, 11, 12, 13});
  REQUIRE(window.take(answer(11, EEXIST)));
  CHECK_FALSE(window.complete());
  REQUIRE(window.take(answer(12, ESRCH) + answer(13, 0)));
  REQUIRE(window.complete());
  const auto outcomes = std::move(window).outcomes();
  CHECK(outcomes[0]);
  CHECK(outcomes[1].error().kind == ErrorKind::already);
  CHECK(outcomes[2].error().kind == ErrorKind::missing);
  CHECK(outcomes[2].error().sys_errno == ESRCH);
  CHECK(outcomes[3]);
}

TEST_CASE("a failure of the last completes the window") {
  auto window = window_of({10, 11});
  REQUIRE(window.take(answer(11, EPERM)));
  REQUIRE(window.complete());
  const auto outcomes = std::move(window).outcomes();
  CHECK(outcomes[0]);
  CHECK(outcomes[1].error().kind == ErrorKind::denied);
}

TEST_CASE("answers are matched by number, not by order") {
  auto window = window_of({0xffffffffU, 1, 2});
  REQUIRE(window.take(answer(1, EEXIST) + answer(0xffffffffU, ENOENT) + answer(2, 0)));
  const auto outcomes = std::move(window).outcomes();
  CHECK(outcomes[0].error().sys_errno == ENOENT);
  CHECK(outcomes[1].error().sys_errno == EEXIST);
  CHECK(outcomes[2]);
}

TEST_CASE("late answers of others and foreign messages are passed over") {
  auto window = window_of({10, 11});
  REQUIRE(window.take(answer(9, EPERM) + message(20, 0, 11, Bytes(8)) + answer(0, EPERM)));
  CHECK_FALSE(window.complete());
  REQUIRE(window.take(answer(11, 0)));
  const auto outcomes = std::move(window).outcomes();
  CHECK(outcomes[0]);
  CHECK(outcomes[1]);
}

TEST_CASE("after lost answers nothing that is silent counts as success") {
  auto window = window_of({10, 11, 12});
  REQUIRE(window.take(answer(11, EEXIST)));
  window.give_up(Error{ErrorKind::overrun, ENOBUFS, ""});
  const auto outcomes = std::move(window).outcomes();
  CHECK(outcomes[0].error().kind == ErrorKind::overrun);
  CHECK(outcomes[1].error().kind == ErrorKind::already);
  CHECK(outcomes[2].error().kind == ErrorKind::overrun);
}

TEST_CASE("bytes that are no answer are malformed") {
  auto window = window_of({10});
  const auto whole = answer(10, 0);
  for (std::size_t size = 1; size < whole.size(); ++size)
    CHECK_FALSE(window.take(Bytes(whole.begin(), whole.begin() + static_cast<int>(size))));
  CHECK_FALSE(window.take(message(NLMSG_ERROR, 0, 10, Bytes(4))));
  CHECK_FALSE(window.take(answer(10, -5)));
  CHECK_FALSE(window.complete());
}

TEST_CASE("the extended text is found behind a capped and behind a whole request") {
  const bool capped = GENERATE(true, false);
  nlmsgerr body{};
  body.error = -EINVAL;
  body.msg.nlmsg_len = sizeof(nlmsghdr) + 5;
  const auto view = bytes_of(body);
  Bytes payload(view.begin(), view.end());
  if (!capped) payload.resize(payload.size() + 8);
  MessageWriter text(16, 0, {});
  text.put_string(NLMSGERR_ATTR_MSG, "Attribute failed policy validation");
  const auto attributes = std::move(text).take();
  payload.insert(payload.end(), attributes.begin() + kMessageHeaderSize, attributes.end());
  const auto flags = static_cast<std::uint16_t>(NLM_F_ACK_TLVS | (capped ? NLM_F_CAPPED : 0));
  auto window = window_of({10});
  REQUIRE(window.take(message(NLMSG_ERROR, flags, 10, payload)));
  const auto outcomes = std::move(window).outcomes();
  CHECK(outcomes[0].error().where == "Attribute failed policy validation");
  CHECK(outcomes[0].error().kind == ErrorKind::malformed);
}

using State = DumpCollector::State;

auto into(Payloads& payloads) {
  return [&payloads](ByteView payload) {
    payloads.add(payload);
    return Status();
  };
}

TEST_CASE("a dump is collected over several datagrams") {
  DumpCollector collector(5);
  Payloads payloads;
  const auto take = [&](const Bytes& datagram) {
    return *collector.take(Operation::generic, datagram, into(payloads));
  };
  CHECK(take(message(20, NLM_F_MULTI, 5, {1, 2, 3, 4}) + message(20, NLM_F_MULTI, 4, {9})) ==
        State::more);
  CHECK(payloads.size() == 1);
  CHECK(take(message(20, NLM_F_MULTI, 5, {}) + message(20, NLM_F_MULTI, 5, {5, 6, 7, 8})) ==
        State::more);
  CHECK(take(message(NLMSG_DONE, NLM_F_MULTI, 5, {0, 0, 0, 0})) == State::done);
  REQUIRE(payloads.size() == 3);
  CHECK(std::ranges::equal(payloads[0], Bytes{1, 2, 3, 4}));
  CHECK(payloads[1].empty());
  CHECK(std::ranges::equal(payloads[2], Bytes{5, 6, 7, 8}));
}

TEST_CASE("a dump with one interrupted message is interrupted as a whole") {
  DumpCollector collector(5);
  Payloads payloads;
  REQUIRE(collector.take(Operation::generic, message(20, NLM_F_MULTI | NLM_F_DUMP_INTR, 5, {1}),
                         into(payloads)));
  CHECK(*collector.take(Operation::generic, message(NLMSG_DONE, NLM_F_MULTI, 5, {0, 0, 0, 0}),
                        into(payloads)) == State::interrupted);
}

TEST_CASE("a refused dump and one that fails at its end are errors") {
  Payloads payloads;
  DumpCollector refused(5);
  CHECK(refused.take(Operation::generic, answer(5, EBUSY), into(payloads)).error().kind ==
        ErrorKind::busy);
  DumpCollector failed(5);
  const std::int32_t result = -EPERM;
  const auto view = bytes_of(result);
  CHECK(failed
            .take(Operation::generic,
                  message(NLMSG_DONE, NLM_F_MULTI, 5, {view.begin(), view.end()}), into(payloads))
            .error()
            .kind == ErrorKind::denied);
  DumpCollector odd(5);
  CHECK(odd.take(Operation::generic, message(NLMSG_DONE, NLM_F_MULTI, 5, {0, 0, 0, 0x80}),
                 into(payloads))
            .error()
            .kind == ErrorKind::malformed);
}

TEST_CASE("who takes a dump's payloads may end it") {
  DumpCollector collector(5);
  int seen = 0;
  const auto taken = collector.take(
      Operation::generic, message(20, NLM_F_MULTI, 5, {1}) + message(20, NLM_F_MULTI, 5, {2}),
      [&](ByteView /*payload*/) -> Status {
        ++seen;
        return malformed("odd");
      });
  REQUIRE_FALSE(taken);
  CHECK(taken.error().kind == ErrorKind::malformed);
  CHECK(seen == 1);
}

TEST_CASE("a transaction whose last message is acknowledged was kept") {
  BatchAnswers answers(Operation::nftables, 10, 3);
  REQUIRE(answers.take(answer(9, EPERM) + answer(14, EPERM)));  // those of others
  CHECK_FALSE(answers.complete());
  REQUIRE(answers.take(answer(13, 0)));
  REQUIRE(answers.complete());
  const auto outcome = std::move(answers).outcome();
  CHECK(outcome.whole);
  CHECK(outcome.refusals.empty());
}

TEST_CASE("a transaction names each message that was refused, though the last one was not") {
  BatchAnswers answers(Operation::nftables, 0xfffffffe, 4);
  REQUIRE(answers.take(answer(0xffffffff, EEXIST)));
  CHECK_FALSE(answers.complete());
  REQUIRE(answers.take(answer(1, ENOENT) + answer(2, 0)));
  REQUIRE(answers.complete());
  const auto outcome = std::move(answers).outcome();
  REQUIRE_FALSE(outcome.whole);
  CHECK(outcome.whole.error().kind == ErrorKind::already);
  REQUIRE(outcome.refusals.size() == 2);
  CHECK(outcome.refusals[0].message == 0);
  CHECK(outcome.refusals[1].message == 2);
  CHECK(outcome.refusals[1].error.kind == ErrorKind::missing);
}

TEST_CASE("a transaction may be refused as a whole, or lost") {
  BatchAnswers answers(Operation::nftables, 10, 3);
  REQUIRE(answers.take(answer(10, ERESTART)));
  REQUIRE(answers.complete());
  const auto outcome = std::move(answers).outcome();
  REQUIRE_FALSE(outcome.whole);
  CHECK(outcome.whole.error().kind == ErrorKind::busy);
  CHECK(outcome.refusals.empty());

  BatchAnswers silent(Operation::nftables, 10, 3);
  REQUIRE(silent.take(answer(11, EEXIST)));
  silent.give_up(Error{ErrorKind::timeout, ETIMEDOUT, ""});
  CHECK(std::move(silent).outcome().whole.error().kind == ErrorKind::timeout);
}

TEST_CASE("a refused attribute without a text is told by its place") {
  nlmsgerr body{};
  body.error = -EINVAL;
  const auto view = bytes_of(body);
  Bytes bytes(view.begin(), view.end());
  bytes.insert(bytes.end(), {8, 0, 2, 0, 44, 0, 0, 0});  // NLMSGERR_ATTR_OFFS
  const auto whole = message(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, 10, bytes);
  ByteView datagram(whole);
  const auto read = decode_answer(**take_message(datagram));
  REQUIRE(read);
  CHECK(read->text == "the attribute at byte 44 of the message");
}

}  // namespace
}  // namespace ipvsproxier::netlink
