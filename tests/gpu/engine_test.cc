// What only a GPU can show of the training engine: replaying a graph and running operation by
// operation give the same bits, in every mixer and in everything that goes around a step.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "harness/cells/analyse_cell.h"
#include "harness/cells/evaluate_cell.h"
#include "harness/cells/train.h"
#include "harness/device/device.h"
#include "harness/device/graph.h"
#include "harness/device/graph_nodes.h"
#include "harness/python/draws.h"
#include "harness/suite/registries.h"
#include "harness/suite/suite.h"
#include "harness/training/batch.h"
#include "harness/training/model.h"
#include "harness/training/trainer.h"
#include "io/json.h"
#include "reports/result/result_json.h"
#include "tests/support/compare.h"

#include "tests/support/catch2.h"

namespace mixerbench::harness {
namespace {

const Registries& AllRegistries() {
  static const Registries registries;
  return registries;
}

at::Device Gpu() {
  SetNumerics(/*allow_tf32=*/false);
  return ParseDevice("cuda");
}

// Two lengths, last batches of 6 and 18 samples, dropout: 10 steps an epoch.
constexpr const char* kMixture = R"({"name": "mixture",
    "task": {"name": "mqar", "vocab_size": 128,
             "train": {"input_seq_len": [16, 40], "num_kv_pairs": [2, 5],
                       "num_examples": [102, 114]},
             "validation": {"num_examples": 70}, "test": {"input_seq_len": [16, 64], "num_kv_pairs": [2, 5], "num_examples": 70}},
    "model": {"d_model": 16, "n_layers": 2, "embed_dropout": 0.1, "resid_dropout": 0.2},
    "train": {"lr": 0.005, "batch_size": 24, "eval_batch_tokens": 768, "num_epochs": 4,
              "grad_clip": 1.0, "early_stop_accuracy": 0}})";

Cell MakeCell(const char* suite, io::Settings set) {
  SuiteOverrides overrides;
  overrides.device_type = "cuda";
  overrides.set = std::move(set);
  return ParseSuite(suite, overrides, AllRegistries()).cells.at(0);
}

struct Trained {
  std::map<std::string, at::Tensor> parameters;
  std::vector<float> losses;  // of every step `losses_per_step`: the loss, then auxiliary ones
  std::size_t losses_per_step = 0;
  std::string failure;
};

// Three epochs of the mixture by the trainer alone: every shape is run, captured and replayed.
Trained TrainMixture(const Cell& cell, bool use_graphs) {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  GraphContext graphs(gpu, use_graphs);
  const Model model = BuildModel(cell, gpu, AllRegistries());
  Trainer trainer(cell, model, graphs, AllRegistries());
  Trained trained;
  trained.losses_per_step = static_cast<std::size_t>(trainer.losses().num_losses());
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    trainer.BeginEpoch(epoch);
    for (std::int64_t i = 0; i < trainer.steps_per_epoch(); ++i) trainer.Step();
    trainer.losses().Post(trainer.step());
    const auto losses = trainer.losses().Take(/*leave_newest=*/false);
    for (const auto& step : losses->values) {
      trained.losses.insert(trained.losses.end(), step.begin(), step.end());
    }
  }
  for (const auto& parameter : model.parameters->parameters()) {
    trained.parameters[parameter.name] = parameter.tensor.detach().cpu();
  }
  trained.failure = graphs.eager_reason();
  return trained;
}

TEST_CASE("engine: graph and eager steps give the same bits, for every mixer") {
  for (const auto& [name, entry] : AllRegistries().mixers.entries()) {
    std::vector<Value> configs = entry.test_configs;
    configs.insert(configs.begin(), Object{});
    for (Value config : configs) {
      config.as_object()["name"] = name;
      for (const char* dtype : {"fp32", "bf16"}) {
        for (const char* dropout : {"0", "0.2"}) {
          const Cell cell = MakeCell(kMixture, {{"model.sequence_mixer", io::DumpJson(config)},
                                                {"model.embed_dropout", dropout},
                                                {"model.resid_dropout", dropout},
                                                {"train.dtype", dtype}});
          INFO(io::DumpJson(config) << " " << dtype << " dropout " << dropout);
          const Trained graph = TrainMixture(cell, true);
          const Trained eager = TrainMixture(cell, false);
          CHECK(graph.failure.empty());
          INFO(graph.failure);
          REQUIRE(graph.losses.size() == 30 * graph.losses_per_step);
          CHECK(graph.losses == eager.losses);
          CHECK(graph.losses.front() != graph.losses[29 * graph.losses_per_step]);
          for (const auto& [parameter, value] : graph.parameters) {
            INFO(parameter);
            CHECK(testing::BitwiseEqual(value, eager.parameters.at(parameter)));
          }
        }
      }
    }
  }
}

