// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_file.h"

#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

#include "tests/support/catch2.h"

namespace mixerbench::io {
namespace {

TensorFile Example() {
  TensorFile file;
  file.tensors["b.weight"] = {ElementType::kF32, {2, 3}, std::string(24, 'w')};
  file.tensors["a"] = {ElementType::kBF16, {5}, "0123456789"};
  file.tensors["empty"] = {ElementType::kI64, {0, 7}, ""};
  file.tensors["scalar"] = {ElementType::kBool, {}, std::string(1, '\x01')};
  file.metadata["step"] = "17";
  return file;
}

// A file with this header and `data_size` bytes of data.
std::string Raw(const std::string& header, std::size_t data_size) {
  const std::uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + std::string(data_size, 'x');
}

std::string Failure(const std::string& bytes) {
  try {
    ReadSafetensors(bytes, "f");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

std::string NpyFailure(const std::string& bytes) {
  try {
    ReadNpy(bytes, "f");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

// A whole .npy file of int32.
std::string Npy(const std::vector<std::int32_t>& values, const std::vector<std::int64_t>& shape) {
  return NpyHeader(ElementType::kI32, shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4);
}

std::string Tensor(const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "F32") {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_CASE("safetensors: a round trip keeps every tensor; the bytes are fixed") {
  const std::string bytes = WriteSafetensors(Example());
  CHECK(ReadSafetensors(bytes, "f") == Example());
  CHECK(WriteSafetensors(ReadSafetensors(bytes, "f")) == bytes);
  TensorFile one;
  one.tensors["t"] = {ElementType::kU8, {2}, "hi"};
  CHECK(WriteSafetensors(one) == std::string("\x38\0\0\0\0\0\0\0", 8) +
                                     R"({"t":{"data_offsets":[0,2],"dtype":"U8","shape":[2]}}   )" +
                                     "hi");
  one.tensors["t"].bytes = "h";
  CHECK_THROWS_AS(WriteSafetensors(one), std::logic_error);
  CHECK(ReadSafetensors(WriteSafetensors({}), "f") == TensorFile());
}

TEST_CASE("safetensors: every element type has its size") {
  for (const auto& [type, name] : EnumNames<ElementType>::kNames) {
    CAPTURE(std::string(name));
    TensorFile file;
    file.tensors["t"] = {type, {3}, std::string(3 * ElementSize(type), 'x')};
    CHECK(ReadSafetensors(WriteSafetensors(file), "f") == file);
  }
}

TEST_CASE("safetensors: lying headers are refused") {
  CHECK_THAT(Failure(""), Catch::Contains("too short"));
  CHECK_THAT(Failure(std::string(8, '\xff')), Catch::Contains("does not fit"));
  CHECK_THAT(Failure(Raw("[]", 0)), Catch::Contains("is not an object"));
  CHECK_THAT(Failure(Raw("{", 0)), Catch::Contains("header: line 1"));
  CHECK_THAT(Failure(Raw(std::string(2 << 20, ' '), 0)), Catch::Contains("limit of 1048576"));
  CHECK_THAT(Failure(Raw(std::string(1000, '['), 0)), Catch::Contains("nested deeper"));
  const auto one = [](const std::string& tensor, std::size_t size) {
    return Failure(Raw(R"({"t":)" + tensor + "}", size));
  };
  CHECK(one(Tensor("[2]", "[0,8]"), 8) == "accepted");
  CHECK_THAT(one(Tensor("[2]", "[0,8]"), 7), Catch::Contains("outside of the file"));
  CHECK_THAT(one(Tensor("[2]", "[0,8]"), 9), Catch::Contains("bytes after the last tensor"));
  CHECK_THAT(one(Tensor("[2]", "[8,0]"), 8), Catch::Contains("outside of the file"));
  CHECK_THAT(one(Tensor("[2]", "[-8,0]"), 8), Catch::Contains("no size or offset"));
  CHECK_THAT(one(Tensor("[3]", "[0,8]"), 8), Catch::Contains("do not hold shape [3] of F32"));
  CHECK_THAT(one(Tensor("[1]", "[4,8]"), 8), Catch::Contains("overlaps another or leaves a gap"));
  CHECK_THAT(one(Tensor("[2]", "[0,8]", "O"), 8), Catch::Contains("dtype O is not supported"));
  CHECK_THAT(one(Tensor("[2.0]", "[0,8]"), 8), Catch::Contains("no size or offset"));
  // 2^32 * 2^32 elements wrap to 0 bytes in 64 bits.
  CHECK_THAT(one(Tensor("[4294967296,4294967296]", "[0,0]"), 0), Catch::Contains("do not hold"));
  const std::string twice =
      R"({"a":)" + Tensor("[2]", "[0,8]") + R"(,"b":)" + Tensor("[2]", "[0,8]") + "}";
  CHECK_THAT(Failure(Raw(twice, 8)), Catch::Contains("overlaps"));
  const std::string same =
      R"({"a":)" + Tensor("[1]", "[0,4]") + R"(,"a":)" + Tensor("[1]", "[4,8]") + "}";
  CHECK_THAT(Failure(Raw(same, 8)), Catch::Contains("duplicate key"));
}

// What is accepted must be consistent: writing it and reading it again gives the same.
TEST_CASE("safetensors: cut and flipped files are refused or read consistently") {
  const std::string good = WriteSafetensors(Example());
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(Failure(good.substr(0, size)) != "accepted");
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      if (Failure(bad) != "accepted") continue;
      const TensorFile file = ReadSafetensors(bad, "f");
      CHECK(ReadSafetensors(WriteSafetensors(file), "f") == file);
    }
  }
}

TEST_CASE("npy: the bytes are those of numpy.save") {
  const std::vector<std::int32_t> values = {1, -2, 3};
  const std::string bytes = Npy(values, {3});
  // Compared once with numpy 2.4.6: np.save(f, np.array([1, -2, 3], np.int32))
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
  CHECK(bytes == std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header +
                     std::string(118 - header.size() - 1, ' ') + "\n" +
                     std::string("\x01\0\0\0\xfe\xff\xff\xff\x03\0\0\0", 12));
  CHECK((bytes.size() - 12) % 64 == 0);
}

TEST_CASE("npy: a round trip keeps shape and values") {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, {6}, {2, 3}, {1, 2, 3}, {0, 4}}) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
    std::iota(values.begin(), values.end(), -3);
    const StoredTensor back = ReadNpy(Npy(values, shape), "f");
    CHECK(back.dtype == ElementType::kI32);
    CHECK(back.shape == shape);
    CHECK(NpyHeader(back.dtype, back.shape) + back.bytes == Npy(values, shape));
  }
  const std::string bytes = NpyHeader(ElementType::kI64, std::vector<std::int64_t>{2});
  CHECK(ReadNpy(bytes + std::string(16, 'x'), "f") ==
        StoredTensor{ElementType::kI64, {2}, std::string(16, 'x')});
  CHECK_THROWS_AS(NpyHeader(ElementType::kF32, std::vector<std::int64_t>{2}), std::logic_error);
}

TEST_CASE("npy: other element types, orders and cut files are refused") {
  const std::string good = Npy({1, 2}, {2});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    return NpyFailure(bad);
  };
  CHECK_THAT(with("'<i4'", "'|O' "), Catch::Contains("'<i4'"));
  CHECK_THAT(with("'<i4'", "'>i4'"), Catch::Contains("'<i4'"));
  CHECK_THAT(with("'<i4'", "'<i8'"), Catch::Contains("do not hold shape [2]"));
  CHECK_THAT(with("False", "True "), Catch::Contains("C-ordered"));
  CHECK_THAT(with("(2,)", "(3,)"), Catch::Contains("do not hold shape [3]"));
  CHECK_THAT(with("(2,), }  ", "(-2,), } "), Catch::Contains("header"));
  CHECK_THAT(with("(2,), }                       ", "(4611686018427387904,4,), }   "),
             Catch::Contains("do not hold"));
  CHECK_THAT(with("NUMPY\x01", "NUMPY\x03"), Catch::Contains("version"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(NpyFailure(good.substr(0, size)) != "accepted");
  }
  for (std::size_t i = 0; i + 8 < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      if (NpyFailure(bad) != "accepted") continue;
      // An accepted flip is one of the version or of a space: the data are the same.
      CHECK(ReadNpy(bad, "f") == ReadNpy(good, "f"));
    }
  }
}

}  // namespace
}  // namespace mixerbench::io
