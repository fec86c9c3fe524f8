// Tests which engine a path goes to, and what no engine reads.
#include "draftsmith/target/open.h"

#include <gtest/gtest.h>

#include <fstream>

#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace {

TEST(OpenTarget, AFileGoesToLlama) {
  EXPECT_NO_THROW(check_target_path(DRAFTSMITH_DEPS_DIR "/llama.cpp/models/ggml-vocab-gpt-2.gguf"));
  EXPECT_USER_ERROR(open_target(DRAFTSMITH_DEPS_DIR "/llama.cpp/models/ggml-vocab-gpt-2.gguf", {}),
                    "ggml-vocab-gpt-2.gguf", "holds a vocabulary without weights");
  EXPECT_USER_ERROR(open_target("/nowhere/model.gguf", {}), "/nowhere/model.gguf", "");
}

TEST(OpenTarget, AFolderIsRefusedInWords) {
  const TestFolder folder;
  std::ofstream(folder / "model.safetensors") << "x";
  EXPECT_USER_ERROR(open_target(folder.path(), {}), folder.path().string() + ": is a folder",
                    "Hugging Face (safetensors) are not supported as targets yet; convert the model to GGUF");
  EXPECT_USER_ERROR(read_head(folder.path()), "convert the model to GGUF", "");
  EXPECT_USER_ERROR(check_target_path(folder.path()), "convert the model to GGUF", "");
}

}  // namespace
}  // namespace draftsmith
