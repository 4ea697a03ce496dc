//===- Lanes.h - Times of several scenarios at once -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A walk over a table is written once for a type of times: int64_t for one
// scenario, Lanes<N> for N scenarios that differ only in costs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_WALK_LANES_H
#define PIPESCHED_SCHEDULE_WALK_LANES_H

#include <algorithm>
#include <cstdint>

namespace pipesched {

/// Picoseconds of N scenarios, where N is a power of two. They are doubles,
/// because every x86-64 has an instruction for the maximum of doubles but not
/// of 64-bit integers. Doubles hold integers below kExactPs exactly. Clocks
/// only grow, so if the last time of a lane is below kExactPs, all earlier
/// times were exact.
template <unsigned N>
struct Lanes {
  using Vector = double __attribute__((vector_size(N * sizeof(double))));

  Lanes() = default;
  explicit Lanes(int64_t ps) : values(Vector{} + static_cast<double>(ps)) {}
  explicit Lanes(const Vector &values) : values(values) {}

  Lanes &operator+=(const Lanes &other) {
    values += other.values;
    return *this;
  }
  friend Lanes operator+(const Lanes &a, const Lanes &b) {
    return Lanes(a.values + b.values);
  }
  friend Lanes operator-(const Lanes &a, const Lanes &b) {
    return Lanes(a.values - b.values);
  }
  friend bool operator==(const Lanes &a, const Lanes &b) {
    for (unsigned i = 0; i != N; ++i)
      if (a.values[i] != b.values[i])
        return false;
    return true;
  }

  Vector values = {};
};

/// From this value on, a double may differ from the integer.
inline constexpr int64_t kExactPs = int64_t(1) << 53;

template <typename Time>
inline constexpr unsigned kNumScenarios = 1;
template <unsigned N>
inline constexpr unsigned kNumScenarios<Lanes<N>> = N;

inline int64_t laneOf(int64_t time, unsigned) { return time; }
inline void setLane(int64_t &time, unsigned, int64_t ps) { time = ps; }
template <unsigned N>
int64_t laneOf(const Lanes<N> &times, unsigned lane) {
  return static_cast<int64_t>(times.values[lane]);
}
template <unsigned N>
void setLane(Lanes<N> &times, unsigned lane, int64_t ps) {
  times.values[lane] = static_cast<double>(ps);
}

/// The later of two times, lane by lane; `earlier` is its counterpart.
inline int64_t later(int64_t a, int64_t b) { return std::max(a, b); }
inline int64_t earlier(int64_t a, int64_t b) { return std::min(a, b); }
template <unsigned N>
Lanes<N> later(const Lanes<N> &a, const Lanes<N> &b) {
  return Lanes<N>(a.values < b.values ? b.values : a.values);
}
template <unsigned N>
Lanes<N> earlier(const Lanes<N> &a, const Lanes<N> &b) {
  return Lanes<N>(b.values < a.values ? b.values : a.values);
}

/// Returns `then` in the lanes where both times are equal, else `otherwise`.
inline int64_t whereEqual(int64_t a, int64_t b, int64_t then,
                          int64_t otherwise) {
  return a == b ? then : otherwise;
}
template <unsigned N>
Lanes<N> whereEqual(const Lanes<N> &a, const Lanes<N> &b, const Lanes<N> &then,
                    const Lanes<N> &otherwise) {
  return Lanes<N>(a.values == b.values ? then.values : otherwise.values);
}

/// Returns `then` in the lanes where `a` is later than `b`, else `otherwise`.
inline int64_t whereLater(int64_t a, int64_t b, int64_t then,
                          int64_t otherwise) {
  return a > b ? then : otherwise;
}
template <unsigned N>
Lanes<N> whereLater(const Lanes<N> &a, const Lanes<N> &b, const Lanes<N> &then,
                    const Lanes<N> &otherwise) {
  return Lanes<N>(a.values > b.values ? then.values : otherwise.values);
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_WALK_LANES_H
