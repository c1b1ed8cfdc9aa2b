#include "kernels/classifier.h"

#include <algorithm>

#include "kernels/cpu/plain_classifier.h"
#include "kernels/runtime/target.h"
#include "tests/kernels/support.h"

#if LADDER_CUDA_EMULATOR
#include "kernels/emulator/device_model.h"
#endif

namespace ladder {
namespace {
using namespace testing;

constexpr double kUnwritten = 12345;  // is exact in every dtype of a classifier

struct Inputs {
  Inputs(DType dtype_, size_t rows_, size_t vocab_)
      : dtype(dtype_),
        rows(rows_),
        vocab(vocab_),
        logits(random_values(dtype, rows * vocab, "logits", 3)),
        targets(random_tokens(rows, vocab, "targets")) {}

  DType dtype;
  size_t rows, vocab;
  Values logits, targets;
};

// The plain version, and the largest |logit|.
struct Reference : cpu::PlainClassifier {
  explicit Reference(const Inputs& x) {
    const std::vector<size_t> targets(x.targets.begin(), x.targets.end());
    static_cast<cpu::PlainClassifier&>(*this) = cpu::plain_classifier_forward(x.logits, targets);
    gradient = cpu::plain_classifier_backward(*this, targets);
    for (double logit : x.logits) range = std::max(range, std::abs(logit));
  }