std::string Checksum(const reports::CellResult& result) {
  INFO(result.reason);
  CHECK(result.state == reports::CellState::kCompleted);
  return io::DumpJson(*reports::CellToValue(result).Find("integrity"));
}

reports::CellResult Run(const Cell& cell, const RunControl& control,
                        const Registries& registries = AllRegistries()) {
  return RunTrainCell(cell, Gpu(), registries, control, [](const Progress&) {});
}

TEST_CASE("engine: a whole cell has the same checksum with and without graphs") {
  for (const char* model :
       {R"({"backbone": "zoology", "d_model": 16, "resid_dropout": 0.1, "positions": "learned",
            "sequence_mixer": {"name": "attention"}})",
        R"({"backbone": "mad", "d_model": 16, "sequence_mixer": {"name": "delta_net"}})"}) {
    for (const char* mode : {"scored", "all_tokens", "target_only", "weighted"}) {
      const Cell cell = MakeCell(kMixture, {{"model", model}, {"train.loss_mode", mode}});
      INFO(model << " " << mode);
      const reports::CellResult graph = Run(cell, {});
      CHECK(Checksum(graph) == Checksum(Run(cell, {.use_graphs = false})));
      for (const auto& plan : graph.plans) {
        if (plan.phase == "train_step") CHECK(plan.eager_reason == "");
      }
    }
  }
}

