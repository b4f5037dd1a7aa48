#!/usr/bin/env python3
"""Values that gate/statistics must agree with, from scipy and from enumeration in exact fractions.

    python3 make_reference.py > reference.json        # needs scipy (1.14.1 was used)

Nothing of the program is used. Where scipy has the test, scipy decides; the signed-rank test with
ties and censored pairs, Holm's method with discrete tests and the bootstrap of a median are
enumerated here.
SPDX-License-Identifier: Apache-2.0
"""

import itertools
import json
import random
import statistics
from fractions import Fraction

import numpy
import scipy
from scipy import stats


def fisher():
    cases = [(5, 5, 0, 5), (5, 5, 1, 5), (5, 5, 2, 5), (8, 8, 4, 8), (10, 10, 6, 10), (10, 10, 9, 10),
             (16, 16, 11, 16), (20, 20, 15, 20), (9, 10, 3, 10), (4, 5, 4, 5), (3, 10, 5, 10), (0, 5, 0, 5),
             (59, 59, 50, 59), (7, 8, 2, 12)]
    out = []
    for base, base_seeds, candidate, seeds in cases:
        table = [[candidate, seeds - candidate], [base, base_seeds - base]]
        p = stats.fisher_exact(table, alternative="less").pvalue
        out.append({"base": [base, base_seeds], "candidate": [candidate, seeds], "p": float(p)})
    return out


def signed_rank():
    rng = random.Random(1)
    out = []
    for n in (1, 5, 6, 10, 16, 20):
        losses = [round(rng.gauss(0.4, 1), 6) for _ in range(n)]
        p = stats.wilcoxon(losses, alternative="greater", method="exact").pvalue
        out.append({"losses": losses, "censored": [False] * n, "p": float(p)})
    # With zeros, ties and censored pairs: by enumeration of all signs, in exact fractions.
    for losses, censored in (
        ([0, 0.5, -0.5, 0.5, 1.0, 0], [False] * 6),
        ([0.2, -0.1, 0.3, 1.0, 1.0], [False, False, False, True, True]),
        ([0.2, 0.2, 0.4, 2.0, -2.0, 2.0, 0.1], [False, False, False, True, True, True, False]),
        ([-0.3, -0.1, -0.2, -0.25, -0.11, -0.4, -0.6, -0.31, -0.22, 1.0], [False] * 9 + [True]),
        ([1, 1, 1, 1, 1], [True] * 5),
    ):
        kept = [(v, c) for v, c in zip(losses, censored) if v != 0]
        size = [float("inf") if c else abs(v) for v, c in kept]
        ranks = [Fraction(sum(t < s for t in size) * 2 + sum(t == s for t in size) + 1, 2) for s in size]
        seen = sum(r for r, (v, _) in zip(ranks, kept) if v > 0)
        sums = [sum(r for r, s in zip(ranks, signs) if s) for signs in itertools.product((0, 1), repeat=len(kept))]
        out.append({"losses": losses, "censored": censored, "p": float(Fraction(sum(s >= seen for s in sums), len(sums)))})
    return out


def sign_flip():
    rng = random.Random(2)
    out = []
    for n in (3, 5, 6, 8, 10, 12):
        losses = [round(rng.gauss(0.5, 1), 6) for _ in range(n)]
        p = stats.permutation_test((numpy.array(losses),), lambda x, axis: numpy.mean(x, axis=axis), vectorized=True,
                                   permutation_type="samples", alternative="greater", n_resamples=numpy.inf).pvalue
        out.append({"losses": losses, "p": float(p)})
    for n in (3, 4, 5, 6, 8, 10):  # the floors: all losses alike
        out.append({"losses": [1] * n, "p": 0.5**n})
    return out


