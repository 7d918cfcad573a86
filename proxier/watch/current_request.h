#pragma once

// CurrentRequest: the request of a reflector that is under way, or the next one while none is. It
// knows the step and what is asked for, cuts the answer into documents, and ends a request that
// takes too long. Main thread only.
//
// The Reader knows what the documents mean, and which request follows. One exchange at a time; it
// is cancelled with this object.
//
// These requests are ended, and the next one uses another connection: any without a response head
// for a minute, a list that is silent for a minute, a page or streaming list that takes two
// minutes, a watch that lasts 30 s longer than its limit (five to ten minutes), and a watch with
// bookmarks (sent once a minute) that is silent for three minutes. Time counts from the sending of
// the request, without the wait for credentials (credentials.h).

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proxier/access/transport.h"
#include "proxier/api/names.h"
#include "proxier/loop/timers.h"
#include "proxier/watch/ending.h"
#include "proxier/watch/event_framer.h"
#include "proxier/watch/recovery.h"

namespace ipvsproxier::watch {

struct Resource {
  std::string name;  // "services", for messages
  api::ObjectKind kind = api::ObjectKind::service;
  std::string path;  // "/api/v1/services"
  // For the query, encoded: "fieldSelector=metadata.name%3Dn1"; may be empty.
  std::string selector;
};

// What a request asks for.
struct Asked {
  Step step = Step::streaming_list;
  std::string version;         // of a watch
  std::string continue_token;  // of a later page
  std::chrono::seconds time_limit{0};
};

class CurrentRequest final : private access::ResponseHandler {
 public:
  using Clock = loop::Timers::Clock;

  // Takes the answer. on_complete() and on_ended() may begin or prepare the next request.
  class Reader {
   public:
    virtual ~Reader() = default;

    // The resource version of what is known.
    virtual const std::string& version() const = 0;
    // The server accepted the request (status 200).
    virtual void on_accepted() = 0;
    // A document of the body, or the beginning of one that is too large. Not called after
    // break_off().
    virtual void on_document(EventFramer::Piece piece, std::string_view text) = 0;
    // All documents of a chunk were told.
    virtual void on_chunk_read() = 0;
    // The body is complete and well formed.
    virtual void on_complete() = 0;
    // The request is over, and its exchange is gone. `ending` names the server.
    virtual void on_ended(const EndedRequest& request, const Ending& ending) = 0;
  };

  // The arguments must outlive this; `random` returns numbers in [0, 1). The deadlines are named
  // after the resource.
  CurrentRequest(const Resource& resource, access::Transport& transport, loop::Timers& timers,
                 const std::function<double()>& random, Reader& reader);
  CurrentRequest(const CurrentRequest&) = delete;
  CurrentRequest& operator=(const CurrentRequest&) = delete;
  ~CurrentRequest() override;

  Step step() const { return asked_.step; }
  // A request is under way; otherwise one waits to begin.
  bool is_running() const { return exchange_ != nullptr; }
  // When the request was sent; before its head, when it began.
  Clock::time_point begun() const { return begun_; }
  Clock::time_point heard() const { return heard_; }  // time of the last data
  // Whether the version that is known has changed since the request began, not counting a list.
  bool brought_news() const { return reader_.version() != asked_.version; }

  // The step of the next request. later_page: the last page of prepare_page() again.
  void prepare(Step step) { asked_.step = step; }
  void prepare_page(std::string continue_token);
  // Sends the prepared request; the one that is under way is cancelled.
  void begin();
  // A list is complete. Behind a streaming list the body goes on with a watch; behind pages the
  // next request is one.
  void go_on_as_watch();
  // The server sends bookmarks, so that its silence means something.
  void note_bookmark();
  // The rest of the body is ignored. end_broken() then ends the request and returns true; it is
  // called after each chunk.
  void break_off(Ending ending) { broken_ = std::move(ending); }
  bool end_broken();
  void end(Ending ending);
  // Cancels the request, without on_ended(); the next one uses another connection.
  void cancel();

 private:
  void on_head(const access::ResponseHead& head) override;
  void on_chunk(std::string_view chunk) override;
  void on_end(const netlink::Status& outcome) override;

  bool is_watching() const { return asked_.step == Step::watch && head_.status == 200; }
  Clock::time_point sent() const;
  void cancel_deadlines();
  void check_silence();
  void check_end();

  const Resource& resource_;
  access::Transport& transport_;
  loop::Timers& timers_;
  const std::function<double()>& random_;
  Reader& reader_;

  Asked asked_;
  std::unique_ptr<access::Exchange> exchange_;
  std::optional<EventFramer> framer_;
  access::ResponseHead head_;
  std::string refusal_;           // body of an answer other than 200
  std::optional<Ending> broken_;  // why the rest of the body is ignored
  bool began_with_list_ = false;  // a watch that began with a streaming list that is complete
  bool has_bookmarks_ = false;
  Clock::time_point begun_;
  Clock::time_point heard_;
};

}  // namespace ipvsproxier::watch
