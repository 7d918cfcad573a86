#include "proxier/watch/event_framer.h"

#include <algorithm>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

namespace ipvsproxier::watch {
namespace {

using Lines = std::vector<std::string>;
using Mode = EventFramer::Mode;
using Piece = EventFramer::Piece;

// Documents with a letter for their piece, a small one for a beginning, and at the end the error,
// if there is one.
class Collected {
 public:
  explicit Collected(Mode mode, std::size_t max_document = EventFramer::kMaxDocument)
      : framer_(mode, max_document) {}

  bool feed(std::string_view chunk) {
    const auto status = framer_.feed(chunk, [this](Piece piece, std::string_view document) {
      lines_.push_back("EIeiL"[static_cast<std::size_t>(piece)] + std::string(document));
    });
    if (!status) error_ = status.error().where;
    return status.has_value();
  }

  Lines finish() {
    const auto status = framer_.finish();
    if (!status) error_ = status.error().where;
    if (!status) CHECK(status.error().kind == netlink::ErrorKind::malformed);
    if (!error_.empty()) lines_.push_back("error: " + error_);
    return lines_;
  }

  const EventFramer& framer() const { return framer_; }
  const Lines& lines() const { return lines_; }

 private:
  EventFramer framer_;
  Lines lines_;
  std::string error_;
};

Lines frame(Mode mode, const std::string& body, std::size_t chunk,
            std::size_t max_document = 1000) {
  Collected collected(mode, max_document);
  for (std::size_t at = 0; at < body.size(); at += chunk) {
    // A copy of its own, so that a read beyond the chunk is one beyond an allocation.
    const std::string piece = body.substr(at, chunk);
    if (!collected.feed(piece)) break;
  }
  return collected.finish();
}

// The same in one piece and torn anywhere.
Lines frame_all_ways(Mode mode, const std::string& body) {
  const auto whole = frame(mode, body, body.size() + 1);
  for (std::size_t chunk = 1; chunk <= std::min<std::size_t>(body.size(), 9); ++chunk) {
    CAPTURE(chunk, body);
    CHECK(frame(mode, body, chunk) == whole);
  }
  return whole;
}

TEST_CASE("a watch's documents, whatever stands between them") {
  const auto [body, expected] = GENERATE(table<std::string, Lines>({
      {"", {}},
      {" \r\n\t", {}},
      {"{}", {"E{}"}},
      {"{\"a\":1}\n{\"b\":[2,{}]}\n", {"E{\"a\":1}", "E{\"b\":[2,{}]}"}},
      {"\n{\"a\":1}{\"b\":2}  {}", {"E{\"a\":1}", "E{\"b\":2}", "E{}"}},
      {R"({"a":"}]{[\"}"}{"\\":"\\\\"}{"\\\"{":1})",
       {R"(E{"a":"}]{[\"}"})", R"(E{"\\":"\\\\"})", R"(E{"\\\"{":1})"}},
      {"{\"text\":\"\xc3\xa4\\u0022\"}", {"E{\"text\":\"\xc3\xa4\\u0022\"}"}},
      {std::string("{\"a\":\"\0\"}", 9), {std::string("E{\"a\":\"\0\"}", 10)}},
  }));
  CHECK(frame_all_ways(Mode::watch, body) == expected);
}

TEST_CASE("what is no watch gives one error, after what was sound") {
  const std::string no_json = "error: the answer is no JSON of the API: ";
  const auto [body, expected] = GENERATE_COPY(table<std::string, Lines>({
      {"<html>", {no_json + "'<' at offset 0 where '{' is expected"}},
      {"{}\n[1]", {"E{}", no_json + "'[' at offset 3 where '{' is expected"}},
      {"{},{}", {"E{}", no_json + "',' at offset 2 where '{' is expected"}},
      {std::string("{}\0{}", 5), {"E{}", no_json + "byte 0x00 at offset 2 where '{' is expected"}},
      {"\xef\xbb\xbf{}", {no_json + "byte 0xef at offset 0 where '{' is expected"}},
      {"{}}", {"E{}", no_json + "'}' at offset 2 where '{' is expected"}},
      {"{}{\"a\":", {"E{}", "error: the answer ends inside a document, after 7 bytes"}},
      {"{\"a\":\"}", {"error: the answer ends inside a document, after 7 bytes"}},
      {"{\"a\":\"\\", {"error: the answer ends inside a document, after 7 bytes"}},
  }));
  CHECK(frame_all_ways(Mode::watch, body) == expected);
}

