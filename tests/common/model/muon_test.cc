// Muon: what it makes orthogonal, against an SVD and against a plain loop, and which parameters.
#include "common/model/muon.h"

#include <set>

#include "tests/common/model/support.h"
#include "tests/golden/golden_file.h"

namespace ladder::testing {
namespace {

// A matrix in plain loops.
struct Plain {
  size_t rows, columns;
  Values v;

  double& at(size_t r, size_t c) { return v[r * columns + c]; }
  double at(size_t r, size_t c) const { return v[r * columns + c]; }
};

Plain transposed(const Plain& a) {
  Plain t = {a.columns, a.rows, Values(a.v.size())};
  for (size_t r = 0; r < a.rows; ++r) {
    for (size_t c = 0; c < a.columns; ++c) t.at(c, r) = a.at(r, c);
  }
  return t;
}

Plain product(const Plain& a, const Plain& b) {
  Plain p = {a.rows, b.columns, Values(a.rows * b.columns)};
  for (size_t r = 0; r < a.rows; ++r) {
    for (size_t k = 0; k < a.columns; ++k) {
      for (size_t c = 0; c < b.columns; ++c) p.at(r, c) += a.at(r, k) * b.at(k, c);
    }
  }
  return p;
}

// x = a x + b y + c z.
Plain sum_of(double a, const Plain& x, double b, const Plain& y, double c, const Plain& z) {
  Plain sum = x;
  for (size_t i = 0; i < sum.v.size(); ++i) sum.v[i] = a * x.v[i] + b * y.v[i] + c * z.v[i];
  return sum;
}

double norm_of(const Values& values) {
  double square = 0;
  for (double v : values) square += v * v;
  return std::sqrt(square);
}

// As the author's program has it: a matrix that is tall is transposed first.
Plain newton_schulz(Plain x) {
  const bool is_tall = x.rows > x.columns;
  if (is_tall) x = transposed(x);
  const double norm = norm_of(x.v) + 1e-7;
  for (double& v : x.v) v /= norm;
  for (int i = 0; i < 5; ++i) {
    const Plain gram = product(x, transposed(x));
    const Plain cubed = product(gram, x), fifth = product(gram, cubed);
    x = sum_of(3.4445, x, -4.7750, cubed, 2.0315, fifth);
  }
  return is_tall ? transposed(x) : x;
}

// The singular values and vectors of a matrix with no more columns than rows: rotations make its
// columns orthogonal to each other (one-sided Jacobi). The columns of u (R, C) and v (C, C).
struct Svd {
  Plain u, v;
  Values sigma;
};

Svd svd_of(const Plain& a) {
  Svd svd = {a, {a.columns, a.columns, Values(a.columns * a.columns)}, Values(a.columns)};
  for (size_t i = 0; i < a.columns; ++i) svd.v.at(i, i) = 1;
  const auto rotate = [](Plain& m, size_t p, size_t q, double cosine, double sine) {
    for (size_t r = 0; r < m.rows; ++r) {
      const double x = m.at(r, p), y = m.at(r, q);
      m.at(r, p) = cosine * x - sine * y;
      m.at(r, q) = sine * x + cosine * y;
    }
  };
  for (int sweep = 0; sweep < 40; ++sweep) {
    for (size_t p = 0; p < a.columns; ++p) {
      for (size_t q = p + 1; q < a.columns; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (size_t r = 0; r < a.rows; ++r) {
          pp += svd.u.at(r, p) * svd.u.at(r, p);
          qq += svd.u.at(r, q) * svd.u.at(r, q);
          pq += svd.u.at(r, p) * svd.u.at(r, q);
        }
        if (std::abs(pq) <= 1e-16 * std::sqrt(pp * qq)) continue;
        const double angle = 0.5 * std::atan2(2 * pq, qq - pp);
        rotate(svd.u, p, q, std::cos(angle), std::sin(angle));
        rotate(svd.v, p, q, std::cos(angle), std::sin(angle));
      }
    }
  }
  for (size_t c = 0; c < a.columns; ++c) {
    double square = 0;
    for (size_t r = 0; r < a.rows; ++r) square += svd.u.at(r, c) * svd.u.at(r, c);
    svd.sigma[c] = std::sqrt(square);
    for (size_t r = 0; r < a.rows; ++r) svd.u.at(r, c) /= svd.sigma[c];
  }
  return svd;
}

const OptimizerConfig kMuon = {.name = "muon"};

Parameter weight_of(size_t rows, size_t columns, const MatrixForm& form) {
  return {.name = "w",
          .shape = {rows, columns},
          .full_shape = {rows, columns},
          .ranges = {},
          .matrix = form};
}

Plain orthogonalized(const Plain& matrix, DType dtype, int64_t* calls = nullptr) {
  const Parameter parameter = weight_of(matrix.rows, matrix.columns, {.count = 1});
  Muon muon(memory(), kMuon, dtype, {&parameter});
  const Tensor in(memory(), Category::workspace, dtype, {matrix.v.size()});
  set_values(in, matrix.v);
  const TensorView out = muon.orthogonalize(stream(), in.view().reshape(parameter.shape));
  if (calls != nullptr) *calls = muon.num_calls();
  return {matrix.rows, matrix.columns, values_of(out)};
}

double difference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  Values d(a.size());
  for (size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return largest(d);
}

TEST_CASE("singular vectors stay, and singular values come near 1") {
  for (const auto& [rows, columns] : {std::pair{24, 10}, {13, 13}, {10, 24}}) {
    INFO(rows << " x " << columns);
    const Plain matrix = {size_t(rows), size_t(columns),
                          normal_values(size_t(rows * columns), "m", 1)};
    const bool is_wide = rows < columns;
    const Svd svd = svd_of(is_wide ? transposed(matrix) : matrix);
    Plain result = orthogonalized(matrix, DType::fp64);
    if (is_wide) result = transposed(result);
    const Plain inside = product(product(transposed(svd.u), result), svd.v);
    for (size_t r = 0; r < inside.rows; ++r) {
      double expected = svd.sigma[r] / (norm_of(matrix.v) + 1e-7);
      for (int i = 0; i < 5; ++i) {
        const double s = expected * expected;
        expected *= 3.4445 - 4.7750 * s + 2.0315 * s * s;
      }
      for (size_t c = 0; c < inside.columns; ++c) {
        // Errors of the first round grow by less than 3.45^5 = 488 until the last.
        CHECK(std::abs(inside.at(r, c) - (r == c ? expected : 0)) <= 1e-12);
      }
      if (svd.sigma[r] < 0.01 * norm_of(matrix.v)) continue;
      CHECK(inside.at(r, r) > 0.68);
      CHECK(inside.at(r, r) < 1.14);
    }
  }
}

TEST_CASE("fp64 and fp32 are the author's loop; a matrix of zeros stays zero") {
  for (const auto& [rows, columns] : {std::pair{17, 30}, {30, 17}, {8, 8}, {1, 5}}) {
    const Plain matrix = {size_t(rows), size_t(columns),
                          normal_values(size_t(rows * columns), "m", 1)};
    const Plain expected = newton_schulz(matrix);
    int64_t calls = 0;
    CHECK(difference(orthogonalized(matrix, DType::fp64, &calls).v, expected.v) <= 1e-12);
    CHECK(calls == 1);
    // 488 times a few roundings of 2^-24, which average out.
    CHECK(difference(orthogonalized(matrix, DType::fp32).v, expected.v) <= 2e-4);
  }
  CHECK(largest(orthogonalized({3, 4, Values(12)}, DType::fp64).v) == 0);
}

TEST_CASE("the scale counts outputs and inputs, not rows and columns") {
  const auto factor = [](MuonScale scale, bool out_first) {
    const Parameter p = weight_of(16, 64, {.count = 1, .out_first = out_first});
    return muon_scale(scale, {&p, 16, 64, 0});
  };
  CHECK(factor(MuonScale::spectral, false) == 2);  // (in, out): 64 outputs of 16 inputs
  CHECK(factor(MuonScale::spectral, true) == 1);
  CHECK(factor(MuonScale::rms, false) == 0.2 * 8);
  CHECK(factor(MuonScale::rms, true) == 0.2 * 8);
}

double rms_difference(const Values& a, const Values& b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square / static_cast<double>(a.size()));
}

// PyTorch iterates in bf16 whatever the parameter's dtype is. It rounds elsewhere than Muon does
// here, so neither is the plain loop, but both are as near to it.
TEST_CASE("two steps in bf16 are as near to the plain loop as torch.optim.Muon is") {
  const GoldenFile golden("tests/golden/muon.safetensors");
  const double learning_rate = golden.number("settings.learning_rate");
  const double momentum = golden.number("settings.momentum");
  const double keep = 1 - learning_rate * golden.number("settings.weight_decay");
  for (const std::string shape : {"tall", "square", "flat"}) {
    for (const auto& [scale, name] :
         {std::pair(MuonScale::rms, "rms"), {MuonScale::spectral, "spectral"}}) {
      const auto values = [&](const char* of) {
        return golden.values(concat(shape, ".", name, ".", of));
      };
      const std::vector<size_t> size =
          golden.reader().find(concat(shape, ".", name, ".param"))->shape;
      const Parameter parameter = weight_of(size[0], size[1], {.count = 1, .out_first = true});
      OptimizerConfig config = kMuon;
      config.muon_scale = scale;
      const auto run = [&](DType dtype) {
        Muon muon(memory(), config, dtype, {&parameter});
        const auto make = [&](const Values& of) {
          Tensor tensor(memory(), Category::workspace, accumulation_dtype(dtype), {of.size()});
          set_values(tensor, of);
          return tensor;
        };
        const Values start = values("param");
        const Tensor param = make(start), moment = make(Values(start.size()));
        const Tensor blended = make(start);
        for (const char* of : {"grad1", "grad2"}) {
          muon_blend(stream(), blended, moment, make(values(of)), momentum, 1);
          muon.orthogonalize_all(stream(), parameter, blended.view().reshape(parameter.shape),
                                 learning_rate);
          muon_move(stream(), param, {}, blended, keep);
        }
        return values_of(param);
      };
      INFO(shape << ", " << name);
      const Values exact = run(DType::fp64), torch = values("after");
      const double theirs = rms_difference(torch, exact),
                   ours = rms_difference(run(DType::bf16), exact);
      CHECK(ours < 2 * theirs);
      // And that is little beside the way that the parameter went.
      CHECK(theirs < 0.05 * rms_difference(exact, values("param")));
    }
  }
}

// Two updates of a parameter by plain loops and by Muon.
void check_updates(const OptimizerConfig& config, size_t rows, size_t columns, size_t parts,
                   const MatrixForm& form) {
  const Parameter parameter = weight_of(rows, columns, form);
  Muon muon(memory(), config, DType::fp64, {&parameter});
  const size_t n = rows * columns, width = columns / parts;
  const auto make = [&](const Values& values) {
    Tensor tensor(memory(), Category::workspace, DType::fp64, {n});
    set_values(tensor, values);
    return tensor;
  };
  Values theta = normal_values(n, "theta", 1), momentum(n);
  const Tensor param = make(theta), moment = make(momentum);
  for (size_t step = 1; step <= 2; ++step) {
    const Values g = normal_values(n, step == 1 ? "g1" : "g2", 1);
    const Tensor grad = make(g), blended = make(g);
    muon_blend(stream(), blended, moment, grad, config.muon_momentum, 0.5);
    muon.orthogonalize_all(stream(), parameter, blended.view().reshape(parameter.shape), 0.01);
    muon_move(stream(), param, {}, blended, 1 - 0.01 * 0.1);
    CHECK(values_of(grad) == g);
    for (size_t i = 0; i < n; ++i) momentum[i] = 0.9 * momentum[i] + 0.5 * g[i];
    for (size_t part = 0; part < parts; ++part) {
      Plain ahead = {rows, width, Values(rows * width)};
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < width; ++c) {
          const size_t i = r * columns + part * width + c;
          ahead.at(r, c) = 0.9 * momentum[i] + 0.5 * g[i];
        }
      }
      const Plain update = newton_schulz(ahead);
      const double out = double(form.out_first ? rows : width);
      const double in = double(form.out_first ? width : rows);
      const double factor = config.muon_scale == MuonScale::rms
                                ? 0.2 * std::sqrt(std::max(out, in))
                                : std::sqrt(std::max(1.0, out / in));
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < width; ++c) {
          double& t = theta[r * columns + part * width + c];
          t = (1 - 0.01 * 0.1) * t - 0.01 * factor * update.at(r, c);
        }
      }
    }
    CHECK(difference(values_of(param), theta) <= 1e-13);
    CHECK(difference(values_of(moment), momentum) <= 1e-15);
  }
  CHECK(muon.num_calls() == int64_t(2 * parts));
}

