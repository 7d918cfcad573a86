#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "netlink/unique_fd.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::loop {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Words = std::vector<std::string>;
using netlink::UniqueFd;

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;

  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  void put(char byte) const { REQUIRE(write(writer.get(), &byte, 1) == 1); }
  char take() const {
    char byte = 0;
    REQUIRE(read(reader.get(), &byte, 1) == 1);
    return byte;
  }
};

// What a test waits for comes; this ends one that would hang.
void give_up_later(MainLoop& loop) {
  loop.at("give up", MainLoop::Clock::now() + std::chrono::minutes(5), [&loop] {
    FAIL_CHECK("nothing happened");
    loop.quit();
  });
}

TEST_CASE("a readable descriptor calls its function as often as there is something") {
  MainLoop loop;
  give_up_later(loop);
  const Pipe pipe;
  std::string read;
  loop.watch(pipe.reader.get(), [&] {
    read += pipe.take();
    if (read.size() == 3) loop.quit();
  });
  for (const char byte : {'a', 'b', 'c'}) pipe.put(byte);
  loop.run();
  CHECK(read == "abc");
}

TEST_CASE("the end and the error of a descriptor are told too") {
  MainLoop loop;
  give_up_later(loop);
  Pipe pipe;
  bool called = false;
  const auto on_readable = [&] {
    called = true;
    loop.quit();
  };
  SECTION("the other end is closed") {
    loop.watch(pipe.reader.get(), on_readable);
    pipe.writer.reset();
  }
  SECTION("nobody reads any more") {
    loop.watch(pipe.writer.get(), on_readable);
    pipe.reader.reset();
  }
  loop.run();
  CHECK(called);
}

TEST_CASE("more descriptors than a few are watched") {
  MainLoop loop;
  give_up_later(loop);
  std::vector<Pipe> pipes(100);
  std::string read;
  for (const auto& pipe : pipes)
    loop.watch(pipe.reader.get(), [&] {
      read += pipe.take();
      if (read.size() == pipes.size()) loop.quit();
    });
  for (const auto& pipe : pipes) pipe.put('x');
  loop.run();
  CHECK(read == std::string(100, 'x'));
}

TEST_CASE("a function may unwatch itself, and is not called again") {
  MainLoop loop;
  give_up_later(loop);
  const Pipe pipe;
  const std::string kept(100, 'k');  // in the function, which must outlive its own removal
  int calls = 0;
  loop.watch(pipe.reader.get(), [&, kept] {
    loop.unwatch(pipe.reader.get());
    loop.at("end", MainLoop::Clock::now() + milliseconds(5), [&] { loop.quit(); });
    calls += kept == std::string(100, 'k') ? 1 : 100;
  });
  pipe.put('x');
  loop.run();
  CHECK(calls == 1);
}

TEST_CASE("a function that is unwatched by another of the same turn is not called") {
  MainLoop loop;
  give_up_later(loop);
  const Pipe one;
  const Pipe two;
  int calls = 0;
  const auto only = [&](const Pipe& other) {
    ++calls;
    loop.unwatch(other.reader.get());
    loop.quit();
  };
  loop.watch(one.reader.get(), [&] { only(two); });
  loop.watch(two.reader.get(), [&] { only(one); });
  one.put('1');
  two.put('2');
  loop.run();
  CHECK(calls == 1);
}

TEST_CASE("a new descriptor of an old number is not called for what the old one had to say") {
  MainLoop loop;
  give_up_later(loop);
  std::array<Pipe, 2> pipes;
  std::vector<Pipe> later;
  int spurious = 0;
  // Whichever is called first closes the other and watches a new pipe in its place.
  const auto replace = [&](Pipe& other) {
    const int number = other.reader.get();
    loop.unwatch(number);
    later.emplace_back();
    REQUIRE(dup2(later.back().reader.get(), number) == number);
    loop.watch(number, [&] { ++spurious; });
    loop.at("end", MainLoop::Clock::now(), [&] { loop.quit(); });
  };
  for (std::size_t i = 0; i < 2; ++i) {
    pipes[i].put('x');
    loop.watch(pipes[i].reader.get(), [&, i] {
      loop.unwatch(pipes[i].reader.get());
      replace(pipes[1 - i]);
    });
  }
  loop.run();
  CHECK(later.size() == 1);
  CHECK(spurious == 0);
}