  Values gradient;
  double range = 0;
};

struct Steps {
  Values maximum, exponentials, sum, target_logit;
};

// Steps 1 and 2 on columns [first, first + width); an empty `maximum` is computed.
Steps run_steps(const Inputs& x, size_t first, size_t width, Values maximum = {}) {
  Values part;
  for (size_t r = 0; r < x.rows; ++r) {
    const double* const row = x.logits.data() + r * x.vocab + first;
    part.insert(part.end(), row, row + width);
  }
  const Array logits(x.dtype, {x.rows, width}, part);
  if (maximum.empty()) {
    const Array found(x.dtype, {x.rows});
    softmax_maximum(stream(), found, logits);
    maximum = found.values();
  }
  const Array sum(x.dtype, {x.rows}), target(x.dtype, {x.rows});
  softmax_exponentials(stream(), logits, sum, target, Array(DType::int32, {x.rows}, x.targets),
                       Array(x.dtype, {x.rows}, maximum), first);
  return {maximum, logits.values(), sum.values(), target.values()};
}

struct Result {
  Values losses, gradient;
};

// Step 3 with the gradient beside the exponentials, in `dtype`.
Values run_beside(DType dtype, const Inputs& x, const Steps& s, size_t first, double loss_scale) {
  const size_t width = s.exponentials.size() / x.rows;
  const Array losses(x.dtype, {x.rows}), e(x.dtype, {x.rows, width}, s.exponentials);
  const Array sum(x.dtype, {x.rows}, s.sum), target(x.dtype, {x.rows}, s.target_logit);
  const Array dlogits(dtype, {x.rows, width});
  cross_entropy(stream(), losses, dlogits, e, sum, target, Array(DType::int32, {x.rows}, x.targets),
                first, loss_scale);
  require_same_bits(e.values(), s.exponentials);
  return dlogits.values();
}

Result run_last(const Inputs& x, const Steps& s, size_t first, double loss_scale) {
  const size_t width = s.exponentials.size() / x.rows;
  const Array losses(x.dtype, {x.rows}), e(x.dtype, {x.rows, width}, s.exponentials);
  const Array sum(x.dtype, {x.rows}, s.sum), target(x.dtype, {x.rows}, s.target_logit);
  cross_entropy(stream(), losses, e, e, sum, target, Array(DType::int32, {x.rows}, x.targets),
                first, loss_scale);
  const Array only(x.dtype, {x.rows});
  cross_entropy_loss(stream(), only, sum, target);
  require_same_bits(only.values(), losses.values());
  return {losses.values(), e.values()};
}

// In units of 2^-24 (2^-53). An exponential: its argument, of at most 2 range, is rounded once
// (relative error 2 range), and exp has 4 ulp (8). The sum adds V terms. The reference's own exp
// and log are covered by rounding_error's factor in fp64.
double sum_error(const Inputs& x, const Reference& expected) {
  return 2 * expected.range + 8 + static_cast<double>(x.vocab);
}

void require_losses(const Inputs& x, const Reference& expected, const Values& losses) {
  // The sum's relative error, 4 ulp of the logarithm (|log| <= 2 range + log V < 2 range + 8), the
  // rounding of the target (2 range) and of the difference.
  const double error = sum_error(x, expected) + 8 * (2 * expected.range + 8) + 2 * expected.range +
                       2 * (2 * expected.range + 8);
  require_within(losses, expected.losses, rounding_error(x.dtype, error), Values(x.rows, 1));
}

void require_gradient_of_loss(const Inputs& x, const Reference& expected, double loss_scale,
                              const Values& gradient) {
  // exponential / sum has the error of both; one division, one subtraction, the scale.
  const double error = 2 * sum_error(x, expected) + 4;
  Values scaled = expected.gradient, size = expected.gradient;
  for (size_t i = 0; i < scaled.size(); ++i) {
    const bool target = i % x.vocab == static_cast<size_t>(x.targets[i / x.vocab]);
    scaled[i] *= loss_scale;
    size[i] = loss_scale * (target ? 1 : expected.gradient[i]);
  }
  require_within(gradient, scaled, rounding_error(x.dtype, error), size);
}

// All three steps at once, with rows that lie `pitch` elements apart.
Result run_whole(const Inputs& x, size_t pitch, double loss_scale) {
  Values spaced(x.rows * pitch, kUnwritten);
  for (size_t i = 0; i < x.logits.size(); ++i) {
    spaced[i / x.vocab * pitch + i % x.vocab] = x.logits[i];
  }
  const Array memory(x.dtype, {x.rows, pitch}, spaced);
  const TensorView logits = memory.view().first_columns(x.vocab);
  const Array losses(x.dtype, {x.rows}), statistics(x.dtype, {3 * x.rows});
  softmax_cross_entropy(stream(), losses, logits, logits, statistics,
                        Array(DType::int32, {x.rows}, x.targets), loss_scale);
  Values gradient;
  const Values written = memory.values();
  for (size_t i = 0; i < written.size(); ++i) {
    if (i % pitch < x.vocab) {
      gradient.push_back(written[i]);
    } else if (written[i] != kUnwritten) {
      FAIL("element " << i << ", between the rows, became " << written[i]);
    }
  }
  return {losses.values(), gradient};
}

void compare(const Inputs& x) {
  INFO(name_of(x.dtype) << " " << x.rows << "x" << x.vocab);
  const Reference expected(x);
  const Steps steps = run_steps(x, 0, x.vocab);
  Values target(x.rows);
  for (size_t r = 0; r < x.rows; ++r) {
    const double logit = x.logits[r * x.vocab + static_cast<size_t>(x.targets[r])];
    target[r] = rounded(x.dtype, logit - expected.maximum[r]);
  }
  require_same_bits(steps.maximum, expected.maximum);
  require_same_bits(steps.target_logit, target);
  require_within(steps.exponentials, expected.exponentials,
                 rounding_error(x.dtype, 2 * expected.range + 8), expected.exponentials);
  require_within(steps.sum, expected.sum, rounding_error(x.dtype, sum_error(x, expected)),
                 expected.sum);

  const double loss_scale = 1.0 / 48;
  const Result got = run_last(x, steps, 0, loss_scale);
  require_losses(x, expected, got.losses);
  require_gradient_of_loss(x, expected, loss_scale, got.gradient);
  for (size_t pitch : {x.vocab, (x.vocab + 7) / 8 * 8, x.vocab + 3}) {
    const Result whole = run_whole(x, pitch, loss_scale);
    require_losses(x, expected, whole.losses);
    require_gradient_of_loss(x, expected, loss_scale, whole.gradient);
  }
}

constexpr size_t kVocabularies[] = {1, 17, 63, 64, 65, 2500};  // GPU threads have several of 2,500

TEST_CASE("the classifier's steps equal the plain version") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    for (size_t rows : kOddSizes) {
      for (size_t vocab : kVocabularies) compare(Inputs(dtype, rows, vocab));
    }
    const Values rows = random_tokens(4, 60, "rows"), vocabs = random_tokens(4, 1500, "vocabs");
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t drawn = static_cast<size_t>(rows[i]), vocab = static_cast<size_t>(vocabs[i]);
      compare(Inputs(dtype, drawn + 1, vocab + 1));
    }
  }
}

