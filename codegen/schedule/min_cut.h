// SPDX-License-Identifier: Apache-2.0
// Two-way labelling of least cost.
#pragma once
#include <memory>
#include <vector>

namespace kdagen::schedule {

/// A directed graph between a source and a sink; cutting an edge from the source's side to the sink's costs its weight.
class MinCut {
 public:
  static constexpr int source = 0, sink = 1;
  static constexpr double never = 1e9;
  int add_node() { return nodes_++; }
  void add_edge(int from, int to, double weight) { edges_.push_back({from, to, weight}); }
  /// Solves; true for the nodes on the source's side.
  std::vector<bool> source_side() const;

 private:
  struct Edge {
    int from, to;
    double weight;
  };
  int nodes_ = 2;
  std::vector<Edge> edges_;
};

}  // namespace kdagen::schedule
