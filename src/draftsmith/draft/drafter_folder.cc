#include "draftsmith/draft/drafter_folder.h"

#include "draftsmith/draft/families.h"
#include "draftsmith/nn/tensor_io.h"
#include "draftsmith/store/files.h"

namespace draftsmith {

LoadedDrafter read_drafter_folder(const std::filesystem::path& folder, const Place& place) {
  const std::filesystem::path config_file = folder / "config.json";
  const DrafterConfig config =
      drafter_config_from_json(read_text_file(config_file, std::size_t{1} << 24), config_file.string());
  const SafetensorsFolder files(folder);
  LoadedDrafter loaded;
  // Names and shapes are checked before memory is taken for them.
  loaded.drafter = make_drafter(config, place, [&](const std::string& name, const at::Tensor& shape, Role) {
    const std::string stored = !files.has(name) && files.has("model." + name) ? "model." + name : name;
    return float_tensor_from_safetensors(files.file_of(stored), stored, shape.sizes().vec());
  });
  if (config.draft_vocab_size > 0)
    loaded.vocab = read_draft_vocab(files.file_of(kDraftVocabTensor), config.draft_vocab_size, config.vocab_size);
  return loaded;
}

}  // namespace draftsmith
