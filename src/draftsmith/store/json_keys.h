// Reads a JSON object that someone else wrote, such as a model's config.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace draftsmith {

// Reads an object of a JSON file key by key. Errors name file and key; a null counts as absent.
class JsonKeys {
 public:
  // Throws a UserError when `text` is not a JSON object.
  JsonKeys(const std::string& text, const std::string& file);

  bool has(const std::string& key) const;
  // Names a key in messages: "config.json: 'rope_parameters.factor'".
  std::string name(const std::string& key) const;

  // These throw a UserError when the key is missing and there is no fallback, or when its value has another type.
  std::int64_t integer(const std::string& key) const;
  std::int64_t integer(const std::string& key, std::int64_t fallback) const;
  double number(const std::string& key) const;  // finite
  double number(const std::string& key, double fallback) const;
  bool flag(const std::string& key) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  std::vector<std::int64_t> integers(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  // Returns the object under `key`, or an empty one when the key is absent.
  JsonKeys object(const std::string& key) const;

 private:
  struct Value;  // what a key holds
  JsonKeys(std::shared_ptr<const Value> object, std::string where, std::string file);
  Value get(const std::string& key) const;
  std::int64_t to_integer(const Value& value, const std::string& key) const;

  std::shared_ptr<const Value> object_;
  std::string where_, file_;
};

}  // namespace draftsmith
