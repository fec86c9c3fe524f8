// Reads config.json of a Hugging Face model folder, for the architectures that are made of the layer in layer.h.
#pragma once

#include <string>

#include "draftsmith/model/decoder_shape.h"

namespace draftsmith {

class JsonKeys;

struct DecoderConfig : DecoderShape {
  std::string architecture;  // "Qwen3ForCausalLM"
  bool tied_head = false;    // the head is the embedding
};

// Throws a UserError that names file and key when a value is missing or wrong, or when the model asks for something
// that the layer does not compute.
DecoderConfig decoder_config_from_json(const std::string& text, const std::string& file_name);

// Reads the base of the rotary positions from rope_parameters or from the top level; it is 10000 when neither has it.
double read_rope_theta(const JsonKeys& keys);
// Reads the scaling from rope_parameters (transformers 5) or rope_scaling (4). `context_length` is taken when the
// length before the scaling is not given. Both functions throw a UserError that names file and key.
RopeScaling read_rope_scaling(const JsonKeys& keys, std::int64_t context_length);

}  // namespace draftsmith