def paired_mean():
    rng = random.Random(3)
    out = []
    for n in (2, 3, 5, 8, 10, 16, 20):
        d = [round(rng.gauss(0.3, 1), 6) for _ in range(n)]
        t = lambda bound, side: float(stats.ttest_1samp(d, bound, alternative=side).pvalue)
        interval = stats.ttest_1samp(d, 0).confidence_interval(0.95)
        error = stats.sem(d)
        low, high = numpy.mean(d) + error * stats.t.ppf(0.025, n - 1), numpy.mean(d) + error * stats.t.ppf(0.975, n - 1)
        assert abs(low - interval.low) < 1e-12 and abs(high - interval.high) < 1e-12
        visible = max(0.5, stats.t.ppf(0.95, n - 1) * error) + stats.t.ppf(0.8, n - 1) * error
        out.append({"differences": d, "mean": float(numpy.mean(d)), "sd": float(numpy.std(d, ddof=1)),
                    "above_0": t(0, "greater"), "below_half": t(0.5, "less"), "low": float(low), "high": float(high),
                    "upper": float(numpy.mean(d) + stats.t.ppf(0.95, n - 1) * error),
                    "lower": float(numpy.mean(d) + stats.t.ppf(0.01, n - 1) * error), "visible": float(visible)})
    return out


def holm():
    def adjusted(tests):
        def reach(test, p):
            if not test["attainable"]:
                return p
            return max([a for a in test["attainable"] if a <= p * (1 + 1e-12)], default=0)

        order = sorted(range(len(tests)), key=lambda i: tests[i]["p"])
        out, running = [0.0] * len(tests), 0.0
        for k, i in enumerate(order):
            running = max(running, min(1.0, sum(reach(tests[j], tests[i]["p"]) for j in order[k:])))
            out[i] = running
        return out

    plain = [{"p": p, "attainable": []} for p in (0.01, 0.04, 0.03, 0.005, 0.9)]
    # R: p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.9), "holm")
    assert numpy.allclose(adjusted(plain), [0.04, 0.09, 0.09, 0.025, 0.9], atol=1e-15)
    fisher_5 = [float(stats.hypergeom.cdf(k, 10, 5, 5)) for k in range(6)]
    mixed = [{"p": 0.02, "attainable": []}, {"p": fisher_5[0], "attainable": fisher_5}, {"p": 1.0, "attainable": [1.0]},
             {"p": fisher_5[1], "attainable": fisher_5}, {"p": 0.5, "attainable": []}]
    return [{"tests": t, "adjusted": adjusted(t)} for t in (plain, mixed, [{"p": 0.3, "attainable": []}])]


def median_bootstrap():
    rng = random.Random(4)
    out = []
    for n in (1, 2, 3, 4, 5, 6, 7):
        values = [round(rng.gauss(0.01, 0.02), 6) for _ in range(n)]
        if n == 6:
            values[1] = values[4]  # a tie
        medians = sorted(statistics.median(draw) for draw in itertools.product(values, repeat=n))
        count = len(medians)
        out.append({"values": values, "median": statistics.median(values),
                    "cdf_0": sum(m <= 0 for m in medians) / count,
                    "quantiles": [[s, medians[max(0, -(-int(s * 1000) * count // 1000) - 1)]] for s in (0.01, 0.05, 0.5, 0.99)]})
    return out


def cliffs_delta():
    rng = random.Random(5)
    out = []
    for n, m in ((1, 1), (5, 5), (10, 8)):
        base, candidate = [rng.randint(0, 9) for _ in range(n)], [rng.randint(0, 9) for _ in range(m)]
        u = stats.mannwhitneyu(candidate, base).statistic
        out.append({"base": base, "candidate": candidate, "delta": float(2 * u / (n * m) - 1)})
    return out


print(json.dumps({"made_by": f"make_reference.py, scipy {scipy.__version__}, numpy {numpy.__version__}", "fisher": fisher(),
                  "signed_rank": signed_rank(), "sign_flip": sign_flip(), "paired_mean": paired_mean(), "holm": holm(),
                  "median_bootstrap": median_bootstrap(), "cliffs_delta": cliffs_delta()}, indent=1))
