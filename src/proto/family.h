// Families: reductions over elements of one size, one of which is chosen at run time by its place in the list.
//
// An algorithm is compiled once a family. What differs between its reductions are inner loops, functions of their own
// (GC_NOINLINE): the choice is made outside of them.
//
//   Family<Sum<float>, Prod<float>, ...>   all elements have one size, and either all have padding or none has
//   Bytes                                  no reductions: pure movement
//
// Both have Element, for its size and padding, and kOps, the number of reductions.
// Thread safety: types and pure functions.
#pragma once
#include "proto/reduce_copy.h"

namespace gpucoll::proto {

struct Bytes {
  using Element = uint8_t;
  static constexpr int kOps = 0;
};

// The I-th of a list of types.
template <int I, class First, class... Rest>
struct TypeAt : TypeAt<I - 1, Rest...> {};
template <class First, class... Rest>
struct TypeAt<0, First, Rest...> {
  using Type = First;
};

template <class... Reds>
struct Family {
  template <int I>
  using At = typename TypeAt<I, Reds...>::Type;
  using Element = typename At<0>::Element;
  static constexpr int kOps = sizeof...(Reds);
  static_assert(((sizeof(typename Reds::Element) == sizeof(Element)) && ...));
  static_assert(((kPadded<typename Reds::Element> == kPadded<Element>)&&...));

  // Which have a hook: bit i for the reduction at place i.
  static constexpr uint32_t kPre = [](uint32_t bit = 1, uint32_t bits = 0) {
    ((bits |= kHasPre<Reds> ? bit : 0, bit <<= 1), ...);
    return bits;
  }();
  static constexpr uint32_t kPost = [](uint32_t bit = 1, uint32_t bits = 0) {
    ((bits |= kHasPost<Reds> ? bit : 0, bit <<= 1), ...);
    return bits;
  }();
  static_assert(kOps <= 32);

  // Calls visitor.visit<Red>() for the reduction at place `op`. REQUIRES: op < kOps.
  template <class Visitor>
  static GC_DEV void choose(uint8_t op, const Visitor& visitor) {
    choose_among<0, kOps>(op, visitor);
  }

 private:
  template <int kFirst, int kCount, class Visitor>
  static GC_DEV void choose_among(uint8_t op, const Visitor& visitor) {
    if constexpr (kCount == 1) {
      visitor.template visit<At<kFirst>>();
    } else if (op < kFirst + kCount / 2) {
      choose_among<kFirst, kCount / 2>(op, visitor);
    } else {
      choose_among<kFirst + kCount / 2, kCount - kCount / 2>(op, visitor);
    }
  }
};

// The place of a reduction in its family: family_place<Sum<float>>(Family<...>{}).
template <class Red, class... Reds>
constexpr int family_place(Family<Reds...>) {
  int place = 0, found = -1;
  ((found = std::is_same_v<Red, Reds> ? place : found, ++place), ...);
  return found;
}

// A reduction like others, but chosen at run time: that of a Family at the place Reduction::op. For where code is to be
// compiled once a family that is compiled once a reduction elsewhere.
template <class Family>
struct OneOf {
  using Element = typename Family::Element;
};

template <class Red>
inline constexpr bool kChosen = false;
template <class Family>
inline constexpr bool kChosen<OneOf<Family>> = true;

// The family that a reduction is chosen from: itself alone, or OneOf's.
template <class Red>
struct FamilyToChooseFrom {
  using Type = Family<Red>;
};
template <class Family>
struct FamilyToChooseFrom<OneOf<Family>> {
  using Type = Family;
};

// The hooks of the reduction that is chosen, for a pack.
template <class Family>
struct PackUnit<OneOf<Family>> {
  static GC_DEV Pack apply(const Pack& a, const Pack& b, const Reduction& reduction) {
    return chosen(Apply{a, b}, reduction);
  }
  static GC_DEV Pack pre(const Pack& pack, const Reduction& reduction) {
    return chosen(Pre{pack, reduction}, reduction);
  }
  static GC_DEV Pack post(const Pack& pack, const Reduction& reduction) {
    return chosen(Post{pack, reduction}, reduction);
  }

 private:
  struct Apply {
    const Pack &a, &b;
    template <class Red>
    GC_DEV Pack of() const {
      return PackUnit<Red>::apply(a, b);
    }
  };
  struct Pre {
    const Pack& pack;
    const Reduction& reduction;
    template <class Red>
    GC_DEV Pack of() const {
      return PackUnit<Red>::pre(pack, reduction);
    }
  };
  struct Post {
    const Pack& pack;
    const Reduction& reduction;
    template <class Red>
    GC_DEV Pack of() const {
      return PackUnit<Red>::post(pack, reduction);
    }
  };
  template <class Hook>
  struct Visitor {
    const Hook& hook;
    Pack& result;
    template <class Red>
    GC_DEV void visit() const {
      result = hook.template of<Red>();
    }
  };
  template <class Hook>
  static GC_DEV Pack chosen(const Hook& hook, const Reduction& reduction) {
    Pack result;
    Family::choose(reduction.op, Visitor<Hook>{hook, result});
    return result;
  }
};

template <int kSources>
struct ReduceCopyVisitor {
  const Lane& lane;
  const Operands& operands;
  uint64_t n;
  const Reduction& reduction;
  template <class Red>
  GC_DEV void visit() const {
    // One source is copied where there is no hook.
    if constexpr (kSources > 1 || kHasPre<Red> || kHasPost<Red>) {
      reduce_copy_by<Red, kSources>(lane, operands, n, reduction);
    }
  }
};

// reduce_copy.h, with the reduction chosen here; a copy where there is nothing to compute, and nothing where the last
// destination, the output of algorithms in place, would be copied onto itself. kMostSources: REQUIRES n_from <= that.
template <class Family, int kMostSources = kMaxSources, class Coop>
GC_DEV void reduce_copy(const Coop& coop, Operands operands, uint64_t n, const Reduction& reduction) {
  if (operands.n_from == 0 || operands.n_to == 0) return;
  const Lane lane{static_cast<uint32_t>(coop.rank()), static_cast<uint32_t>(coop.size())};
  if constexpr (Family::kOps > 0) {
    const uint8_t op = reduction.op;
    if constexpr (kMostSources > 2) {
      if (operands.n_from > 2) return Family::choose(op, ReduceCopyVisitor<3>{lane, operands, n, reduction});
    }
    if (operands.n_from > 1) return Family::choose(op, ReduceCopyVisitor<2>{lane, operands, n, reduction});
    const bool pre = operands.n_raw > 0 && (Family::kPre >> op & 1) != 0;
    const bool post = operands.complete && (Family::kPost >> op & 1) != 0;
    if (pre || post) return Family::choose(op, ReduceCopyVisitor<1>{lane, operands, n, reduction});
  }
  operands.n_to -= operands.last_is(operands.from[0]);
  if (operands.n_to > 0) copy_elements<typename Family::Element>(lane, operands, n);
}

}  // namespace gpucoll::proto
