#include <string>

#include <catch2/catch.hpp>

#include "proxier/watch/known_objects.h"
#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using test::Words;

api::NamespacedName name_of(const std::string& name) {
  return {"shop", name};
}

api::Object service(const std::string& name, const std::string& address) {
  api::Service service;
  service.name = name_of(name);
  service.cluster_ips = {netlink::IpAddress::parse(address).value()};
  return service;
}

struct Objects : KnownObjects {
  Objects() : KnownObjects(api::ObjectKind::service) {}
  Words put(const std::string& name, const std::string& version, const std::string& address) {
    model::Changes changes;
    KnownObjects::put(name_of(name), version, service(name, address), changes);
    return test::words_of(changes);
  }
  Words remove(const std::string& name, const std::string& version) {
    model::Changes changes;
    KnownObjects::remove(name_of(name), version, changes);
    return test::words_of(changes);
  }
  void list(const std::string& name, const std::string& version, const std::string& address) {
    KnownObjects::list(name_of(name), version, service(name, address));
  }
  Words end_list(const std::string& version) {
    model::Changes changes;
    KnownObjects::end_list(version, {}, changes);
    return test::words_of(changes);
  }
};

// web and db, listed at version 10.
Objects two_listed() {
  Objects objects;
  objects.begin_list();
  objects.list("web", "3", "10.0.0.1");
  objects.list("db", "7", "10.0.0.2");
  REQUIRE(objects.end_list("10") == Words{"db 10.0.0.2", "web 10.0.0.1"});
  return objects;
}

TEST_CASE("a list is a difference to what was known") {
  auto objects = two_listed();
  CHECK(objects.version() == "10");
  objects.begin_list();
  SECTION("nothing changed") {
    objects.list("web", "3", "10.0.0.1");
    objects.list("db", "7", "10.0.0.2");
    CHECK(objects.end_list("20").empty());
  }
  SECTION("a version alone is no change") {
    objects.list("web", "15", "10.0.0.1");
    objects.list("db", "", "10.0.0.2");
    CHECK(objects.end_list("20").empty());
  }
  SECTION("one changed, one went, one came") {
    objects.list("web", "15", "10.0.0.9");
    objects.list("new", "16", "10.0.0.3");
    CHECK(objects.end_list("20") == Words{"db gone", "new 10.0.0.3", "web 10.0.0.9"});
    CHECK(objects.size() == 2);
  }
  SECTION("all went") {
    CHECK(objects.end_list("20") == Words{"db gone", "web gone"});
    CHECK(objects.size() == 0);
  }
  SECTION("a list that was begun anew counts from there") {
    objects.list("web", "15", "10.0.0.9");
    objects.begin_list();
    objects.list("db", "7", "10.0.0.2");
    CHECK(objects.end_list("20") == Words{"web gone"});
  }
  SECTION("a server that was set back is believed") {
    objects.list("web", "2", "10.0.0.8");
    CHECK(objects.end_list("5") == Words{"db gone", "web 10.0.0.8"});
    CHECK(objects.version() == "5");
    CHECK(objects.put("web", "6", "10.0.0.1") == Words{"web 10.0.0.1"});
  }
}

TEST_CASE("what cannot be read in a list stays as it was") {
  auto objects = two_listed();
  objects.begin_list();
  objects.list_unreadable(name_of("web"));
  objects.list_unreadable(name_of("new"));
  CHECK(objects.end_list("20") == Words{"db gone"});
  CHECK(objects.size() == 1);
  CHECK(objects.put("web", "21", "10.0.0.1").empty());
}

TEST_CASE("a list with something that has no name removes nothing") {
  auto objects = two_listed();
  objects.begin_list();
  objects.list_unnamed();
  objects.list("web", "11", "10.0.0.9");
  CHECK(objects.end_list("20") == Words{"web 10.0.0.9"});
  objects.begin_list();
  CHECK(objects.end_list("30") == Words{"db gone", "web gone"});
}