TEST_CASE("a function may watch, also in its own place") {
  MainLoop loop;
  give_up_later(loop);
  const Pipe one;
  const Pipe two;
  Words words;
  loop.watch(one.reader.get(), [&] {
    words.emplace_back("first");
    one.take();
    loop.watch(one.reader.get(), [&] {
      words.emplace_back("second");
      loop.quit();
    });
    loop.watch(two.reader.get(), [&] {
      words.emplace_back("other");
      two.take();
      one.put('x');
    });
  });
  one.put('x');
  two.put('x');
  loop.run();
  CHECK(words == Words{"first", "other", "second"});
}

TEST_CASE("deadlines are called in their order and not too early") {
  MainLoop loop;
  give_up_later(loop);
  Words words;
  const auto start = MainLoop::Clock::now();
  const auto say = [&](const std::string& word, MainLoop::Clock::time_point when) {
    loop.at(word, when, [&words, word, when] {
      CHECK(MainLoop::Clock::now() >= when);
      words.push_back(word);
    });
  };
  say("third", start + milliseconds(20));
  say("first", MainLoop::Clock::time_point::min());
  say("second", start + milliseconds(10));
  say("second too", start + milliseconds(10));
  say("never", MainLoop::Clock::time_point::max());
  loop.at("end", start + milliseconds(30), [&] { loop.quit(); });
  loop.run();
  CHECK(words == Words{"first", "second", "second too", "third"});
}

TEST_CASE("a deadline is replaced by one of its name, and cancelled") {
  MainLoop loop;
  give_up_later(loop);
  Words words;
  const auto now = MainLoop::Clock::now();
  loop.at("a", now, [&] { words.emplace_back("old"); });
  loop.at("a", now + milliseconds(5), [&] { words.emplace_back("new"); });
  loop.at("b", now, [&] { words.emplace_back("cancelled"); });
  loop.cancel("b");
  loop.cancel("unknown");
  loop.at("c", now + milliseconds(5), [&] {
    words.emplace_back("c");
    loop.cancel("d");
  });
  loop.at("d", now + milliseconds(5), [&] { words.emplace_back("cancelled in its turn"); });
  loop.at("e", now + milliseconds(6), [&] { loop.quit(); });
  loop.run();
  CHECK(words == Words{"new", "c"});
}

TEST_CASE("a deadline that is always due keeps nobody away") {
  MainLoop loop;
  give_up_later(loop);
  const Pipe pipe;
  int calls = 0;
  MainLoop::Function again = [&] {
    if (++calls == 10) pipe.put('x');
    loop.at("again", MainLoop::Clock::time_point::min(), again);
  };
  again();
  loop.watch(pipe.reader.get(), [&] { loop.quit(); });
  loop.run();
  CHECK(calls >= 10);
}

TEST_CASE("what is posted runs in order on the loop's thread") {
  MainLoop loop;
  give_up_later(loop);
  constexpr int kThreads = 3;
  constexpr int kCount = 2'000;
  std::vector<std::vector<int>> seen(kThreads);
  int done = 0;
  const auto home = std::this_thread::get_id();
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCount; ++i)
        loop.post([&, thread, i] {
          if (std::this_thread::get_id() == home) seen[thread].push_back(i);
        });
      loop.post([&] {
        if (++done == kThreads) loop.quit();
      });
    });
  loop.run();
  for (auto& thread : threads) thread.join();
  std::vector<int> expected;
  for (int i = 0; i < kCount; ++i) expected.push_back(i);
  for (const auto& numbers : seen) CHECK(numbers == expected);
}

TEST_CASE("what is posted wakes a loop that waits for hours") {
  MainLoop loop;
  give_up_later(loop);
  std::thread thread;
  // Posted from the loop, so that the thread starts when the loop is about to wait.
  loop.post([&] { thread = std::thread([&] { loop.post([&] { loop.quit(); }); }); });
  loop.run();
  thread.join();
  SUCCEED("it woke");
}

