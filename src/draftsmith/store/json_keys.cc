#include "draftsmith/store/json_keys.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "draftsmith/base/check.h"

namespace draftsmith {

struct JsonKeys::Value {
  nlohmann::json json;
};

JsonKeys::JsonKeys(const std::string& text, const std::string& file) : file_(file) {
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail(file, " is not valid JSON from byte ", error.byte, " on; it is damaged or cut off");
  }
  require(document.is_object(), file, " must hold a JSON object");
  object_ = std::make_shared<const Value>(Value{std::move(document)});
}

JsonKeys::JsonKeys(std::shared_ptr<const Value> object, std::string where, std::string file)
    : object_(std::move(object)), where_(std::move(where)), file_(std::move(file)) {}

bool JsonKeys::has(const std::string& key) const {
  const auto it = object_->json.find(key);
  return it != object_->json.end() && !it->is_null();
}

std::string JsonKeys::name(const std::string& key) const { return file_ + ": '" + where_ + key + "'"; }

JsonKeys::Value JsonKeys::get(const std::string& key) const {
  require(has(key), name(key), " is missing");
  return {object_->json.at(key)};
}

std::int64_t JsonKeys::to_integer(const Value& value, const std::string& key) const {
  const nlohmann::json& json = value.json;
  require(json.is_number_integer(), name(key), " must hold whole numbers");
  require(!json.is_number_unsigned() ||
              json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
          name(key), " is too large");
  return json.get<std::int64_t>();
}

std::int64_t JsonKeys::integer(const std::string& key) const { return to_integer(get(key), key); }
std::int64_t JsonKeys::integer(const std::string& key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

double JsonKeys::number(const std::string& key) const {
  const nlohmann::json json = get(key).json;
  require(json.is_number() && std::isfinite(json.get<double>()), name(key), " must be a number");
  return json.get<double>();
}
double JsonKeys::number(const std::string& key, double fallback) const { return has(key) ? number(key) : fallback; }

bool JsonKeys::flag(const std::string& key) const {
  const nlohmann::json json = get(key).json;
  require(json.is_boolean(), name(key), " must be true or false");
  return json.get<bool>();
}
bool JsonKeys::flag(const std::string& key, bool fallback) const { return has(key) ? flag(key) : fallback; }

std::string JsonKeys::text(const std::string& key) const {
  const nlohmann::json json = get(key).json;
  require(json.is_string(), name(key), " must be a string");
  return json.get<std::string>();
}
std::string JsonKeys::text(const std::string& key, const std::string& fallback) const {
  return has(key) ? text(key) : fallback;
}

std::vector<std::int64_t> JsonKeys::integers(const std::string& key) const {
  const nlohmann::json json = get(key).json;
  require(json.is_array(), name(key), " must be a list of whole numbers");
  std::vector<std::int64_t> list;
  for (const nlohmann::json& element : json) list.push_back(to_integer({element}, key));
  return list;
}

std::vector<std::string> JsonKeys::texts(const std::string& key) const {
  const nlohmann::json json = get(key).json;
  std::vector<std::string> list;
  for (const nlohmann::json& element : json.is_array() ? json : nlohmann::json::array({nullptr})) {
    require(element.is_string(), name(key), " must be a list of strings");
    list.push_back(element.get<std::string>());
  }
  return list;
}

JsonKeys JsonKeys::object(const std::string& key) const {
  const nlohmann::json json = has(key) ? get(key).json : nlohmann::json::object();
  require(json.is_object(), name(key), " must be an object");
  return {std::make_shared<const Value>(Value{json}), where_ + key + ".", file_};
}

}  // namespace draftsmith
