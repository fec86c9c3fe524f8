// Reads a JSON object that someone else wrote.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "draftsmith/base/check.h"

namespace draftsmith {

// An object of a JSON file, read key by key. Errors name file and key; a null counts as absent.
class JsonKeys {
 public:
  JsonKeys(const nlohmann::json& object, std::string where, std::string file)
      : object_(object), where_(std::move(where)), file_(std::move(file)) {}

  bool has(const std::string& key) const { return find(key) != nullptr; }
  // "config.json: 'rope_parameters.factor'", for messages.
  std::string name(const std::string& key) const { return file_ + ": '" + where_ + key + "'"; }

  const nlohmann::json* find(const std::string& key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  const nlohmann::json& get(const std::string& key) const {
    const nlohmann::json* value = find(key);
    require(value != nullptr, name(key), " is missing");
    return *value;
  }
  std::int64_t integer(const std::string& key) const { return to_integer(get(key), key); }
  std::int64_t integer(const std::string& key, std::int64_t fallback) const {
    return has(key) ? integer(key) : fallback;
  }
  double number(const std::string& key) const {
    const nlohmann::json& value = get(key);
    require(value.is_number() && std::isfinite(value.get<double>()), name(key), " must be a number");
    return value.get<double>();
  }
  double number(const std::string& key, double fallback) const { return has(key) ? number(key) : fallback; }
  bool flag(const std::string& key) const {
    require(get(key).is_boolean(), name(key), " must be true or false");
    return get(key).get<bool>();
  }
  bool flag(const std::string& key, bool fallback) const { return has(key) ? flag(key) : fallback; }
  std::string text(const std::string& key) const {
    require(get(key).is_string(), name(key), " must be a string");
    return get(key).get<std::string>();
  }
  std::vector<std::int64_t> integers(const std::string& key) const {
    require(get(key).is_array(), name(key), " must be a list of whole numbers");
    std::vector<std::int64_t> list;
    for (const nlohmann::json& element : get(key)) list.push_back(to_integer(element, key));
    return list;
  }
  // The object under `key`; an empty one when absent.
  JsonKeys object(const std::string& key) const {
    static const nlohmann::json kEmpty = nlohmann::json::object();
    const nlohmann::json* value = find(key);
    require(value == nullptr || value->is_object(), name(key), " must be an object");
    return JsonKeys(value != nullptr ? *value : kEmpty, where_ + key + ".", file_);
  }

 private:
  std::int64_t to_integer(const nlohmann::json& value, const std::string& key) const {
    require(value.is_number_integer(), name(key), " must hold whole numbers");
    require(!value.is_number_unsigned() ||
                value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
            name(key), " is too large");
    return value.get<std::int64_t>();
  }
  const nlohmann::json& object_;
  std::string where_, file_;
};

}  // namespace draftsmith