TEST_CASE("momentum, Nesterov's look ahead, decay and scale are those of a plain loop") {
  for (const MuonScale scale : {MuonScale::rms, MuonScale::spectral}) {
    OptimizerConfig config = kMuon;
    config.muon_scale = scale, config.muon_momentum = 0.9;
    check_updates(config, 8, 20, 1, {.count = 1});
    check_updates(config, 20, 8, 1, {.count = 1, .out_first = true});
    check_updates(config, 8, 24, 3, {.count = 3});
    config.splits_qkv = false;
    check_updates(config, 8, 24, 1, {.count = 3});
  }
}

std::set<std::string> names_of_matrices(const ModelConfig& model) {
  std::set<std::string> names;
  const Layout layout(model, 1);
  for (const Unit& unit : layout.units()) {
    for (const Parameter& p : unit.parameters) {
      if (!is_muons(p.matrix)) continue;
      CHECK(p.shape.num_dims() == 2);
      names.insert(p.name);
    }
  }
  return names;
}

TEST_CASE("Muon updates the weights of linear layers in blocks, and each expert's apart") {
  using Names = std::set<std::string>;
  ModelConfig model = {
      .num_layers = 1, .num_heads = 2, .hidden = 8, .vocab_size = 20, .sequence_length = 4};
  CHECK(names_of_matrices(model) == Names{"h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight",
                                          "h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight"});
  model.untied = true;
  CHECK(names_of_matrices(model).size() == 4);
  model.experts = {.num_experts = 2, .per_token = 1, .every = 1};
  const Names with_experts = names_of_matrices(model);
  CHECK(with_experts.size() == 2 + 2 * 2);
  CHECK(std::ranges::none_of(with_experts, [](const std::string& name) {
    return name.find("router") != std::string::npos;
  }));
  model.experts = {};
  const Layout layout(model, 1);
  for (const Parameter& p : layout.unit(2).parameters) {
    if (p.name == "h.0.attn.c_attn.weight") CHECK(muon_matrices(kMuon, p).size() == 3);
    if (p.name == "h.0.mlp.c_fc.weight") CHECK(muon_matrices(kMuon, p).size() == 1);
  }
}

}  // namespace
}  // namespace ladder::testing