TEST_CASE("engine: kept weights are evaluated to the bits of a training, and taps are read") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "engine_weights";
  std::filesystem::create_directories(folder);
  const RunControl control{.weights_folder = folder, .max_weight_bytes = 1 << 20};
  SuiteOverrides overrides;
  overrides.device_type = "cuda";
  const std::string test = R"({"input_seq_len": [16, 64, 100], "num_kv_pairs": [2, 5, 5],
                               "num_examples": 70})";
  overrides.set = {{"model.sequence_mixer.name", "delta_net"},
                   {"evaluate", "[" + test + R"(, {"reset_write_gate": {"share": 0.3}},
                                {"reset_write_gate": {"first_token": 0, "last_token": 63}}])"},
                   {"analyse", R"([{"taps": ["write_gate"], "num_examples": 70}])"}};
  const auto cells = ParseSuite(kMixture, overrides, AllRegistries()).cells;
  REQUIRE(cells.size() == 5);
  REQUIRE(Run(cells[0], control).weights);
  const auto silent = [](const Progress&) {};
  const auto evaluated = RunEvaluateCell(cells[1], Gpu(), AllRegistries(), control, silent);
  INFO(evaluated.reason);
  REQUIRE(evaluated.state == reports::CellState::kCompleted);
  const auto inside = Run(
      MakeCell(kMixture, {{"model.sequence_mixer.name", "delta_net"}, {"task.test", test}}), {});
  const auto rows = [](const reports::CellResult& result) {
    return io::DumpJson(*reports::CellToValue(result).Find("accuracy_by_length"));
  };
  CHECK(rows(evaluated) == rows(inside));

  for (const std::size_t reset : {2, 3}) {  // positions and means are those of the CPU
    const auto nll = [&](at::Device device) {
      const auto result = RunEvaluateCell(cells[reset], device, AllRegistries(), control, silent);
      INFO(result.reason);
      REQUIRE(result.state == reports::CellState::kCompleted);
      return result.accuracy.front().nll.value();
    };
    CHECK(nll(Gpu()) == Approx(nll(at::kCPU)).epsilon(1e-4));
  }

  const auto analysed = RunAnalyseCell(cells[4], Gpu(), AllRegistries(), control, silent);
  INFO(analysed.reason);
  REQUIRE(analysed.state == reports::CellState::kCompleted);
  REQUIRE(analysed.taps.size() == 4);  // two layers on two segments
  for (const auto& row : analysed.taps) {
    CHECK(row.num_not_finite == 0);
    CHECK(*row.min > 0);
    CHECK(*row.max < 1);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("engine: samples made on the CPU train to the same bits as those made on the GPU") {
  Registries host_only;
  host_only.device_generators = tasks::DeviceGeneratorRegistry("device generator");
  const Cell cell = MakeCell(kMixture, {{"model.sequence_mixer.name", "gla"}});
  const std::string expected = Checksum(Run(cell, {}));
  CHECK(Checksum(Run(cell, {}, host_only)) == expected);
  CHECK(Checksum(Run(cell, {.use_graphs = false}, host_only)) == expected);
}

TEST_CASE("engine: a cell that was stopped and continued under graphs ends with the same bits") {
  const Cell cell = MakeCell(kMixture, {{"model.sequence_mixer.name", "delta_net"}});
  const std::string expected = Checksum(Run(cell, {}));
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "engine_test";
  std::filesystem::create_directories(folder);
  int attempts = 0;
  reports::CellResult result;
  do {
    int questions = 0;
    // Every attempt gets 7 steps further, or as many evaluation batches.
    result = Run(cell, {.stop_requested = [&] { return ++questions > 7; },
                        .checkpoint_folder = folder,
                        .use_graphs = ++attempts % 3 != 0});
    REQUIRE(attempts < 300);
  } while (result.state == reports::CellState::kInterrupted);
  CHECK(attempts > 5);
  CHECK(Checksum(result) == expected);
  std::filesystem::remove_all(folder);
}

TEST_CASE("engine: divergence under graphs names the step that eager execution names") {
  const Cell cell = MakeCell(kMixture, {{"model.sequence_mixer.name", "attention"},
                                        {"train.weight_decay", "1e10"},
                                        {"train.lr", "10"}});
  const auto graph = Run(cell, {});
  const auto eager = Run(cell, {.use_graphs = false});
  CHECK(graph.state == reports::CellState::kDiverged);
  CHECK(graph.reason == eager.reason);
}

TEST_CASE("engine: work that waits for the device runs on without a graph") {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  GraphContext graphs(gpu, true);
  at::Tensor sum = at::zeros({}, at::TensorOptions().device(gpu));
  RepeatedWork waits(graphs, [&] {
    if (sum.item<float>() < 1000) sum.add_(1);
  });
  for (int i = 0; i < 5; ++i) waits.Run();
  CHECK(sum.item<float>() == 5);
  CHECK_FALSE(graphs.use_graphs());
  CHECK_FALSE(graphs.eager_reason().empty());
  // The device and the allocator are as usable as before, also for graphs of another context.
  GraphContext others(gpu, true);
  RepeatedWork adds(others, [&] { sum.add_(at::ones({}, sum.options())); });
  for (int i = 0; i < 5; ++i) adds.Run();
  CHECK(sum.item<float>() == 10);
  CHECK(others.eager_reason().empty());
}

// What modules in Python draw from, without Python: work may draw in a DrawsOfCall.
class Draws {
 public:
  Draws() { HoldInGraphs({.begin = HoldTorchsGenerators, .work = DrawFrom}); }
  ~Draws() { HoldInGraphs({}); }
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

  // From torch's own generator, in two calls.
  void Draw() {
    for (const at::Tensor& row : drawn_.unbind()) {
      const DrawsOfCall draws(gpu_, /*seed=*/0);
      row.copy_(at::rand({100}, options_));
    }
  }
  const at::Tensor& drawn() const { return drawn_; }

  // What is drawn with each of these seeds in turn.
  std::vector<at::Tensor> Runs(GraphContext& graphs, const std::vector<std::uint64_t>& seeds) {
    RepeatedWork work(graphs, [this] { Draw(); });
    std::vector<at::Tensor> all;
    for (const std::uint64_t seed : seeds) {
      work.Run(seed);
      all.push_back(drawn_.clone());
    }
    return all;
  }

 private:
  at::Device gpu_ = Gpu();
  at::TensorOptions options_ = at::TensorOptions().device(gpu_);
  at::Tensor drawn_ = at::zeros({2, 100}, options_);
};

TEST_CASE("engine: what a module draws comes of a seed, as it is and in a graph") {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  Draws draws;
  GraphContext graphs(gpu, true);
  GraphContext eager(gpu, false);
  const auto expected = draws.Runs(eager, {5, 6});
  CHECK_FALSE(expected[0][0].equal(expected[0][1]));
  CHECK_FALSE(expected[0].equal(expected[1]));
  for (int round = 0; round < 2; ++round) {
    const auto all = draws.Runs(graphs, {5, 5, 6, 5});
    CAPTURE(round, graphs.eager_reason());
    CHECK(graphs.use_graphs());
    for (const std::size_t i : {0, 1, 3}) CHECK(all[i].equal(expected[0]));
    CHECK(all[2].equal(expected[1]));
  }
}

TEST_CASE("engine: a capture that breaks leaves what other graphs of the cell draw as it was") {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  Draws draws;
  GraphContext eager(gpu, false);
  const auto expected = draws.Runs(eager, {5})[0];
  GraphContext graphs(gpu, true);
  RepeatedWork captured(graphs, [&] { draws.Draw(); });
  for (int i = 0; i < 3; ++i) captured.Run(5);
  REQUIRE(captured.is_graph());
  RepeatedWork waits(graphs, [&] {
    draws.Draw();
    draws.drawn().sum().item<float>();
  });
  for (int i = 0; i < 3; ++i) {
    for (RepeatedWork* work : {&waits, &captured}) {
      draws.drawn().zero_();
      work->Run(5);
      CHECK(draws.drawn().equal(expected));
    }
  }
  CHECK(captured.is_graph());
  CHECK_FALSE(waits.is_graph());
}

TEST_CASE("engine: what is drawn outside of repeated work comes of a seed, and torch's own stays") {
  const at::Device gpu = Gpu();
  const auto options = at::TensorOptions().device(gpu);
  at::Generator torchs = at::globalContext().defaultGenerator(gpu);
  torchs.set_current_seed(1);
  const at::Tensor own = at::rand({100}, options);
  torchs.set_current_seed(1);
  std::vector<at::Tensor> drawn;
  for (const std::uint64_t seed : {3, 3, 4}) {
    const DrawsOfCall draws(gpu, seed);
    drawn.push_back(at::rand({100}, options));
  }
  CHECK(drawn[1].equal(drawn[0]));
  CHECK_FALSE(drawn[2].equal(drawn[0]));
  CHECK(at::rand({100}, options).equal(own));
}

TEST_CASE("engine: work that seeds torch's generator fails") {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  const Draws draws;
  GraphContext graphs(gpu, true);
  RepeatedWork seeds(graphs, [&] {
    const DrawsOfCall call(gpu, 0);
    at::Generator(at::globalContext().defaultGenerator(gpu)).set_current_seed(1);
  });
  CHECK_THROWS_WITH(seeds.Run(5), Catch::Matchers::Contains("changes the seed"));
}

TEST_CASE("engine: draws of one cell run beside captures of another") {
  const at::Device gpu = Gpu();
  const auto options = at::TensorOptions().device(gpu);
  Draws draws;
  std::atomic<bool> is_done = false;
  auto drawing = std::async(std::launch::async, [&] {
    const StreamScope stream(gpu);
    int num_drawn = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (; !is_done && std::chrono::steady_clock::now() < end; ++num_drawn) {
      {
        const DrawsOfCall call(gpu, 7);
        at::rand({100}, options);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));  // the lock is not a fair one
    }
    return num_drawn;
  });
  const StreamScope stream(gpu);
  for (int i = 0; i < 50; ++i) {
    GraphContext graphs(gpu, true);
    draws.Runs(graphs, {5, 5, 5});
    CHECK(graphs.eager_reason().empty());
  }
  is_done = true;
  CHECK(drawing.get() > 0);
}

