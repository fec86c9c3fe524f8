// Tests the reader alone, with tensors as the engine would show them.
#include "draftsmith/target/llama/taps.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include "draftsmith/store/test_folder.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kHidden = 3;

class Engine {
 public:
  Engine() : backend_(ggml_backend_cpu_init()) {}
  ~Engine() { ggml_backend_free(backend_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Shows a tensor of `rows` rows of first, first + 1, ... and returns true when the engine should go on.
  bool show(TapReader& reader, const std::string& name, std::int64_t rows, float first, std::int64_t width = kHidden,
            ggml_type type = GGML_TYPE_F32) const {
    ggml_context* context =
        ggml_init({.mem_size = ggml_tensor_overhead() * 4, .mem_buffer = nullptr, .no_alloc = true});
    ggml_tensor* tensor = ggml_new_tensor_2d(context, type, width, rows);
    ggml_set_name(tensor, name.c_str());
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend_);
    std::vector<float> values(static_cast<std::size_t>(width * rows));
    for (float& value : values) value = first++;
    ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    const bool wanted = TapReader::receive(tensor, true, &reader);
    const bool go_on = !wanted || TapReader::receive(tensor, false, &reader);
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return go_on;
  }

 private:
  ggml_backend_t backend_;
};

std::vector<float> list(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST(TapReader, PutsRowsSideBySideInTheOrderAskedFor) {
  const Engine engine;
  const std::vector<std::int64_t> taps = {2, 0};
  TapReader reader(taps, kHidden, true, false);
  reader.start(3);
  for (const std::int64_t rows : {2, 1}) {  // the engine ran the batch in two parts
    const float shift = rows == 2 ? 0.0f : 6.0f;
    EXPECT_TRUE(engine.show(reader, "l_out-0", rows, 100 + shift));
    EXPECT_TRUE(engine.show(reader, "l_out-1", rows, 200 + shift));
    EXPECT_TRUE(engine.show(reader, "l_out-2", rows, 300 + shift));
    EXPECT_TRUE(engine.show(reader, "result_norm", rows, 400 + shift));
  }
  EXPECT_NO_THROW(reader.finish());
  EXPECT_EQ(list(reader.rows()), (std::vector<float>{300, 301, 302, 100, 101, 102, 303, 304, 305, 103, 104, 105, 306,
                                                     307, 308, 106, 107, 108}));
  EXPECT_EQ(list(reader.final_states()), (std::vector<float>{400, 401, 402, 403, 404, 405, 406, 407, 408}));
}

TEST(TapReader, StopsTheEngineAfterTheLastThingWanted) {
  const Engine engine;
  TapReader reader(std::vector<std::int64_t>{0, 1}, kHidden, false, true);
  reader.start(4);
  EXPECT_TRUE(engine.show(reader, "l_out-0", 2, 0));
  EXPECT_FALSE(engine.show(reader, "l_out-1", 2, 0));
  EXPECT_TRUE(engine.show(reader, "l_out-0", 2, 0));  // the second part of the batch
  EXPECT_FALSE(engine.show(reader, "l_out-1", 2, 0));
  EXPECT_NO_THROW(reader.finish());
}

TEST(TapReader, ALayerThatIsNotShownIsRefusedByName) {
  const Engine engine;
  TapReader reader(std::vector<std::int64_t>{0, 1}, kHidden, false, true);
  reader.start(2);
  EXPECT_TRUE(engine.show(reader, "l_out-0", 2, 0));
  EXPECT_USER_ERROR(reader.finish(), "does not show the output of layer 1", "l_out-1");
  reader.start(2);
  EXPECT_TRUE(engine.show(reader, "l_out-0", 2, 0));
  engine.show(reader, "l_out-1", 1, 0);  // the engine dropped a row whose logits nobody wants
  EXPECT_USER_ERROR(reader.finish(), "showed 1 rows of the output of layer 1 for 2 tokens", "l_out-1");
}

TEST(TapReader, AnotherShapeIsRefusedAndStopsTheEngine) {
  const Engine engine;
  TapReader reader(std::vector<std::int64_t>{0}, kHidden, false, false);
  reader.start(2);
  EXPECT_FALSE(engine.show(reader, "l_out-0", 2, 0, kHidden + 1));
  EXPECT_USER_ERROR(reader.finish(), "l_out-0 of [4, 2, 1] f32", "cannot be tapped");
  reader.start(2);
  EXPECT_FALSE(engine.show(reader, "l_out-0", 3, 0));  // more rows than tokens
  EXPECT_USER_ERROR(reader.finish(), "l_out-0", "cannot be tapped");
  reader.start(2);
  EXPECT_FALSE(engine.show(reader, "l_out-0", 2, 0, kHidden, GGML_TYPE_F16));
  EXPECT_USER_ERROR(reader.finish(), "f16", "cannot be tapped");
  reader.start(2);  // and after a refusal the next batch is fine
  EXPECT_TRUE(engine.show(reader, "l_out-0", 2, 0));
  EXPECT_NO_THROW(reader.finish());
}

}  // namespace
}  // namespace draftsmith