TEST_CASE("the largest of negative logits is negative") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    for (size_t vocab : kVocabularies) {
      Inputs x(dtype, 3, vocab);
      for (double& logit : x.logits) logit = rounded(dtype, logit - 100);
      compare(x);
    }
  }
}

TEST_CASE("a vocabulary in two parts gives the loss and gradient of the whole") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    const Inputs x(dtype, 33, 65);
    const Reference expected(x);
    const size_t split = 40;
    // What two ranks would do, with the reductions between them.
    Steps left = run_steps(x, 0, split), right = run_steps(x, split, x.vocab - split);
    Values maximum(x.rows);
    for (size_t r = 0; r < x.rows; ++r) maximum[r] = std::max(left.maximum[r], right.maximum[r]);
    left = run_steps(x, 0, split, maximum);
    right = run_steps(x, split, x.vocab - split, maximum);
    for (size_t r = 0; r < x.rows; ++r) {
      const bool is_left = x.targets[r] < static_cast<double>(split);
      CHECK((is_left ? right : left).target_logit[r] == 0);
      left.sum[r] = right.sum[r] = rounded(dtype, left.sum[r] + right.sum[r]);
      left.target_logit[r] = right.target_logit[r] = left.target_logit[r] + right.target_logit[r];
    }
    const double loss_scale = 0.25;
    const Result a = run_last(x, left, 0, loss_scale), b = run_last(x, right, split, loss_scale);
    require_same_bits(a.losses, b.losses);
    require_losses(x, expected, a.losses);
    Values gradient;
    for (size_t r = 0; r < x.rows; ++r) {
      const auto row = [&](const Values& part, size_t width) {
        const double* const from = part.data() + r * width;
        gradient.insert(gradient.end(), from, from + width);
      };
      row(a.gradient, split);
      row(b.gradient, x.vocab - split);
    }
    require_gradient_of_loss(x, expected, loss_scale, gradient);
  }
}

TEST_CASE("a part of the vocabulary that holds no target gives none, and the gradient of none") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    Inputs x(dtype, 17, 65);
    const size_t first = 20, width = 30;
    for (size_t r = 0; r < x.rows; ++r) x.targets[r] = r % 2 == 0 ? 19 : 50;  // beside the part
    const Steps steps = run_steps(x, first, width);
    require_same_bits(steps.target_logit, Values(x.rows, 0));
    Values gradient(x.rows * width);
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = steps.exponentials[i] / steps.sum[i / width];
    }
    // The quotient of scale and sum, and a product: every element is positive, nothing is taken
    // off.
    require_within(run_last(x, steps, first, 1).gradient, gradient, rounding_error(dtype, 2),
                   gradient);
  }
}

TEST_CASE("the gradient may go to another place, in another precision") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t vocab : {1, 17, 64, 65, 1500}) {
      const Inputs x(accumulation_dtype(dtype), 17, vocab);
      const Steps steps = run_steps(x, 0, vocab);
      Values expected = run_last(x, steps, 0, 0.01).gradient;
      for (double& value : expected) value = rounded(dtype, value);
      require_same_bits(run_beside(dtype, x, steps, 0, 0.01), expected);
    }
    // A part of the vocabulary with some of the targets.
    const Inputs x(accumulation_dtype(dtype), 33, 65);
    const Steps steps = run_steps(x, 20, 30);
    Values expected = run_last(x, steps, 20, 0.01).gradient;
    for (double& value : expected) value = rounded(dtype, value);
    require_same_bits(run_beside(dtype, x, steps, 20, 0.01), expected);
  }
}