// Counts the memset nodes.
std::size_t NumMemsets(cudaGraph_t graph) {
  std::size_t count = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  std::vector<cudaGraphNode_t> nodes(count);
  REQUIRE(cudaGraphGetNodes(graph, nodes.data(), &count) == cudaSuccess);
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [](auto node) {
    cudaGraphNodeType type{};
    return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeMemset;
  }));
}

TEST_CASE("engine: small memsets of a graph become kernels in the same place") {
  const at::Device gpu = Gpu();
  const StreamScope scope(gpu);
  CUstream_st* const stream = CurrentStream(gpu);
  const auto bytes = at::TensorOptions(at::kByte).device(gpu);
  for (const std::int64_t size : {1, 4, 6, 1000, 10000}) {
    const bool is_small = size <= 1000;
    const auto num_bytes = static_cast<std::size_t>(size);
    const at::Tensor x = at::zeros({size + 1}, bytes);  // and one that nobody may touch
    const at::Tensor before = at::zeros({size}, bytes);
    const at::Tensor between = at::zeros({size}, bytes);
    Synchronize(gpu);
    const auto copy_x_to = [&](const at::Tensor& y) {
      cudaMemcpyAsync(y.data_ptr(), x.data_ptr(), num_bytes, cudaMemcpyDeviceToDevice, stream);
    };
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    copy_x_to(before);
    cudaMemsetAsync(x.data_ptr(), 0x5a, num_bytes, stream);
    copy_x_to(between);
    cudaMemsetAsync(x.data_ptr(), 3, num_bytes, stream);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(NumMemsets(graph) == 2);
    int num_replaced = 0;
    REQUIRE(ReplaceSmallMemsets(graph, num_replaced) == cudaSuccess);
    CAPTURE(size);
    CHECK(num_replaced == (is_small ? 2 : 0));
    CHECK(NumMemsets(graph) == (is_small ? 0 : 2));
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    for (int run = 0; run < 2; ++run) {
      REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
      Synchronize(gpu);
      CHECK(before.eq(run == 0 ? 0 : 3).all().item<bool>());
      CHECK(between.eq(0x5a).all().item<bool>());
      CHECK(x.narrow(0, 0, size).eq(3).all().item<bool>());
      CHECK(x[size].item<int>() == 0);
    }
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  }
}

