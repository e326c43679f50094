// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/inputs/json_changes.h"

#include <random>
#include <vector>

#include <nlohmann/json.hpp>

namespace kdagen::testing {
namespace {

using json = nlohmann::ordered_json;

/// All values of the document with what they lie in.
struct Place {
  json* value;
  json* parent;
};

void list_places(json& value, json* parent, std::vector<Place>& places) {
  places.push_back({&value, parent});
  if (value.is_structured())
    for (json& inner : value) list_places(inner, &value, places);
}

json another(const json& value, std::minstd_rand& random) {
  static const std::vector<json> atoms{nullptr,
                                       true,
                                       false,
                                       0,
                                       1,
                                       -1,
                                       2,
                                       8,
                                       16,
                                       128,
                                       4096,
                                       4097,
                                       2147483648,
                                       1e308,
                                       1e-310,
                                       -0.0,
                                       0.5,
                                       18446744073709551615u,
                                       "",
                                       "x",
                                       "t",
                                       "f32",
                                       json::array(),
                                       json::object()};
  if (value.is_number_integer() && random() % 2) return value.get<std::int64_t>() + (random() % 2 ? 1 : -1);
  if (value.is_number() && random() % 2) return value.get<double>() * (random() % 2 ? -2 : 0.5);
  return atoms[random() % atoms.size()];
}

void change_once(json& document, std::minstd_rand& random) {
  std::vector<Place> places;
  list_places(document, nullptr, places);
  const Place place = places[random() % places.size()];
  const json other = *places[random() % places.size()].value;
  switch (random() % 5) {
    case 0:
      *place.value = another(*place.value, random);
      return;
    case 1:
      if (other.size() < 200) *place.value = other;
      return;
    case 2:  // one of the same kind, which is more likely to be taken
      for (unsigned tries = 0; tries < 20; ++tries) {
        const json& candidate = *places[random() % places.size()].value;
        if (candidate.type() != place.value->type() || candidate == *place.value || candidate.is_structured()) continue;
        *place.value = json(candidate);
        return;
      }
      return;
    case 3:
      if (!place.parent) return;
      if (place.parent->is_array())
        place.parent->erase(place.parent->begin() + (place.value - &(*place.parent)[0]));
      else
        for (auto it = place.parent->begin(); it != place.parent->end(); ++it)
          if (&it.value() == place.value) {
            place.parent->erase(it);
            return;
          }
      return;
    default:
      if (place.parent && place.parent->is_array())
        place.parent->push_back(json(*place.value));
      else if (place.parent)
        (*place.parent)[std::string(1, static_cast<char>('a' + random() % 26))] = other;
  }
}

}  // namespace

std::string change_json(const std::string& bytes, unsigned seed) {
  json document = json::parse(bytes, nullptr, false);
  if (document.is_discarded()) return "";
  std::minstd_rand random(seed);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) change_once(document, random);
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace kdagen::testing
