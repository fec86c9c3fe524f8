// config.json of a Hugging Face model folder, for the architectures that are made of the layer in layer.h.
#pragma once

#include <string>

#include "draftsmith/model/decoder_shape.h"

namespace draftsmith {

class JsonKeys;

struct DecoderConfig : DecoderShape {
  std::string architecture;  // "Qwen3ForCausalLM"
  bool tied_head = false;    // the head is the embedding
};

// UserError naming file and key where the model asks for something that the layer does not compute.
DecoderConfig decoder_config_from_json(const std::string& text, const std::string& file_name);

// The base of the rotary positions: in rope_parameters, or at the top; 10000 where neither has it.
double read_rope_theta(const JsonKeys& keys);
// The scaling in rope_parameters (transformers 5) or rope_scaling (4). `context_length` stands in for a length before
// the scaling that is not given.
RopeScaling read_rope_scaling(const JsonKeys& keys, std::int64_t context_length);

}  // namespace draftsmith
