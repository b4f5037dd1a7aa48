#!/usr/bin/env python3
"""Plants faults and refactors in the two cores of a source tree, chosen at run time by MIXERBENCH_PLANTED.

    plant.py SCALAR_DECAY_CC DELTA_RULE_CC     # rewrites both files, prints the list as JSON

1..20 are faults, 101..120 refactors that change nothing but rounding; 0 or unset changes nothing. The
table of gate/trial/README.md was made with the sources of commit c01dd16, in which the cores are
kernels/linear_attention/simple_gla/simple_gla.cc and kernels/linear_attention/delta_rule/delta_rule.cc.
SPDX-License-Identifier: Apache-2.0
"""

import json
import sys

HELPER = """
#include <cstdlib>
#include <ATen/ATen.h>
namespace mixerbench::kernels {
namespace {
bool Planted(int number) {
  static const int planted = [] {
    const char* text = std::getenv("MIXERBENCH_PLANTED");
    return text ? std::atoi(text) : 0;
  }();
  return planted == number;
}
// Rounded to bf16, as an accumulator of that type would be.
at::Tensor Rounded(const at::Tensor& x) { return x.to(at::kBFloat16).to(x.scalar_type()); }
}  // namespace
}  // namespace mixerbench::kernels
"""

# (number, core, what, the line that is replaced, by what)
SCALAR, DELTA = "simple_gla", "gated_delta_net"
PLANTS = [
    # --- faults -----------------------------------------------------------------------------------
    (1, SCALAR, "off by one: a chunk's state decays by the chunk before", "state * decay[i])",
     "state * decay[Planted(1) && i > 0 ? i - 1 : Planted(1) ? decay.size() - 1 : i])"),
    (2, SCALAR, "off by one: what a token writes decays once more", "k_carried = k * at::exp(b_last - b).unsqueeze(-1);",
     "k_carried = k * at::exp(b_last - b).unsqueeze(-1);\n    if (Planted(2)) k_carried = k_carried * at::exp(SplitChunks(args.log_decay, chunking, sizes.compute_dtype)).unsqueeze(-1);"),
    (3, SCALAR, "missing mask: tokens read later ones of their chunk", "scores = scores * CausalDecay(b);",
     "scores = Planted(3) ? scores * at::exp(b.total().unsqueeze(-1) * 0) : scores * CausalDecay(b);"),
    (4, SCALAR, "mask off by one: a token does not read itself", "auto o = at::bmm(scores, v);",
     "if (Planted(4)) scores = scores.tril(-1);\n  auto o = at::bmm(scores, v);"),
    (5, SCALAR, "scale of the queries forgotten", "* sizes.scale;  // [N R,C,K]", "* (Planted(5) ? 1.0 : sizes.scale);  // [N R,C,K]"),
    (6, SCALAR, "reading a carried state without decay", "q_carried = q * at::exp(b.total()).unsqueeze(-1);",
     "if (!Planted(6)) q_carried = q * at::exp(b.total()).unsqueeze(-1);"),
    (7, SCALAR, "writing to the carried state without decay", "decay = at::exp(b_last.total()).unsqueeze(-1).chunk(num_chunks);",
     "if (Planted(7)) k_carried = k;\n    decay = at::exp(b_last.total()).unsqueeze(-1).chunk(num_chunks);"),
    (8, SCALAR, "state lost between chunks", "if (num_chunks > 1 || args.initial_state.defined()) {",
     "if (!Planted(8) && (num_chunks > 1 || args.initial_state.defined())) {"),
    (9, SCALAR, "carried state accumulated in bf16", "(decay.empty() ? state :", "(Planted(9) ? Rounded(state) * decay[i] : decay.empty() ? state :"),
    (10, SCALAR, "no gradient through the carried writes", "at::bmm(k_carried.mT(), v).chunk(num_chunks);  // N x [R,K,V]",
     "at::bmm(k_carried.mT(), Planted(10) ? v.detach() : v).chunk(num_chunks);  // N x [R,K,V]"),
    (11, DELTA, "beta not applied to the values", "const auto beta_v = v * beta;", "const auto beta_v = Planted(11) ? v : v * beta;"),
    (12, DELTA, "beta missing in the erasure inside a chunk", "auto lower = at::bmm(beta_k, k.mT());", "auto lower = at::bmm(Planted(12) ? k : beta_k, k.mT());"),
    (13, DELTA, "sign of the erasure inside a chunk", "lower = lower.tril(-1);", "lower = Planted(13) ? -lower.tril(-1) : lower.tril(-1);"),
    (14, DELTA, "erasure of the carried state forgotten", "at::baddbmm(u, w, states.entering, /*beta=*/1, /*alpha=*/-1);",
     "at::baddbmm(u, w, states.entering, /*beta=*/1, /*alpha=*/Planted(14) ? 0 : -1);"),
    (15, DELTA, "erasing keys not decayed", "k_erasing = beta_k * entering_decay;", "k_erasing = Planted(15) ? beta_k : beta_k * entering_decay;"),
    (16, DELTA, "decay missing between pairs of a chunk's keys", "lower = lower * pair_decay;", "if (!Planted(16)) lower = lower * pair_decay;"),
    (17, DELTA, "mask off by one: a token does not read itself", "const auto y = at::baddbmm(u,",
     "if (Planted(17)) scores = scores.tril(-1);\n  const auto y = at::baddbmm(u,"),
    (18, DELTA, "pseudo-values rounded to bf16", "const auto& u = wu[1];", "const auto u = Planted(18) ? Rounded(wu[1]) : wu[1];"),
    (19, DELTA, "no gradient through beta in the values", "const auto beta_k = k * beta;",
     "const auto beta_k = k * (Planted(19) ? beta.detach() : beta);"),
    (20, DELTA, "slower: everything in a chunk computed twice more", "  // With pseudo-values Y",
     "  if (Planted(20)) {\n    for (int again = 0; again < 2; ++again) SolveUnitLower(lower, at::cat({k_erasing, beta_v}, -1));\n  }\n  // With pseudo-values Y"),
]
REFACTORS = [
    (101, SCALAR, "products of states in the other order", "const auto i = static_cast<std::size_t>(n);",
     "const auto i = static_cast<std::size_t>(n);\n                                   if (Planted(101)) return writes[i] + decay[i] * state;"),
    (102, SCALAR, "scores from transposed operands", "auto scores = at::bmm(q, k.mT());  // [N R,C,C]\n  auto q_carried",
     "auto scores = Planted(102) ? at::bmm(k, q.mT()).mT() : at::bmm(q, k.mT());\n  auto q_carried"),
    (103, SCALAR, "scale after the product", "auto q_carried = q;                // reads", "if (Planted(103)) scores = at::bmm(q / sizes.scale, k.mT()) * sizes.scale;\n  auto q_carried = q;                // reads"),
    (104, SCALAR, "dense copies before a product", "auto o = at::bmm(scores, v);  ", "auto o = Planted(104) ? at::bmm(scores.contiguous(), v.clone()) : at::bmm(scores, v);  "),
    (105, SCALAR, "chunks of half the length", "CutEvenly(sizes.seq_len, args.chunk_size)",
     "CutEvenly(sizes.seq_len, Planted(105) ? args.chunk_size / 2 : args.chunk_size)"),
    (106, SCALAR, "the product with the values in float64", "  const auto writes = at::bmm", "  if (Planted(106)) o = at::bmm(scores.to(at::kDouble), v.to(at::kDouble)).to(v.scalar_type());\n  const auto writes = at::bmm"),
    (107, SCALAR, "output as a sum of two products", "o = at::baddbmm(o, q_carried, states.entering);", "o = Planted(107) ? o + at::bmm(q_carried, states.entering) : at::baddbmm(o, q_carried, states.entering);"),
    (108, SCALAR, "output as the sum of its halves", "  if (!Planted(8) &&",
     "  if (Planted(108)) o = (o * 0.5) + (o * 0.5);\n  if (!Planted(8) &&"),
    (109, SCALAR, "halves of the values one after the other", "  const auto states = ScanChunks", "  if (Planted(109)) {\n    const auto half = v.size(2) / 2;\n    o = at::cat({at::bmm(scores, v.narrow(2, 0, half)), at::bmm(scores, v.narrow(2, half, v.size(2) - half))}, 2);\n  }\n  const auto states = ScanChunks"),
    (110, SCALAR, "a mask that the decays imply already, applied once more", "auto o = Planted(104)", "if (Planted(110)) scores = scores.tril();\n  auto o = Planted(104)"),
    (111, DELTA, "beta on the other side of the product", "const auto beta_v = ", "const auto beta_v = Planted(111) ? beta * v : "),
    (112, DELTA, "scores from transposed operands", "auto lower = at::bmm(", "if (Planted(112)) scores = at::bmm(k, q.mT()).mT();\n  auto lower = at::bmm("),
    (113, DELTA, "the triangular system in float64", "const auto wu = SolveUnitLower(lower, at::cat({k_erasing, beta_v}, -1))",
     "const auto wu = (Planted(113) ? SolveUnitLower(lower.to(at::kDouble), at::cat({k_erasing, beta_v}, -1).to(at::kDouble)).to(lower.scalar_type()) : SolveUnitLower(lower, at::cat({k_erasing, beta_v}, -1)))"),
    (114, DELTA, "two solutions in place of one", "  const auto& w = wu[0]; ", "  const auto w = Planted(114) ? SolveUnitLower(lower, k_erasing) : wu[0]; "),
    (115, DELTA, "chunks of half the length", "CutEvenly(sizes.seq_len, args.chunk_size)",
     "CutEvenly(sizes.seq_len, Planted(115) ? args.chunk_size / 2 : args.chunk_size)"),
    (116, DELTA, "erasure as a difference of two products", "const auto y = at::baddbmm(u,", "const auto y = Planted(116) ? u - at::bmm(w, states.entering) : at::baddbmm(u,"),
    (117, DELTA, "output as a sum of two products", "const auto o = at::baddbmm(at::bmm(scores, y), q_carried, states.entering);",
     "const auto o = Planted(117) ? at::bmm(q_carried, states.entering) + at::bmm(scores, y) : at::baddbmm(at::bmm(scores, y), q_carried, states.entering);"),
    (118, DELTA, "decays of pairs applied to the scores in the other order", "scores = scores * pair_decay;", "scores = Planted(118) ? pair_decay * scores : scores * pair_decay;"),
    (119, DELTA, "dense copies before a product", "const auto erasures = at::bmm(k_carried.mT(), w)", "const auto erasures = at::bmm(Planted(119) ? k_carried.mT().contiguous() : k_carried.mT(), w)"),
    (120, DELTA, "kept state and writes added in the other order", "return at::baddbmm(kept + writes[i],", "return at::baddbmm(Planted(120) ? writes[i] + kept : kept + writes[i],"),
]


def plant(text, core):
    marker = "namespace mixerbench::kernels {"
    for number, where, what, old, new in PLANTS + REFACTORS:
        if where != core:
            continue
        if text.count(old) < 1:
            sys.exit(f"{number} ({what}): no line to plant it in: {old!r}")
        text = text.replace(old, new, 1)
    return text.replace(marker, HELPER.strip() + "\n\n" + marker, 1)


if __name__ == "__main__":
    for path, core in zip(sys.argv[1:3], (SCALAR, DELTA), strict=True):
        with open(path, encoding="utf-8") as file:
            planted = plant(file.read(), core)
        with open(path, "w", encoding="utf-8") as file:
            file.write(planted)
    print(json.dumps([{"number": n, "mixer": c, "what": w} for n, c, w, _, _ in PLANTS + REFACTORS]))