TEST_CASE("engine: graphs that come when all others are gone are captured too") {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  GraphContext graphs(gpu, true);
  at::Tensor sum = at::zeros({}, at::TensorOptions().device(gpu));
  for (int round = 0; round < 3; ++round) {
    RepeatedWork adds(graphs, [&] { sum.add_(at::ones({}, sum.options())); });
    for (int i = 0; i < 4; ++i) adds.Run();
    CAPTURE(round, graphs.eager_reason());
    CHECK(graphs.use_graphs());
  }
  CHECK(sum.item<float>() == 12);
}

TEST_CASE("engine: a stream that is in use is given to nobody else") {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  CUstream_st* const own = CurrentStream(gpu);
  CUstream_st* reused = nullptr;
  for (int i = 0; i < 100; ++i) {  // more than libtorch has
    {
      const StreamScope other(gpu);
      REQUIRE(CurrentStream(gpu) != own);
      if (i > 0) CHECK(CurrentStream(gpu) == reused);
      reused = CurrentStream(gpu);
    }
    REQUIRE(CurrentStream(gpu) == own);
  }
}

TEST_CASE("engine: the host runs ahead of the device by a window and no further") {
  const at::Device gpu = Gpu();
  const StreamScope stream(gpu);
  LaunchWindow window(gpu);
  at::Tensor x = at::full({4096, 4096}, 1.0 / 4096, at::TensorOptions().device(gpu));
  std::vector<c10::Event> done;
  for (std::size_t i = 0; i < 4 * LaunchWindow::kDepth; ++i) {
    x = x.mm(x);  // takes longer than queueing it
    done.emplace_back(gpu.type()).record(c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu));
    window.Advance();
    if (i >= LaunchWindow::kDepth) CHECK(done[i - LaunchWindow::kDepth].query());
  }
}

TEST_CASE("engine: lists of scored positions are those of the CPU") {
  const at::Device gpu = Gpu();
  at::Generator generator = MakeGenerator(at::kCPU, 3);
  for (const std::int64_t seq_len : {1, 31, 32, 33, 200}) {
    const std::int64_t max_scored = (seq_len + 1) / 2 + 3;
    const at::Tensor values = at::randint(0, 50, {37, seq_len}, generator, at::kInt);
    at::Tensor labels = values.masked_fill(values.remainder(3).ne(0), tasks::kIgnore);
    labels.narrow(1, 0, seq_len / 2).fill_(tasks::kIgnore);
    const ScoredRows cpu = ListScored(labels, max_scored);
    const ScoredRows cuda = ListScored(labels.to(gpu), max_scored);
    CHECK(cuda.rows.positions.cpu().equal(cpu.rows.positions));
    CHECK(cuda.targets.cpu().equal(cpu.targets));
    CHECK(cuda.rows.inverse.cpu().equal(cpu.rows.inverse));
  }
}

}  // namespace
}  // namespace mixerbench::harness
