// SPDX-License-Identifier: Apache-2.0
#include "io/line_file.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>
#include <zstd.h>

#include "base/error.h"
#include "io/atomic_file.h"

namespace mixerbench::io {
namespace {

constexpr std::size_t kMaxLine = std::size_t{1} << 20;
constexpr std::size_t kBlock = std::size_t{1} << 18;
constexpr int kLevel = 3;          // of zstd: its default
constexpr int kMaxWindowLog = 27;  // memory that a file may ask for: 128 MiB

bool IsCompressed(const std::filesystem::path& path) { return path.extension() == ".zst"; }

// Puts lines together from blocks.
class LineSplitter {
 public:
  using Each = std::function<void(std::string_view line, std::int64_t number)>;

  LineSplitter(const std::filesystem::path& path, const Each& each) : path_(path), each_(each) {}

  void Add(std::string_view block) {
    for (std::size_t end = block.find('\n'); end != block.npos; end = block.find('\n')) {
      partial_.append(block.substr(0, end));
      CheckLength();
      each_(partial_, ++number_);
      partial_.clear();
      block.remove_prefix(end + 1);
    }
    partial_.append(block);
    CheckLength();
  }

  void Finish() {
    if (!partial_.empty()) each_(partial_, ++number_);
  }

 private:
  void CheckLength() const {
    if (partial_.size() <= kMaxLine) return;
    throw Error(ExitCode::kBadInput,
                path_.string() + ": line " + std::to_string(number_ + 1) + " is above 1 MiB");
  }

  const std::filesystem::path& path_;
  const Each& each_;
  std::string partial_;
  std::int64_t number_ = 0;
};

// What a file of these bytes stands for, block by block.
class Decompressor {
 public:
  explicit Decompressor(const std::filesystem::path& path)
      : path_(path), context_(ZSTD_createDCtx(), ZSTD_freeDCtx), block_(ZSTD_DStreamOutSize()) {
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  void Add(std::string_view bytes, LineSplitter& lines) {
    ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
    bool is_full = false;
    while (input.pos < input.size || is_full) {
      ZSTD_outBuffer output{block_.data(), block_.size(), 0};
      const std::size_t left = ZSTD_decompressStream(context_.get(), &output, &input);
      if (ZSTD_isError(left) != 0) Fail(ZSTD_getErrorName(left));
      lines.Add({block_.data(), output.pos});
      is_whole_ = left == 0;
      is_full = output.pos == output.size;  // it may hold more
    }
  }

  void Finish() const {
    if (!is_whole_) Fail("it is cut off");
  }

 private:
  [[noreturn]] void Fail(const std::string& why) const {
    throw Error(ExitCode::kBadInput, path_.string() + ": is no whole zstd file: " + why);
  }

  const std::filesystem::path& path_;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_;
  std::vector<char> block_;
  bool is_whole_ = false;
};

}  // namespace

// Gathers lines to blocks, compresses them if asked to, and writes them one after the other.
class LineWriter::Output {
 public:
  explicit Output(const std::filesystem::path& path) : file_(path) {
    if (!IsCompressed(path)) return;
    context_.reset(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
    compressed_.resize(ZSTD_CStreamOutSize());
  }

  void Add(std::string_view line) {
    pending_.append(line);
    pending_ += '\n';
    if (pending_.size() >= kBlock) Flush(/*is_last=*/false);
  }

  void Commit() {
    Flush(/*is_last=*/true);
    file_.Commit();
  }

 private:
  void Flush(bool is_last) {
    if (context_) {
      Compress(is_last);
    } else {
      Write(pending_);
    }
    pending_.clear();
  }

  void Compress(bool is_last) {
    ZSTD_inBuffer input{pending_.data(), pending_.size(), 0};
    const ZSTD_EndDirective directive = is_last ? ZSTD_e_end : ZSTD_e_continue;
    for (std::size_t left = 1; is_last ? left > 0 : input.pos < input.size;) {
      ZSTD_outBuffer output{compressed_.data(), compressed_.size(), 0};
      left = ZSTD_compressStream2(context_.get(), &output, &input, directive);
      if (ZSTD_isError(left) != 0) {
        throw Error(ExitCode::kInternal, std::string("zstd: ") + ZSTD_getErrorName(left));
      }
      Write({compressed_.data(), output.pos});
    }
  }

  void Write(std::string_view bytes) {
    file_.WriteAt(num_bytes_, bytes);
    num_bytes_ += bytes.size();
  }

  AtomicFile file_;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context_{nullptr, ZSTD_freeCCtx};
  std::string pending_;
  std::vector<char> compressed_;
  std::uint64_t num_bytes_ = 0;
};

LineWriter::LineWriter(const std::filesystem::path& path)
    : output_(std::make_unique<Output>(path)) {}
LineWriter::~LineWriter() = default;
void LineWriter::Add(std::string_view line) { output_->Add(line); }
void LineWriter::Commit() { output_->Commit(); }

void ReadLines(const std::filesystem::path& path,
               const std::function<void(std::string_view line, std::int64_t number)>& each) {
  const InputFile file(path);
  LineSplitter lines(path, each);
  std::optional<Decompressor> decompressor;
  if (IsCompressed(path)) decompressor.emplace(path);
  std::vector<char> block(kBlock);
  for (std::uint64_t at = 0; at < file.size(); at += block.size()) {
    block.resize(std::min<std::uint64_t>(kBlock, file.size() - at));
    file.ReadAt(at, block);
    if (decompressor) {
      decompressor->Add({block.data(), block.size()}, lines);
    } else {
      lines.Add({block.data(), block.size()});
    }
  }
  if (decompressor) decompressor->Finish();
  lines.Finish();
}

}  // namespace mixerbench::io
