#include "cmd/ipvsctl/names/text_store.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace ipvsproxier::ctl {
namespace {

TEST_CASE("texts of any length are found again, wherever blocks end") {
  const std::vector<std::size_t> lengths = {0,      1, 60'000,  5'000, 0,       65'532, 65'533,
                                            65'536, 7, 200'000, 3,     300'000, 0,      12};
  TextStore store;
  std::vector<std::pair<TextStore::Id, std::string>> kept;
  for (const auto length : lengths) {
    const std::string text(length, static_cast<char>('a' + kept.size()));
    kept.emplace_back(store.add(text), text);
  }
  for (int i = 0; i < 20'000; ++i) {
    const auto text = "web-" + std::to_string(i);
    kept.emplace_back(store.add(text), text);
  }
  for (const auto& [id, text] : kept) REQUIRE(store.at(id) == text);
}

TEST_CASE("a text that is shared is there once, and stays where it is") {
  TextStore store;
  const auto node = store.intern("node-1");
  const auto* const where = store.at(node).data();
  CHECK(store.intern("node-2") != node);
  CHECK(store.add("node-1") != node);
  for (int i = 0; i < 20'000; ++i) store.add("pod-" + std::to_string(i));
  CHECK(store.intern(std::string("node-") + "1") == node);
  CHECK(store.at(node).data() == where);
  const auto moved = std::move(store);
  CHECK(moved.at(node) == "node-1");
}

}  // namespace
}  // namespace ipvsproxier::ctl