// The gradient in 16 bits of rows that lie apart, from logits in `from`: fp32, or the gradient's
// dtype, and then the gradient takes their place.
void compare_rows(DType dtype, DType from, size_t rows, size_t vocab) {
  INFO(name_of(dtype) << " from " << name_of(from) << " " << rows << "x" << vocab);
  Inputs x(DType::fp32, rows, vocab);
  for (double& logit : x.logits) logit = rounded(from, logit);
  const Reference expected(x);
  const size_t pitch = (vocab + 7) / 8 * 8;
  Values spaced(rows * pitch, kUnwritten);
  for (size_t i = 0; i < x.logits.size(); ++i) {
    spaced[i / vocab * pitch + i % vocab] = x.logits[i];
  }
  const Array logits(from, {rows, pitch}, spaced), losses(DType::fp32, {rows});
  const Array beside(dtype, {rows, pitch}, Values(rows * pitch, kUnwritten));
  const Array& dlogits = from == dtype ? logits : beside;
  const Array statistics(DType::fp32, {3 * rows});
  softmax_cross_entropy(stream(), losses, dlogits.view().first_columns(vocab),
                        logits.view().first_columns(vocab), statistics,
                        Array(DType::int32, {rows}, x.targets), 0.5);
  require_losses(x, expected, losses.values());
  Values gradient, scaled, bound;
  const Values written = dlogits.values();
  for (size_t i = 0; i < written.size(); ++i) {
    if (i % pitch >= vocab) {
      REQUIRE(written[i] == rounded(dtype, kUnwritten));
      continue;
    }
    const size_t v = i % pitch, r = i / pitch;
    gradient.push_back(written[i]);
    scaled.push_back(0.5 * expected.gradient[r * vocab + v]);
    bound.push_back(static_cast<double>(v) == x.targets[r] ? 0.5 : scaled.back());
  }
  require_within(dtype, gradient, scaled,
                 rounding_error(DType::fp32, 2 * sum_error(x, expected) + 4), bound);
}

void compare_rows(DType dtype, size_t rows, size_t vocab) {
  for (DType from : {DType::fp32, dtype}) compare_rows(dtype, from, rows, vocab);
}

TEST_CASE("logits in 16 bits give the loss and the gradient of what they were rounded to") {
  const OnDevice on = on_every_device();
  for (DType dtype : {DType::bf16, DType::fp16}) {
    for (size_t vocab : {1, 7, 17, 64, 1023, 1025, 2500}) compare_rows(dtype, 5, vocab);
  }
}

