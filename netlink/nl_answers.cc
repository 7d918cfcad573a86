#include "netlink/nl_answers.h"

#include <linux/netlink.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace ipvsproxier::netlink {

namespace {

constexpr std::array kExtendedAckPolicy = {
    AttrRule{NLMSGERR_ATTR_MSG, AttrKind::string, 0, 1024},
    AttrRule{NLMSGERR_ATTR_OFFS, AttrKind::u32},
};

constexpr std::int32_t kMaxErrno = 4095;  // include/linux/err.h, MAX_ERRNO

// The text after the echoed request. NLM_F_CAPPED: only the request's header was echoed.
std::string extended_text(const MessageView& message, const nlmsgerr& answer) {
  if ((message.flags & NLM_F_ACK_TLVS) == 0) return "";
  std::size_t offset = sizeof answer;
  if ((message.flags & NLM_F_CAPPED) == 0 && answer.msg.nlmsg_len > sizeof(nlmsghdr))
    offset += netlink_align(answer.msg.nlmsg_len - sizeof(nlmsghdr));
  if (offset > message.payload.size()) return "";
  const auto attributes = AttrReader::parse(message.payload.subspan(offset), kExtendedAckPolicy);
  // A text that cannot be read must not hide the errno.
  if (!attributes) return "";
  const auto text = attributes->string(NLMSGERR_ATTR_MSG);
  const auto place = attributes->u32(NLMSGERR_ATTR_OFFS);
  if (!text && place) return fmt::format("the attribute at byte {} of the message", *place);
  return std::string(text.value_or(""));
}

}  // namespace

Result<Answer> decode_answer(const MessageView& message) {
  nlmsgerr answer;
  if (message.payload.size() < sizeof answer)
    return malformed("an acknowledgement that is too short");
  std::memcpy(&answer, message.payload.data(), sizeof answer);
  if (answer.error > 0 || answer.error < -kMaxErrno)
    return malformed("an acknowledgement without an errno");
  return Answer{-answer.error, extended_text(message, answer)};
}

BatchAnswers::BatchAnswers(Operation operation, std::uint32_t begin, std::size_t messages)
    : operation_(operation), begin_(begin), messages_(messages) {}

Status BatchAnswers::take(ByteView datagram) {
  while (true) {
    const auto message = take_message(datagram);
    if (!message) return message.error();
    if (!*message) return {};
    if ((*message)->type != NLMSG_ERROR) continue;
    const auto answer = decode_answer(**message);
    if (!answer) return answer.error();
    record((*message)->sequence - begin_, *answer);
  }
}

void BatchAnswers::record(std::uint32_t index, const Answer& answer) {
  if (index > messages_) return;
  if (index == 0 || index == messages_) complete_ = true;
  if (answer.sys_errno == 0) return;
  auto error = make_error(operation_, answer.sys_errno, answer.text);
  if (index == 0)
    outcome_.whole = std::move(error);
  else
    outcome_.refusals.push_back({index - 1, std::move(error)});
}

void BatchAnswers::give_up(const Error& error) {
  outcome_.whole = error;
}

BatchOutcome BatchAnswers::outcome() && {
  if (outcome_.whole && !outcome_.refusals.empty())
    outcome_.whole = outcome_.refusals.front().error;
  return std::move(outcome_);
}

AnswerWindow::AnswerWindow(Operation operation, std::vector<std::uint32_t> sequences)
    : operation_(operation),
      sequences_(std::move(sequences)),
      answered_(sequences_.size()),
      outcomes_(sequences_.size()) {}

Status AnswerWindow::take(ByteView datagram) {
  while (true) {
    const auto message = take_message(datagram);
    if (!message) return message.error();
    if (!*message) return {};
    if ((*message)->type != NLMSG_ERROR) continue;
    const auto answer = decode_answer(**message);
    if (!answer) return answer.error();
    record((*message)->sequence, *answer);
  }
}

void AnswerWindow::record(std::uint32_t sequence, const Answer& answer) {
  const auto found = std::ranges::find(sequences_, sequence);
  if (found == sequences_.end()) return;
  const auto index = static_cast<std::size_t>(found - sequences_.begin());
  answered_[index] = true;
  if (answer.sys_errno != 0)
    outcomes_[index] = make_error(operation_, answer.sys_errno, answer.text);
  if (index + 1 == sequences_.size()) complete_ = true;
}

void AnswerWindow::give_up(const Error& error) {
  for (std::size_t i = 0; i < outcomes_.size(); ++i)
    if (!answered_[i]) outcomes_[i] = error;
}

Result<DumpCollector::State> DumpCollector::take(Operation operation, ByteView datagram,
                                                 const std::function<Status(ByteView)>& each) {
  auto state = State::more;
  while (true) {
    const auto message = take_message(datagram);
    if (!message) return message.error();
    if (!*message) return state;
    if ((*message)->sequence != sequence_) continue;
    if (((*message)->flags & NLM_F_DUMP_INTR) != 0) interrupted_ = true;
    if ((*message)->type == NLMSG_ERROR) {
      const auto answer = decode_answer(**message);
      if (!answer) return answer.error();
      return make_error(operation, answer->sys_errno, answer->text);
    }
    if ((*message)->type == NLMSG_DONE) {
      // af_netlink.c, netlink_dump_done: this message carries the dump's own result.
      std::int32_t result = 0;
      if ((*message)->payload.size() >= sizeof result)
        std::memcpy(&result, (*message)->payload.data(), sizeof result);
      if (result < -kMaxErrno) return malformed("a dump that ends without an errno");
      if (result < 0) return make_error(operation, -result, "");
      state = interrupted_ ? State::interrupted : State::done;
    } else if ((*message)->type >= NLMSG_MIN_TYPE) {
      if (auto status = each((*message)->payload); !status) return status.error();
    }
  }
}

}  // namespace ipvsproxier::netlink
