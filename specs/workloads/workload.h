// SPDX-License-Identifier: Apache-2.0
// A workload is what a spec is judged on: named regimes of inputs, and a consumer of the spec's outputs that returns
// realistic cotangents. A cotangent is realistic when y*dy is O(1) and the cancellations of the true program happen;
// plain noise is blind to most faults of a decay product.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "specs/workloads/tensor.h"

namespace kdagen {

/// A spec's option values as text; numbers are parsed on request.
struct Settings {
  std::map<std::string, std::string> values;

  bool has(const std::string& name) const { return values.count(name) != 0; }
  std::string text(const std::string& name, const std::string& fallback) const;
  /// Throws UsageError when the value is not a number.
  double number(const std::string& name, double fallback) const;
};

/// One spec at one size. `inputs` lists inputs and params, `outputs` the forward's outputs.
struct Problem {
  std::string spec;
  Shape shape;
  Settings options;
  std::vector<Declaration> inputs;
  std::vector<Declaration> outputs;
};

/// How the consumer is run.
struct ConsumerOptions {
  /// Multiply operands rounded to bf16 instead of exact ones (straight-through), and round the consumer's own small
  /// cotangent matrices once to bf16.
  bool bf16_operands = false;
  /// Factor on the cotangent of the consumer's own output.
  double do_scale = 1;
  uint64_t seed = 1;
  /// How the cotangent of an output is stored on its way to the backward: f32, bf16 or fp16row; f32 where it is not
  /// named.
  std::map<std::string, std::string> storage;
  /// The forward outputs that were really handed over (stored units). With bf16_operands the consumer multiplies these
  /// very numbers where it finds them; otherwise it rounds its own.
  const Tensors* forward = nullptr;
  /// The anchors by sub-chunk that were really stored, by tensor name: cotangents belong to numbers stored with these.
  /// Where it is null the consumer has its own.
  const Tensors* anchors = nullptr;
  /// log2 magnitude of each output's exponential factors, by output name (same shape as the output, or one value).
  /// Only the generic workload reads it: cotangent = N(0,1) * 2^-exponent, as far as floats reach.
  const Tensors* exponents = nullptr;
};

enum class Oracle { kernel, end_to_end };

/// A bound that the workload itself puts on a gradient or output, for f32 storage, over the whole tensor:
/// ||err||/||ref|| and max|err|/max|ref|. `storage_bf16` replaces the general addition for bf16 storage.
struct DeclaredBound {
  std::optional<double> rel_l2;
  std::optional<double> max_rel;
  std::optional<double> storage_bf16;
  std::optional<double> max_storage_bf16;
  /// Sums over tokens: ||err|| of a head / sqrt(sum of terms^2) of that head, in place of the general rule. `rel_l2`
  /// holds beside it.
  std::optional<double> terms_factor;
};

/// A parameter's gradient as a sum: beside each element the square root of the sum of its squared independent terms.
struct ParameterTerms {
  std::string summed;  ///< the gradient whose bound the terms have
  std::vector<double> root_sum_square;
};

class Workload {
 public:
  virtual ~Workload() = default;

  virtual std::vector<std::string> regimes() const = 0;
  /// Every declared input and param, rounded to its declared dtype and within its declared bounds; rows after the last
  /// offset are filled like the others. Throws UsageError on an unknown regime.
  virtual Tensors inputs(const Problem& problem, const std::string& regime, uint64_t seed) const = 0;
  /// Inputs of whose rows only the direction counts: they may be so large that their sum of squares is beyond a float.
  virtual std::vector<std::string> directions() const { return {}; }

  /// True when upstream() is the backward of a real consumer and end_to_end() exists.
  virtual bool has_consumer() const { return false; }
  /// Cotangents named d<output> in the outputs' units (anchored outputs: d/d of the stored number), dtype f64; the
  /// caller stores them in the dtype it asks for. Zero in dead rows and surplus tiles.
  virtual Tensors upstream(const Problem& problem, const Tensors& inputs, const ConsumerOptions& consumer) const = 0;
  /// The exact float64 gradients d<input> of consumer(forward(inputs)), nothing rounded.
  /// Throws UsageError without a consumer.
  virtual Tensors end_to_end(const Problem& problem, const Tensors& inputs, const ConsumerOptions& consumer) const;

  /// The gradients that a faultless float64 backward forms from `upstream`, multiplying the very operands the consumer
  /// multiplied: what is left between this and end_to_end() is the consumer's own rounding.
  virtual std::optional<Tensors> attainable(const Problem& problem, const Tensors& inputs, const Tensors& upstream,
                                            const ConsumerOptions& consumer) const {
    return std::nullopt;
  }

  /// By name d<param>, from exact gradients of the inputs. Empty: parameters are judged by the error analysis. Whose
  /// errors are judged decides what is independent: the consumer's own, or those of the kernel.
  virtual std::map<std::string, ParameterTerms> parameter_terms(const Problem& problem, const Tensors& inputs,
                                                                const Tensors& gradients, Oracle oracle) const {
    return {};
  }

  /// The forms in which the consumer may hand over its gradients, each as options of the spec and the compiler; of the
  /// problem the sizes and the other options count.
  virtual std::vector<std::map<std::string, std::string>> hand_over_forms(const Problem& problem) const { return {}; }

  /// A bound of its own, on top of the general error analysis; `tensor` is an output or d<input>.
  virtual std::optional<DeclaredBound> bound(const Problem& problem, const std::string& regime,
                                             const std::string& tensor, Oracle oracle,
                                             const ConsumerOptions& consumer) const {
    return std::nullopt;
  }
};

/// The workload registered for a spec name, or the generic one. The reference lives as long as the program.
const Workload& find_workload(const std::string& spec);
/// Inputs N(0,1) within the declared bounds, params N(0,1)/2, cotangents N(0,1) * 2^-exponent. One regime, "normal".
const Workload& generic_workload();

}  // namespace kdagen