// With enough columns for a GPU to keep a row in registers, and more rows than it computes at once.
TEST_CASE("long rows, with their gradient in 16 bits") {
  const OnDevice on = on_every_device();
  for (DType dtype : {DType::bf16, DType::fp16}) {
    compare_rows(dtype, 3, 20'001);
    compare_rows(dtype, 140, 16'387);
  }
}

// The first of each pair just fits a multiprocessor: an A100's shared memory, an H100's registers,
// the registers of both with logits in 16 bits.
TEST_CASE("rows of logits that just fit a GPU, and longer ones") {
#if LADDER_CUDA_EMULATOR
  const emulator::WithDeviceModel model(GENERATE("a100", "h100"));
#endif
  const OnDevice on = on_every_device();
  for (size_t vocab : {41'472, 41'473, 51'200, 51'201}) {
    compare_rows(DType::bf16, DType::fp32, 1, vocab);
  }
  for (size_t vocab : {53'248, 53'249}) compare_rows(DType::bf16, DType::bf16, 1, vocab);
}

// The loss and the gradient of the rows that count, in 16 bits or not, are those of a run without
// the others, to the bit.
void require_same_rows(const std::vector<bool>& counts, const Result& all, const Result& some) {
  const size_t rows = counts.size(), vocab = all.gradient.size() / rows;
  for (size_t r = 0; r < rows; ++r) {
    CHECK(some.losses[r] == (counts[r] ? all.losses[r] : 0));
    for (size_t v = 0; v < vocab; ++v) {
      const size_t i = r * vocab + v;
      REQUIRE(some.gradient[i] == (counts[r] ? all.gradient[i] : 0));
    }
  }
}

Result run_rounded(DType dtype, DType from, const Inputs& x) {
  const Array logits(from, {x.rows, x.vocab}, x.logits), losses(DType::fp32, {x.rows});
  const Array beside(dtype, {x.rows, x.vocab}), statistics(DType::fp32, {3 * x.rows});
  const Array& dlogits = from == dtype ? logits : beside;
  softmax_cross_entropy(stream(), losses, dlogits, logits, statistics,
                        Array(DType::int32, {x.rows}, x.targets), 0.5);
  return {losses.values(), dlogits.values()};
}

TEST_CASE("a row whose target is ignored has no loss and no gradient, and the others keep theirs") {
  const OnDevice on = on_every_device();
  for (size_t vocab : {1, 17, 64, 2500}) {
    std::vector<bool> counts;
    for (size_t r = 0; r < 33; ++r) counts.push_back(r % 3 == 1);
    const auto ignoring = [&](Inputs x) {
      for (size_t r = 0; r < x.rows; ++r) {
        if (!counts[r]) x.targets[r] = kIgnored;
      }
      return x;
    };
    for (DType dtype : kAccumulation) {
      const Inputs x(dtype, 33, vocab), some = ignoring(x);
      require_same_rows(counts, run_last(x, run_steps(x, 0, vocab), 0, 0.5),
                        run_last(some, run_steps(some, 0, vocab), 0, 0.5));
      require_same_rows(counts, run_whole(x, vocab, 0.5), run_whole(some, vocab, 0.5));
    }
    for (DType dtype : {DType::bf16, DType::fp16}) {
      for (DType from : {DType::fp32, dtype}) {
        const Inputs x(DType::fp32, 33, vocab);
        require_same_rows(counts, run_rounded(dtype, from, x),
                          run_rounded(dtype, from, ignoring(x)));
      }
    }
  }
  const std::vector<bool> counts = {true, false};
  const Inputs x(DType::fp32, 2, 16'384);  // long rows
  Inputs some = x;
  some.targets[1] = kIgnored;
  require_same_rows(counts, run_rounded(DType::bf16, DType::fp32, x),
                    run_rounded(DType::bf16, DType::fp32, some));
}

TEST_CASE("a row that is ignored is ignored in every part of the vocabulary") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    Inputs x(dtype, 5, 65);
    x.targets[2] = kIgnored;
    const size_t split = 40;
    const Steps left = run_steps(x, 0, split), right = run_steps(x, split, x.vocab - split);
    CHECK(left.sum[2] == 1);  // the ranks' sums and targets are added: 1 and 0
    CHECK(right.sum[2] == 0);
    for (const Steps* part : {&left, &right}) {
      CHECK(part->target_logit[2] == 0);
      const size_t width = part->exponentials.size() / x.rows;
      for (size_t v = 0; v < width; ++v) REQUIRE(part->exponentials[2 * width + v] == 0);
    }
  }
}

TEST_CASE("cross_entropy leaves the gradient of the loss") {
  const OnDevice on = on_every_device();
  const Inputs x(DType::fp64, 5, 9);
  const double loss_scale = 0.75;
  const auto loss = [&](const Values& logits) {
    Inputs moved = x;
    moved.logits = logits;
    return loss_scale *
           dot(run_last(x, run_steps(moved, 0, x.vocab), 0, 0).losses, Values(x.rows, 1));
  };
  require_gradient(run_last(x, run_steps(x, 0, x.vocab), 0, loss_scale).gradient,
                   numeric_gradient(x.logits, loss));
}

TEST_CASE("the loss is finite for large logits and NaN for NaN") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    Inputs x(dtype, 2, 4);
    x.logits = {1000, -1000, 0, 0, -5000, -5000, -5000, -5000};
    x.targets = {1, 2};
    const Values losses = run_last(x, run_steps(x, 0, 4), 0, 1).losses;
    CHECK(losses[0] == 2000);  // log(1) + 2000
    // log(4), half an ulp of its own and 4 ulp of the kernel's (8 units each).
    CHECK(std::abs(losses[1] - std::log(4.0)) <= rounding_error(dtype, 9 * std::log(4.0)));
    for (size_t v = 0; v < 4; ++v) {
      Inputs spoiled = x;
      spoiled.logits[v] = std::nan("");
      const Result got = run_last(x, run_steps(spoiled, 0, 4), 0, 1);
      CHECK(std::isnan(got.losses[0]));
      CHECK(std::isfinite(got.losses[1]));
    }
  }
}

TEST_CASE("the classifier gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    const Inputs x(dtype, 65, 1001);
    require_same_for_any_threads([&] {
      const Steps steps = run_steps(x, 0, x.vocab);
      const Result last = run_last(x, steps, 0, 0.5);
      Values all = steps.exponentials;
      for (const Values* more :
           {&steps.maximum, &steps.sum, &steps.target_logit, &last.losses, &last.gradient}) {
        all.insert(all.end(), more->begin(), more->end());
      }
      return all;
    });
  }
}

}  // namespace
}  // namespace ladder