TEST_CASE("a list's items come one by one, its envelope at the end") {
  const auto [body, expected] = GENERATE(table<std::string, Lines>({
      {R"({"kind":"L","metadata":{"a":"b"},"items":[{"n":1}, {"n":[2]}]})",
       {R"(I{"n":1})", R"(I{"n":[2]})", R"(L{"kind":"L","metadata":{"a":"b"},"items":[]})"}},
      {R"({"items":[],"kind":"L"})", {R"(L{"items":[],"kind":"L"})"}},
      {" {\n \"items\" : [\n {} ,\n{} ] , \"k\" : 1 }\n",
       {"I{}", "I{}", "L{\n \"items\" : [] , \"k\" : 1 }"}},
      {R"({"items":null})", {R"(L{"items":null})"}},
      {R"({"items":{"a":[1]}})", {R"(L{"items":{"a":[1]}})"}},
      {R"({"items":"[","x":["items"],"items":[{}]})",
       {"I{}", R"(L{"items":"[","x":["items"],"items":[]})"}},
      // Only the list's own key counts: no value, no key further in, none that ends so.
      {R"({"a":"items","b":{"items":[{}]},"c":[{"items":[1]}],"my-items":[2]})",
       {R"(L{"a":"items","b":{"items":[{}]},"c":[{"items":[1]}],"my-items":[2]})"}},
      {R"({"a\"items":[1],"items":[{"items":[{}]}]})",
       {R"(I{"items":[{}]})", R"(L{"a\"items":[1],"items":[]})"}},
      {R"({"kind":"Status","code":410})", {R"(L{"kind":"Status","code":410})"}},
  }));
  CHECK(frame_all_ways(Mode::list, body) == expected);
}

TEST_CASE("what is no list gives one error, after what was sound") {
  const std::string no_json = "error: the answer is no JSON of the API: ";
  const auto [body, expected] = GENERATE_COPY(table<std::string, Lines>({
      {"", {"error: the answer is empty"}},
      {"[]", {no_json + "'[' at offset 0 where '{' is expected"}},
      {"{\"items\":[1]}", {no_json + "'1' at offset 10 where an object is expected"}},
      {"{\"items\":[,{}]}", {no_json + "',' at offset 10 where an object is expected"}},
      {"{\"items\":[{},]}", {"I{}", no_json + "']' at offset 13 where an object is expected"}},
      {"{\"items\":[{}{}]}", {"I{}", no_json + "'{' at offset 12 where ',' or ']' is expected"}},
      {"{\"items\":[]}x",
       {"L{\"items\":[]}", no_json + "'x' at offset 12 where nothing is expected"}},
      {"{\"items\":[{}", {"I{}", "error: the answer ends inside a document, after 12 bytes"}},
      {"{\"items\":[{},", {"I{}", "error: the answer ends inside a document, after 13 bytes"}},
      {"{\"items\":[{}]", {"I{}", "error: the answer ends inside a document, after 13 bytes"}},
      {"{\"items\":[{\"a", {"error: the answer ends inside a document, after 13 bytes"}},
  }));
  CHECK(frame_all_ways(Mode::list, body) == expected);
}

TEST_CASE("of an object above the bound the beginning comes, and all that follows it") {
  const std::string fits = "{\"a\":\"" + std::string(92, 'x') + "\"}";
  const std::string exceeds = "{\"a\":\"" + std::string(93, 'x') + "\"}";
  const std::string error = "error: a document of the answer is larger than 100 bytes";
  REQUIRE(fits.size() == 100);
  const auto chunk = GENERATE(as<std::size_t>(), 1, 7, 99, 100, 101, 1000);
  CAPTURE(chunk);
  CHECK(frame(Mode::watch, fits + fits, chunk, 100) == Lines{"E" + fits, "E" + fits});
  const std::string beginning = exceeds.substr(0, 100);
  CHECK(frame(Mode::watch, fits + exceeds + fits, chunk, 100) ==
        Lines{"E" + fits, "e" + beginning, "E" + fits});
  const std::string before = "{\"items\":[";
  CHECK(frame(Mode::list, before + fits + "," + fits + "]}", chunk, 100) ==
        Lines{"I" + fits, "I" + fits, "L{\"items\":[]}"});
  CHECK(frame(Mode::list, before + fits + "," + exceeds + "," + fits + "]}", chunk, 100) ==
        Lines{"I" + fits, "i" + beginning, "I" + fits, "L{\"items\":[]}"});
  CHECK(frame(Mode::list, before + fits + "],\"a\":\"" + std::string(100, 'x') + "\"}", chunk,
              100) == Lines{"I" + fits, error});
}