TEST_CASE("a function that posts itself keeps nobody away") {
  MainLoop loop;
  give_up_later(loop);
  const Pipe pipe;
  int calls = 0;
  MainLoop::Function again = [&] {
    if (++calls == 10) pipe.put('x');
    loop.post(again);
  };
  loop.post(again);
  loop.watch(pipe.reader.get(), [&] { loop.quit(); });
  loop.run();
  CHECK(calls >= 10);
}

TEST_CASE("a loop ends after the function that quits it, and can be run again") {
  MainLoop loop;
  give_up_later(loop);
  const Pipe pipe;
  Words words;
  loop.watch(pipe.reader.get(), [&] { words.emplace_back("readable"); });
  pipe.put('x');
  loop.at("due", MainLoop::Clock::time_point::min(), [&] {
    words.emplace_back("due");
    loop.quit();
  });
  loop.post([&] {
    words.emplace_back("quits");
    loop.quit();
  });
  loop.post([&] {
    words.emplace_back("waits");
    pipe.take();
    loop.unwatch(pipe.reader.get());
  });
  loop.run();
  CHECK(words == Words{"quits"});
  loop.run();
  CHECK(words == Words{"quits", "waits", "due"});
}

TEST_CASE("quit from another thread counts, also before run") {
  MainLoop loop;
  give_up_later(loop);
  bool called = false;
  loop.post([&] { called = true; });
  std::thread([&] { loop.quit(); }).join();
  loop.run();
  CHECK_FALSE(called);
  std::thread thread;
  loop.post([&] { thread = std::thread([&] { loop.quit(); }); });
  loop.run();
  thread.join();
  CHECK(called);
}

TEST_CASE("signals are told with their number") {
  MainLoop loop;
  give_up_later(loop);
  std::vector<int> seen;
  loop.on_signals({SIGUSR1, SIGUSR2}, [&](int signal) {
    seen.push_back(signal);
    if (signal == SIGUSR1)
      raise(SIGUSR2);
    else
      loop.quit();
  });
  raise(SIGUSR1);
  loop.run();
  CHECK(seen == std::vector<int>{SIGUSR1, SIGUSR2});
}

TEST_CASE("each signal has one function, the newest") {
  MainLoop loop;
  give_up_later(loop);
  Words words;
  loop.on_signals({SIGUSR1, SIGUSR2}, [&](int) { words.emplace_back("old"); });
  loop.on_signals({SIGUSR2}, [&](int) {
    words.emplace_back("new");
    loop.quit();
  });
  raise(SIGUSR1);
  raise(SIGUSR2);
  loop.run();
  CHECK(words == Words{"old", "new"});
}

TEST_CASE("a signal to the process reaches the loop, whichever thread runs") {
  MainLoop loop;
  give_up_later(loop);
  int seen = 0;
  loop.on_signals({SIGUSR1}, [&](int signal) {
    seen = signal;
    loop.quit();
  });
  std::thread thread;  // started later: the signal is blocked in it too
  loop.post([&] { thread = std::thread([] { kill(getpid(), SIGUSR1); }); });
  loop.run();
  thread.join();
  CHECK(seen == SIGUSR1);
}

// Fewer descriptors than are open: no new one can be had.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    auto none = before_;
    none.rlim_cur = 0;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Nothing but `use` runs without descriptors: UBSan needs some of its own to look at a Catch
// object.
bool throws_without_descriptors(const MainLoop::Function& use) {
  const NoDescriptors none;
  try {
    use();
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

TEST_CASE("a system without descriptors is an exception, not a loop that hangs") {
  MainLoop loop;
  CHECK(throws_without_descriptors([] { MainLoop(); }));
  CHECK(throws_without_descriptors([&] { loop.on_signals({SIGUSR1}, [](int) {}); }));
  CHECK(throws_without_descriptors([&] { loop.run(); }));
}

}  // namespace
}  // namespace ipvsproxier::loop
