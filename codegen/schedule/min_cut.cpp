// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/min_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

namespace kdagen::schedule {

std::vector<bool> MinCut::source_side() const {
  using namespace boost;
  using Traits = adjacency_list_traits<vecS, vecS, directedS>;
  using EdgeProperty =
      property<edge_capacity_t, double,
               property<edge_residual_capacity_t, double, property<edge_reverse_t, Traits::edge_descriptor>>>;
  using VertexProperty =
      property<vertex_color_t, default_color_type,
               property<vertex_distance_t, long, property<vertex_predecessor_t, Traits::edge_descriptor>>>;
  using Graph = adjacency_list<vecS, vecS, directedS, VertexProperty, EdgeProperty>;
  Graph graph(nodes_);
  auto capacity = get(edge_capacity, graph);
  auto reverse = get(edge_reverse, graph);
  for (const Edge& edge : edges_) {
    auto there = boost::add_edge(edge.from, edge.to, graph).first,
         back = boost::add_edge(edge.to, edge.from, graph).first;
    capacity[there] = edge.weight;
    capacity[back] = 0;
    reverse[there] = back;
    reverse[back] = there;
  }
  boykov_kolmogorov_max_flow(graph, source, sink);
  std::vector<bool> result(nodes_);
  auto color = get(vertex_color, graph);
  for (int node = 0; node < nodes_; ++node) result[node] = color[node] == color[source];
  return result;
}

}  // namespace kdagen::schedule