TEST_CASE("no buffer is held beyond its document, nor beyond the bound on the way") {
  Collected collected(Mode::watch, 1000);
  CHECK(collected.feed("{\"a\":\"" + std::string(500, 'x')));
  CHECK(collected.framer().pending() == 506);
  CHECK(collected.feed("\"}"));
  CHECK(collected.framer().pending() == 0);
  CHECK(collected.feed("{\"a\":\"" + std::string(30'000, 'x')));
  CHECK(collected.framer().pending() == 1000);
  CHECK_FALSE(collected.feed(std::string(2000, 'x')));
  CHECK(collected.framer().pending() == 0);
  CHECK(collected.lines().size() == 1);
  // The error stays.
  CHECK_FALSE(collected.feed("{}"));
  CHECK(collected.finish().back() == "error: a document of the answer is larger than 32000 bytes");
  CHECK(collected.lines().size() == 2);
}

TEST_CASE("of a beginning no more is kept than is worth it") {
  Collected collected(Mode::watch, 1'000'000);
  const std::string text = "{\"a\":\"" + std::string(1'500'000, 'x') + "\"}";
  CHECK(collected.feed(text.substr(0, 900'000)));
  CHECK(collected.framer().pending() == 900'000);
  CHECK(collected.feed(text.substr(900'000, 300'000)));
  CHECK(collected.framer().pending() == EventFramer::kBeginning);
  CHECK(collected.feed(text.substr(1'200'000) + "{}"));
  CHECK(collected.finish() == Lines{"e" + text.substr(0, EventFramer::kBeginning), "E{}"});
}

// Random JSON of the bytes that framing looks at.
class RandomJson {
 public:
  explicit RandomJson(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t end) { return random_() % end; }

  std::string text() {
    static const std::vector<std::string> kParts = {"\\\"", "\\\\",  "{", "}", "[", "]",
                                                    ",",    "items", ":", " ", "x"};
    std::string result = "\"";
    for (auto i = below(6); i > 0; --i) result += kParts[below(kParts.size())];
    return result + "\"";
  }

  std::string blanks() { return std::string(below(4) == 0 ? below(3) : 0, " \n\t"[below(3)]); }

  std::string value(std::size_t depth) {
    const auto kind = below(depth == 0 ? 2 : 4);
    if (kind == 0) return text();
    if (kind == 1) return std::to_string(below(100));
    return kind == 2 ? object(depth - 1) : list(depth - 1);
  }

  std::string object(std::size_t depth) {
    std::string result = "{";
    for (auto i = below(4); i > 0; --i)
      result += text() + blanks() + ":" + value(depth) + blanks() + (i > 1 ? "," : "");
    return result + "}";
  }

  std::string list(std::size_t depth) {
    std::string result = "[";
    for (auto i = below(4); i > 0; --i) result += value(depth) + (i > 1 ? "," : "") + blanks();
    return result + "]";
  }

 private:
  std::mt19937 random_;
};

TEST_CASE("random documents come out as they went in, in chunks of random sizes") {
  const auto seed = static_cast<std::uint32_t>(Catch::rngSeed());
  CAPTURE(seed);
  RandomJson random(seed);
  for (int round = 0; round < 2000; ++round) {
    const bool is_list = random.below(2) == 0;
    Lines expected;
    std::string body = is_list ? "{\"kind\":" + random.value(2) + ",\"items\":[" : "";
    const std::string head = body;
    for (auto i = random.below(5); i > 0; --i) {
      const auto document = random.object(3);
      expected.push_back((is_list ? "I" : "E") + document);
      body += document + random.blanks() + (is_list && i > 1 ? "," : "");
    }
    const std::string tail = "],\"z\":" + random.value(2) + "}";
    if (is_list) {
      body += tail;
      expected.push_back("L" + head + tail);
    }
    const auto mode = is_list ? Mode::list : Mode::watch;
    CAPTURE(body);
    Collected torn(mode);
    for (std::size_t at = 0; at < body.size();) {
      const std::string chunk = body.substr(at, 1 + random.below(round % 2 == 0 ? 5 : 60));
      CHECK(torn.feed(chunk));
      at += chunk.size();
    }
    CHECK(torn.finish() == expected);
    CHECK(frame(mode, body, body.size() + 1, EventFramer::kMaxDocument) == expected);
    // Cut off anywhere inside, it is an error in all ways.
    const auto cut = body.substr(0, random.below(body.size() + 1));
    CHECK(frame(mode, cut, 3) == frame(mode, cut, cut.size() + 1));
    if (is_list && cut.size() < body.size())
      CHECK(frame(mode, cut, 3).back().rfind("error: the answer", 0) == 0);
  }
}

}  // namespace
}  // namespace ipvsproxier::watch
