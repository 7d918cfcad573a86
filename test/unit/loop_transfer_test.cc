// Transfers of curl on the loop, of files: they need no server.

#include <curl/curl.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "proxier/loop/main_loop.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::loop {
namespace {

struct FileTransfer final : Transfer {
  FileTransfer(const std::string& path, std::function<void(FileTransfer&)> then)
      : on_end(std::move(then)) {
    curl_easy_setopt(handle, CURLOPT_URL, ("file://" + path).c_str());
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &take);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, this);
  }
  FileTransfer(const FileTransfer&) = delete;
  FileTransfer& operator=(const FileTransfer&) = delete;
  ~FileTransfer() override {
    curl_easy_cleanup(handle);
    if (gone != nullptr) ++*gone;
  }

  static std::size_t take(char* data, std::size_t, std::size_t size, void* self) {
    auto& transfer = *static_cast<FileTransfer*>(self);
    transfer.text.append(data, size);
    if (transfer.on_data) transfer.on_data();
    return size;
  }
  void* easy() override { return handle; }
  void on_done(int result) override {
    outcome = result;
    on_end(*this);
  }

  CURL* handle = curl_easy_init();
  std::string text;
  int outcome = -1;
  int* gone = nullptr;
  std::function<void()> on_data;
  std::function<void(FileTransfer&)> on_end;
};

struct Rig {
  test::TempDir folder;
  MainLoop loop;
  std::string file = folder.path() / "file";

  Rig() {
    std::ofstream(file) << "some text";
    loop.at("give up", loop.now() + std::chrono::minutes(5), [this] {
      FAIL_CHECK("nothing happened");
      loop.quit();
    });
  }
  FileTransfer& start(const std::string& path, std::function<void(FileTransfer&)> then) {
    auto transfer = std::make_unique<FileTransfer>(path, std::move(then));
    auto& started = *transfer;
    loop.start(std::move(transfer));
    return started;
  }
};

TEST_CASE("a transfer runs on the loop and tells how it ended") {
  Rig rig;
  rig.start(rig.file, [&](FileTransfer& first) {
    CHECK(first.outcome == CURLE_OK);
    CHECK(first.text == "some text");
    rig.start(rig.file + "x", [&](FileTransfer& second) {
      CHECK(second.outcome == CURLE_FILE_COULDNT_READ_FILE);
      rig.loop.quit();
    });
  });
  rig.loop.run();
}

TEST_CASE("a transfer may be dropped at any time") {
  int gone = 0;
  Rig rig;
  const auto never = [](FileTransfer&) { FAIL_CHECK("it was dropped"); };
  SECTION("before it began") {
    auto& transfer = rig.start(rig.file, never);
    transfer.gone = &gone;
    rig.loop.drop(transfer);
    CHECK(gone == 1);
    rig.start(rig.file, [&](FileTransfer&) { rig.loop.quit(); });
  }
  SECTION("by itself, from its data") {
    auto& transfer = rig.start(rig.file, never);
    transfer.gone = &gone;
    transfer.on_data = [&] {
      rig.loop.drop(transfer);
      CHECK(gone == 0);  // it still runs
      rig.loop.at("later", rig.loop.now() + std::chrono::milliseconds(20),
                  [&] { rig.loop.quit(); });
    };
  }
  SECTION("by itself, from its end") {
    auto& transfer = rig.start(rig.file, [&](FileTransfer& self) {
      rig.loop.drop(self);
      CHECK(gone == 0);
      rig.loop.post([&] { rig.loop.quit(); });
    });
    transfer.gone = &gone;
  }
  SECTION("by another, from its end") {
    // Whichever comes first drops the other.
    FileTransfer* left = nullptr;
    FileTransfer* right = nullptr;
    const auto drop_other = [&](FileTransfer& self) {
      rig.loop.drop(&self == left ? *right : *left);
      rig.loop.post([&] { rig.loop.quit(); });
    };
    left = &rig.start(rig.file, drop_other);
    right = &rig.start(rig.file, drop_other);
    left->gone = &gone;
    right->gone = &gone;
    rig.loop.run();
    rig.loop.post([&] { rig.loop.quit(); });
  }
  SECTION("when it is done") {
    auto& transfer = rig.start(rig.file, [&](FileTransfer& self) {
      rig.loop.at("later", rig.loop.now(), [&] {
        rig.loop.drop(self);
        CHECK(gone == 1);
        rig.loop.quit();
      });
    });
    transfer.gone = &gone;
  }
  rig.loop.run();
  CHECK(gone <= 1);
  rig.loop.post([&] { rig.loop.quit(); });
  rig.loop.run();
  CHECK(gone == 1);
}

TEST_CASE("a loop that goes takes its transfers with it") {
  int gone = 0;
  {
    Rig rig;
    rig.start(rig.file, [&](FileTransfer&) { rig.loop.quit(); }).gone = &gone;
    rig.loop.run();
    rig.start(rig.file, [](FileTransfer&) {}).gone = &gone;
    CHECK(gone == 0);
  }
  CHECK(gone == 2);
}

}  // namespace
}  // namespace ipvsproxier::loop