TEST_CASE("what happens while a list is read is part of it") {
  auto objects = two_listed();
  objects.begin_list();
  objects.list("web", "12", "10.0.0.9");
  objects.list("web", "11", "10.0.0.8");  // older
  objects.list("db", "7", "10.0.0.2");
  objects.list_deleted(name_of("db"), "13");
  objects.list("db", "12", "10.0.0.2");  // older
  objects.list("new", "14", "10.0.0.3");
  objects.list_deleted(name_of("new"), "12");  // older
  CHECK(objects.end_list("20") == Words{"db gone", "new 10.0.0.3", "web 10.0.0.9"});
}

TEST_CASE("events change what is known") {
  auto objects = two_listed();
  CHECK(objects.put("web", "11", "10.0.0.9") == Words{"web 10.0.0.9"});
  CHECK(objects.put("web", "12", "10.0.0.9").empty());  // equal
  CHECK(objects.put("new", "13", "10.0.0.3") == Words{"new 10.0.0.3"});
  CHECK(objects.remove("db", "14") == Words{"db gone"});
  CHECK(objects.remove("other", "15").empty());
  CHECK(objects.version() == "15");
  CHECK(objects.size() == 2);
}

TEST_CASE("old events do nothing") {
  auto objects = two_listed();
  CHECK(objects.put("web", "20", "10.0.0.9") == Words{"web 10.0.0.9"});
  CHECK(objects.put("web", "19", "10.0.0.1").empty());
  CHECK(objects.put("web", "20", "10.0.0.1").empty());
  CHECK(objects.remove("web", "18").empty());
  // Before the list, which has them all.
  CHECK(objects.put("ancient", "9", "10.0.0.7").empty());
  CHECK(objects.remove("db", "10").empty());
  // Another object's event that comes late is news.
  CHECK(objects.put("db", "15", "10.0.0.4") == Words{"db 10.0.0.4"});
  CHECK(objects.version() == "20");
}

TEST_CASE("a deletion is not undone by what was before it") {
  auto objects = two_listed();
  CHECK(objects.remove("web", "20") == Words{"web gone"});
  CHECK(objects.put("web", "19", "10.0.0.1").empty());
  CHECK(objects.remove("new", "22").empty());  // its creation comes late
  CHECK(objects.put("new", "21", "10.0.0.3").empty());
  SECTION("nor after a bookmark") {
    CHECK(objects.bookmark("30"));
    CHECK(objects.put("web", "19", "10.0.0.1").empty());
    CHECK(objects.put("new", "21", "10.0.0.3").empty());
  }
  CHECK(objects.put("web", "31", "10.0.0.1") == Words{"web 10.0.0.1"});
}

TEST_CASE("a deletion with the version of the object counts") {
  auto objects = two_listed();
  CHECK(objects.put("web", "20", "10.0.0.9") == Words{"web 10.0.0.9"});
  CHECK(objects.remove("web", "20") == Words{"web gone"});
}

TEST_CASE("a bookmark moves the version, but not back") {
  auto objects = two_listed();
  CHECK(objects.bookmark("12"));
  CHECK(objects.version() == "12");
  CHECK(objects.bookmark("12"));
  CHECK_FALSE(objects.bookmark("11"));
  CHECK(objects.version() == "12");
}

TEST_CASE("versions that cannot be compared are taken as they come") {
  Objects objects;
  objects.begin_list();
  objects.list("web", "aa", "10.0.0.1");
  objects.end_list("zz");
  CHECK(objects.version() == "zz");
  CHECK(objects.put("web", "bb", "10.0.0.2") == Words{"web 10.0.0.2"});
  CHECK(objects.put("web", "ab", "10.0.0.3") == Words{"web 10.0.0.3"});
  CHECK(objects.remove("web", "ab") == Words{"web gone"});
  CHECK(objects.bookmark("aa"));
  CHECK(objects.version() == "aa");
  CHECK(objects.put("web", "", "10.0.0.3") == Words{"web 10.0.0.3"});
  CHECK(objects.version() == "aa");
}

}  // namespace
}  // namespace ipvsproxier::watch
