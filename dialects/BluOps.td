// BluOps.td - the records of the op set: name, meaning, operands, attributes, assembly. The rule of an op (shapes,
// gradient, reference, lowering) is the C struct `blu_rule_<name>` in the file ops_<family>.c. See docs/hacking.md.
#ifndef BLU_OPS
#define BLU_OPS
include "mlir/IR/OpBase.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Blu_Dialect : Dialect {
  let name = "blu";
  let cppNamespace = "::blu";
  let summary = "tensor programs that train";
  // Plain attributes: C code reads and writes them by name through the C API.
  let usePropertiesForAttributes = 0;
}

// Types and attributes are judged by the C rule, for the language and for IR alike.
def Blu_Checked : NativeOpTrait<"Checked"> { let cppNamespace = "::blu"; }
def Blu_Tensor : Type<CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">, "tensor">;
// Lists of dimensions or axes, integers, flags, numbers, element types.
defvar Ints = DenseI64ArrayAttr;
defvar Int = I64Attr;
defvar Flag = BoolAttr;
defvar Real = F64Attr;
defvar Elem = TypeAttr;

class Blu_Op<string mnemonic, dag args, list<Trait> traits = []>
    : Op<Blu_Dialect, mnemonic, !listconcat([Blu_Checked], traits)> {
  let arguments = args;
  bit builtin = 1; // a function of the language by this name
  string gradient = ""; // cotangents of the operands, from that of the result (ct), the operands and the result (y); "" = none
}
class Blu_Value<string mnemonic, dag args, list<Trait> traits = []> : Blu_Op<mnemonic, args, !listconcat([Pure], traits)> {
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

// ---- elementwise ----
class Blu_Unary<string mnemonic, string means, string slope = ""> : Blu_Value<mnemonic, (ins Blu_Tensor:$x),
    [SameOperandsAndResultType]> {
  let summary = means;
  let gradient = slope;
  let assemblyFormat = "$x attr-dict `:` type($result)";
}
def Blu_NegOp     : Blu_Unary<"neg", "-x", "-ct">;
def Blu_AbsOp     : Blu_Unary<"abs", "|x|", "ct where x > 0, -ct where x < 0, 0 at 0">;
def Blu_SignOp    : Blu_Unary<"sign", "1 where x > 0, -1 where x < 0; zeros and NaN stay">;
def Blu_FloorOp   : Blu_Unary<"floor", "largest integer that is not greater than x">;
def Blu_ExpOp     : Blu_Unary<"exp", "e^x", "ct y">;
def Blu_LogOp     : Blu_Unary<"log", "natural logarithm: NaN below 0, -inf at 0", "ct / x">;
def Blu_Expm1Op   : Blu_Unary<"expm1", "e^x - 1, precise near 0", "ct (y + 1)">;
def Blu_Log1pOp   : Blu_Unary<"log1p", "log(1 + x), precise near 0: NaN below -1, -inf at -1", "ct / (1 + x)">;
def Blu_SqrtOp    : Blu_Unary<"sqrt", "square root: NaN below 0", "ct / (2 y)">;
def Blu_RsqrtOp   : Blu_Unary<"rsqrt", "1 / sqrt(x)", "-ct y / (2 x)">;
def Blu_SinOp     : Blu_Unary<"sin", "sine of x in radians", "ct cos(x)">;
def Blu_CosOp     : Blu_Unary<"cos", "cosine of x in radians", "-ct sin(x)">;
def Blu_TanhOp    : Blu_Unary<"tanh", "hyperbolic tangent", "ct (1 - y^2)">;
def Blu_SigmoidOp : Blu_Unary<"sigmoid", "1 / (1 + e^-x)", "ct y (1 - y)">;
def Blu_ErfOp     : Blu_Unary<"erf", "error function: 2 / sqrt(pi) times the integral of e^-t^2 from 0 to x",
    "ct 2 / sqrt(pi) e^-x^2">;
def Blu_ReluOp    : Blu_Unary<"relu", "x where x > 0, else 0; NaN stays NaN; the gradient at 0 is 0",
    "ct where x > 0 or NaN, else 0">;
def Blu_NotOp     : Blu_Unary<"not", "logical not"> { let builtin = 0; }

class Blu_Binary<string mnemonic, string means, string slope = "", list<Trait> t = []>
    : Blu_Value<mnemonic, (ins Blu_Tensor:$a, Blu_Tensor:$b), !listconcat([SameOperandsAndResultType], t)> {
  let summary = means;
  let gradient = slope;
  let assemblyFormat = "$a `,` $b attr-dict `:` type($result)";
}
def Blu_AddOp     : Blu_Binary<"add", "a + b", "a: ct; b: ct", [Commutative]> { let builtin = 0; }
def Blu_SubOp     : Blu_Binary<"sub", "a - b", "a: ct; b: -ct"> { let builtin = 0; }
def Blu_MulOp     : Blu_Binary<"mul", "a * b", "a: ct b; b: ct a", [Commutative]> { let builtin = 0; }
def Blu_DivOp     : Blu_Binary<"div", "a / b", "a: ct / b; b: -ct y / b"> { let builtin = 0; }
def Blu_PowOp     : Blu_Binary<"pow", "a^b", "a: ct b a^(b - 1), 0 where b is 0; b: ct y log(a), 0 where y is 0">;
def Blu_MaximumOp : Blu_Binary<"maximum", "the greater of a and b; NaN if either is NaN",
    "ct to the greater, half of it to each of two equals">;
def Blu_MinimumOp : Blu_Binary<"minimum", "the lesser of a and b; NaN if either is NaN",
    "ct to the lesser, half of it to each of two equals">;
def Blu_AndOp     : Blu_Binary<"and", "logical and", "", [Commutative]> { let builtin = 0; }
def Blu_OrOp      : Blu_Binary<"or", "logical or", "", [Commutative]> { let builtin = 0; }

class Blu_Compare<string mnemonic, string means> : Blu_Value<mnemonic, (ins Blu_Tensor:$a, Blu_Tensor:$b)> {
  let summary = means;
  let builtin = 0;
}
def Blu_EqOp : Blu_Compare<"eq", "a == b, a bool">;
def Blu_NeOp : Blu_Compare<"ne", "a != b, a bool; true where either is NaN">;
def Blu_LtOp : Blu_Compare<"lt", "a < b, a bool">;
def Blu_LeOp : Blu_Compare<"le", "a <= b, a bool">;
def Blu_GtOp : Blu_Compare<"gt", "a > b, a bool">;
def Blu_GeOp : Blu_Compare<"ge", "a >= b, a bool">;

def Blu_WhereOp : Blu_Value<"where", (ins Blu_Tensor:$c, Blu_Tensor:$a, Blu_Tensor:$b)> {
  let summary = "a where c is true, else b; the branch not taken passes no gradient and no NaN";
  let gradient = "a: ct where c is true, else 0; b: ct where c is false, else 0";
}
def Blu_CastOp : Blu_Value<"cast", (ins Blu_Tensor:$x, Elem:$to)> {
  let summary = "x as element type `to`; float to integer truncates and saturates, NaN gives 0; bool gives 0 or 1";
  let gradient = "ct as x's element type, if both are floating-point";
  let builtin = 0;
}

def Blu_RoundToOp : Blu_Value<"round_to", (ins Blu_Tensor:$x, Int:$exponent, Int:$mantissa, OptionalAttr<Flag>:$denormals,
    OptionalAttr<Flag>:$saturate)> {
  let summary = "x to the nearest number of the format with so many exponent bits (2 to 8) and mantissa bits (1 to 23), the even one of two "
      "that are as near: as IEEE 754 makes it, bf16 is 8 and 7, f16 5 and 10. denormals (true if not given): else numbers below the least "
      "normal one are 0; saturate (false if not given): what is too large becomes the greatest number, else infinity";
  let gradient = "ct, 0 where |x| is greater than the greatest number";
}

// ---- made from indices, and moved ----
def Blu_ConstantOp : Blu_Value<"constant", (ins Real:$value, Elem:$elem, Ints:$shape)> {
  let summary = "one value everywhere";
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
  let builtin = 0;
}
def Blu_IotaOp : Blu_Value<"iota", (ins Ints:$shape, Int:$axis, Elem:$elem)> {
  let summary = "0, 1, 2, ... along one axis";
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
  let builtin = 0;
}
def Blu_BroadcastOp : Blu_Value<"broadcast", (ins Blu_Tensor:$x, Ints:$shape)> {
  let summary = "x repeated to a shape: last dimensions aligned, sizes equal or 1 in x";
  let gradient = "ct summed over what was repeated";
  let builtin = 0;
}
def Blu_ReshapeOp : Blu_Value<"reshape", (ins Blu_Tensor:$x, Ints:$shape)> {
  let summary = "the same elements in the same order under another shape";
  let gradient = "ct in x's shape";
  let builtin = 0;
}
def Blu_TransposeOp : Blu_Value<"transpose", (ins Blu_Tensor:$x, Ints:$perm)> {
  let summary = "dimension i of the result is dimension perm[i] of x";
  let gradient = "ct transposed by the inverse of perm";
  let builtin = 0;
}

def Blu_SliceOp : Blu_Value<"slice", (ins Blu_Tensor:$x, Ints:$start, Ints:$stop, OptionalAttr<Ints>:$step)> {
  let summary = "per dimension the elements start, start + step, ... before stop; steps of 1 if not given";
  let gradient = "ct with zeros around and between: pad";
  let builtin = 0;
}
def Blu_UpdateSliceOp : Blu_Value<"update_slice", (ins Blu_Tensor:$x, Blu_Tensor:$u, Ints:$start)> {
  let summary = "x with the block u in the place of what stands from start on";
  let gradient = "x: ct with zeros in the place of u; u: that part of ct";
}
def Blu_ConcatOp : Blu_Value<"concat", (ins Blu_Tensor:$a, Blu_Tensor:$b, Int:$axis)> {
  let summary = "a and then b along an axis";
  let gradient = "the parts of ct";
}
def Blu_PadOp : Blu_Value<"pad", (ins Blu_Tensor:$x, Ints:$low, Ints:$high, OptionalAttr<Ints>:$inner,
    OptionalAttr<Real>:$value)> {
  let summary = "x with `low` elements of value before, `high` behind and `inner` between neighbours of each dimension; value "
      "0 if not given";
  let gradient = "the part of ct that x went to: slice";
}
def Blu_GatherOp : Blu_Value<"gather", (ins Blu_Tensor:$x, Blu_Tensor:$ids)> {
  let summary = "rows of x by id: [n, ..] and ids [i..] give [i.., ..]; an id outside of [0, n) gives NaN, in integer tables 0";
  let gradient = "x: the rows of ct added at their ids to zeros, in ascending order: scatter_add";
}
def Blu_ScatterAddOp : Blu_Value<"scatter_add", (ins Blu_Tensor:$x, Blu_Tensor:$ids, Blu_Tensor:$u)> {
  let summary = "x with the rows of u added at their ids, in ascending order of rows; ids outside of [0, n) are left out";
  let gradient = "x: ct; u: the rows of ct by id, 0 where an id is no row";
}
def Blu_TakeAlongOp : Blu_Value<"take_along", (ins Blu_Tensor:$x, Blu_Tensor:$ids)> {
  let summary = "elements of the last dimension by id: x [.., n], ids [.., k]; an id outside of [0, n) gives NaN, in integers 0";
  let gradient = "x: each element gets the sum of ct over the ids that name it";
}
def Blu_TopKOp : Blu_Value<"top_k", (ins Blu_Tensor:$x, Int:$k)> {
  let summary = "indices (i32) of the k greatest elements of the last dimension, greatest first, the earlier of equals first, "
      "NaN greatest";
}

// ---- reductions ----
class Blu_Reduce<string mnemonic, string means, string slope>
    : Blu_Value<mnemonic, (ins Blu_Tensor:$x, OptionalAttr<Ints>:$axis, OptionalAttr<Flag>:$keep)> {
  let summary = means;
  let gradient = slope;
}
def Blu_SumOp  : Blu_Reduce<"sum", "sum over axes (all, if none is given)", "ct, repeated over the axes">;
def Blu_MeanOp : Blu_Reduce<"mean", "mean over axes (all, if none is given)", "ct / n, repeated over the axes">;
def Blu_MaxOp  : Blu_Reduce<"max", "greatest over axes; NaN if any is NaN", "ct to the extremum, in equal parts to equal ones">;
def Blu_MinOp  : Blu_Reduce<"min", "least over axes; NaN if any is NaN", "ct to the extremum, in equal parts to equal ones">;
def Blu_ProdOp : Blu_Reduce<"prod", "product over axes (all, if none is given)",
    "ct times the product of the other factors, right with zeros among them">;
def Blu_LogsumexpOp : Blu_Reduce<"logsumexp",
    "log(sum(e^x)) over axes (all, if none is given), stable for any x; -inf where all x are",
    "ct e^(x - y), 0 where all x are -inf">;
def Blu_CumsumOp : Blu_Value<"cumsum", (ins Blu_Tensor:$x, OptionalAttr<Int>:$axis, OptionalAttr<Flag>:$reverse)> {
  let summary = "running sums along an axis (the last, if none is given), from the end if reverse; added one after another";
  let gradient = "running sums of ct from the other end";
}
def Blu_NormOp : Blu_Reduce<"norm",
    "sqrt(sum(x^2)) over axes (all, if none is given), without overflow; the gradient at 0 is 0", "ct x / y, 0 where y is 0">;
class Blu_Deviation<string mnemonic, string means, string slope>
    : Blu_Value<mnemonic, (ins Blu_Tensor:$x, OptionalAttr<Ints>:$axis, OptionalAttr<Flag>:$keep,
        OptionalAttr<Int>:$correction)> {
  let summary = means;
  let gradient = slope;
}
def Blu_VarianceOp : Blu_Deviation<"variance",
    "sum((x - mean)^2) / (n - correction) over axes (all, if none is given); correction 0 if not given",
    "2 ct (x - mean) / (n - correction)">;
def Blu_StdOp : Blu_Deviation<"std", "sqrt(variance(x)); the gradient at 0 is 0",
    "ct (x - mean) / ((n - correction) y), 0 where y is 0">;
def Blu_ArgmaxOp : Blu_Value<"argmax", (ins Blu_Tensor:$x, OptionalAttr<Int>:$axis)> {
  let summary =
      "index (i32) of the first greatest element along an axis (the last, if none is given); the first NaN if there is one";
}

// ---- matrix product ----
def Blu_MatmulOp : Blu_Value<"matmul", (ins Blu_Tensor:$a, Blu_Tensor:$b, OptionalAttr<Flag>:$ta, OptionalAttr<Flag>:$tb)> {
  let summary = "a @ b: [.., m, k] @ [k, n] or [.., k, n] with the same `..`; ta, tb transpose the last two dimensions first";
  let gradient = "a: ct b^T; b: a^T ct, by the same rule of transposes";
  let description = [{An element is a chain of fused multiply-adds over ascending k that starts at 0 and restarts every 256; the
    partial sums are added in order.}];
  let builtin = 0;
}

// ---- windows over images: x [batch, height, width, channels]; lists of one number stand for both directions ----
defvar Window = OptionalAttr<Ints>;
def Blu_PatchesOp : Blu_Value<"patches", (ins Blu_Tensor:$x, Ints:$kernel, Window:$stride, Window:$pad, Window:$dilation,
    OptionalAttr<Real>:$value)> {
  let summary = "every window of x: [b, oh, ow, kh, kw, c]; what lies in the padding is `value` (0 if not given)";
  let gradient = "unpatch of ct";
  let builtin = 0;
}
def Blu_UnpatchOp : Blu_Value<"unpatch", (ins Blu_Tensor:$x, Ints:$size, Window:$stride, Window:$pad, Window:$dilation)> {
  let summary =
      "the transpose of patches: each element of an image of `size` is the sum of its copies in the windows, in their order";
  let gradient = "patches of ct";
  let builtin = 0;
}
def Blu_Conv2dOp : Blu_Value<"conv2d", (ins Blu_Tensor:$x, Blu_Tensor:$weight, Window:$stride, Window:$pad, Window:$dilation,
    OptionalAttr<Int>:$groups, OptionalAttr<Flag>:$by_image)> {
  let summary = "y[b, i, j, o] = sum over window and channels of x weight; weight [out, channels / groups, kh, kw] as in "
      "PyTorch, x [b, h, w, channels]. by_image: a few images at a time, so that their windows alone are in memory; if not given, "
      "where windows are many";
  let gradient = "x: unpatch of ct weight; weight: patches^T ct";
}
class Blu_Pool<string mnemonic, string means, string slope>
    : Blu_Value<mnemonic, (ins Blu_Tensor:$x, Ints:$kernel, Window:$stride, Window:$pad, Window:$dilation)> {
  let summary = means;
  let gradient = slope;
}
def Blu_MaxPoolOp : Blu_Pool<"max_pool", "greatest of each window; the stride is the kernel if not given; padding never wins",
    "ct to the greatest of each window, in equal parts to equal ones">;
def Blu_AvgPoolOp : Blu_Pool<"avg_pool", "mean of each window; the stride is the kernel if not given; padding counts as zeros",
    "ct / n to every element of a window">;

// ---- composites: expanded before code is made, known by name until then ----
class Blu_Soft<string mnemonic, string means, string slope> : Blu_Value<mnemonic, (ins Blu_Tensor:$x, OptionalAttr<Int>:$axis)> {
  let summary = means;
  let gradient = slope;
}
def Blu_SoftmaxOp    : Blu_Soft<"softmax", "e^x / sum e^x along an axis (the last, if none is given), stable for any x",
    "y (ct - sum(ct y))">;
def Blu_LogSoftmaxOp : Blu_Soft<"log_softmax", "log(softmax(x)), stable for any x", "ct - e^y sum(ct)">;
def Blu_GeluOp     : Blu_Unary<"gelu", "x (1 + erf(x / sqrt(2))) / 2",
    "ct (Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi)), Phi the normal distribution">;
def Blu_GeluTanhOp : Blu_Unary<"gelu_tanh", "x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2: GPT-2's approximation of gelu",
    "ct ((1 + t) / 2 + x (1 - t^2) u' / 2), t = tanh(u)">;
def Blu_StopGradientOp : Blu_Unary<"stop_gradient", "x; what it depends on gets no gradient through it">;
def Blu_SiluOp     : Blu_Unary<"silu", "x sigmoid(x)", "ct s (1 + x (1 - s)), s = sigmoid(x)">;
defvar Eps = OptionalAttr<Real>;
def Blu_LayerNormOp : Blu_Value<"layer_norm", (ins Blu_Tensor:$x, Blu_Tensor:$weight, Blu_Tensor:$bias, Eps:$eps)> {
  let summary = "(x - mean) / sqrt(variance + eps) weight + bias over the last dimension; eps 1e-5 if not given";
  let gradient = "x: r (g - mean(g) - z mean(g z)), g = ct weight, z = (x - mean) r, r = 1 / sqrt(variance + eps); weight: "
      "sum(ct z); bias: sum(ct)";
}
def Blu_RmsNormOp : Blu_Value<"rms_norm", (ins Blu_Tensor:$x, Blu_Tensor:$weight, Eps:$eps)> {
  let summary = "x / sqrt(mean(x^2) + eps) weight over the last dimension; eps 1e-5 if not given";
  let gradient = "x: r (g - z mean(g z)), g = ct weight, z = x r, r = 1 / sqrt(mean(x^2) + eps); weight: sum(ct z)";
}
def Blu_BatchNormOp : Blu_Value<"batch_norm", (ins Blu_Tensor:$x, Blu_Tensor:$weight, Blu_Tensor:$bias, Eps:$eps)> {
  let summary = "(x - mean) / sqrt(variance + eps) weight + bias per channel (last dimension), statistics over all others; eps "
      "1e-5 if not given";
  let gradient = "as of layer_norm, with means over all but the last dimension";
}
def Blu_BatchNormInferOp : Blu_Value<"batch_norm_infer",
    (ins Blu_Tensor:$x, Blu_Tensor:$weight, Blu_Tensor:$bias, Blu_Tensor:$mean, Blu_Tensor:$variance, Eps:$eps)> {
  let summary = "batch_norm with statistics that are given: one mean and one variance per channel";
  let gradient = "of the formula, for all five operands";
}
def Blu_CrossEntropyOp : Blu_Value<"cross_entropy", (ins Blu_Tensor:$logits, Blu_Tensor:$labels)> {
  let summary = "-log(softmax(logits)[label]) per row: logits [.., C], labels [..] in [0, C)";
  let gradient = "logits: ct (softmax(logits) - 1 at the label)";
}

class Blu_Attention<string mnemonic, dag operands, string means, string slope>
    : Blu_Value<mnemonic, !con(operands, (ins OptionalAttr<Flag>:$causal, OptionalAttr<Real>:$scale))> {
  let summary = means;
  let gradient = slope;
}
defvar AttentionMeans =
    "softmax(scale q k^T) v per head: q [b, h, t, d], k and v [b, g, s, d], each g serving h / g heads in order; "
  "causal: query i sees key j where j <= i + s - t; scale 1 / sqrt(d) if not given; a row that sees no key is 0";
def Blu_AttentionOp : Blu_Attention<"attention", (ins Blu_Tensor:$q, Blu_Tensor:$k, Blu_Tensor:$v), AttentionMeans,
    "v: p^T ct; with s = p (ct v^T - sum(ct v^T p)): q: scale s k; k: scale s^T q; p the weights. Rows that see no key pass 0">;
def Blu_MaskedAttentionOp : Blu_Attention<"masked_attention", (ins Blu_Tensor:$q, Blu_Tensor:$k, Blu_Tensor:$v, Blu_Tensor:$mask),
  "attention that sees only keys whose mask is true: a bool that broadcasts to [b, h, t, s]", "as of attention">;
// What attention is made of where a kernel computes it whole: no product of queries and keys is ever in memory.
class Blu_AttentionPart<string mnemonic, dag operands, string means> : Blu_Value<mnemonic, operands> {
  let summary = means;
  let gradient = "of the formula, for all operands but the mask";
  let builtin = 0;
}
defvar AttentionLse = "log(sum(e^score)) over the keys that each query of an attention sees, [b, h, t]; 0 where a query may not see every key and "
    "there is nothing to sum";
def Blu_AttentionLseOp : Blu_AttentionPart<"attention_lse", (ins Blu_Tensor:$q, Blu_Tensor:$k, OptionalAttr<Flag>:$causal, OptionalAttr<Real>:$scale),
    AttentionLse>;
def Blu_MaskedAttentionLseOp : Blu_AttentionPart<"masked_attention_lse",
    (ins Blu_Tensor:$q, Blu_Tensor:$k, Blu_Tensor:$mask, OptionalAttr<Flag>:$causal, OptionalAttr<Real>:$scale),
    "attention_lse of a masked attention">;
defvar AttentionGrad = "the cotangent of q, k or v (`of` 0, 1 or 2) of an attention with the cotangent ct of its result: with p = e^(score - lse) where a "
    "query sees a key, else 0, and ds = scale p (ct v^T - delta): ds k, ds^T q or p^T ct. lse is attention_lse's, delta the sum of ct and the "
    "result's product over the last dimension";
def Blu_AttentionGradOp : Blu_AttentionPart<"attention_grad", (ins Blu_Tensor:$q, Blu_Tensor:$k, Blu_Tensor:$v, Blu_Tensor:$lse, Blu_Tensor:$delta,
    Blu_Tensor:$ct, Int:$of, OptionalAttr<Flag>:$causal, OptionalAttr<Real>:$scale), AttentionGrad>;
def Blu_MaskedAttentionGradOp : Blu_AttentionPart<"masked_attention_grad", (ins Blu_Tensor:$q, Blu_Tensor:$k, Blu_Tensor:$v, Blu_Tensor:$lse,
    Blu_Tensor:$delta, Blu_Tensor:$ct, Blu_Tensor:$mask, Int:$of, OptionalAttr<Flag>:$causal, OptionalAttr<Real>:$scale),
    "attention_grad of a masked attention">;
def Blu_OneHotOp : Blu_Value<"one_hot", (ins Blu_Tensor:$ids, Int:$size, OptionalAttr<Elem>:$elem)> {
  let summary = "1 at the id of each element, else 0: [..] to [.., size]; zeros for an id outside of [0, size); f32 if elem is "
      "not given";
}

// ---- random: Philox4x32-10, a function of key, stream and index alone ----
class Blu_Random<string mnemonic, string means> : Blu_Value<mnemonic, (ins Blu_Tensor:$key, Int:$stream, Ints:$shape)> {
  let summary = means;
  let builtin = 0;
}
def Blu_UniformOp : Blu_Random<"uniform", "uniform in [0, 1), multiples of 2^-24">;
def Blu_NormalOp  : Blu_Random<"normal", "normal with mean 0 and deviation 1 (Box-Muller)">;
def Blu_RandomBitsOp : Blu_Random<"random_bits", "uniform integers in [0, 2^31), an i32">;
class Blu_RandomAt<string mnemonic, string means> : Blu_Value<mnemonic, (ins Blu_Tensor:$key, Blu_Tensor:$low, Blu_Tensor:$high, Ints:$shape)> {
  let summary = means;
  let builtin = 0;
}
def Blu_UniformAtOp : Blu_RandomAt<"uniform_at", "uniform, of the stream low + 2^32 high: as operands, so that streams share their code">;
def Blu_RandomBitsAtOp : Blu_RandomAt<"random_bits_at", "random_bits, of the stream low + 2^32 high: as operands, so that streams share their code">;
def Blu_BernoulliOp : Blu_Value<"bernoulli", (ins Blu_Tensor:$key, Int:$stream, Ints:$shape, Real:$p)> {
  let summary = "true with probability p (a multiple of 2^-31), a bool";
  let builtin = 0;
}
def Blu_DropoutOp : Blu_Value<"dropout", (ins Blu_Tensor:$x, Blu_Tensor:$key, Int:$stream, Real:$p)> {
  let summary = "0 with probability p, else x / (1 - p); an integer comparison decides, the same for the gradient";
  let gradient = "x: ct by the same rule and the same bits";
  let builtin = 0;
}

// ---- the one op with an effect ----
def Blu_GuardOp : Blu_Op<"guard", (ins Variadic<Blu_Tensor>:$checked)> {
  let summary = "what follows changes parameters and state; it is left out when a checked value is not finite";
  let assemblyFormat = "operands attr-dict `:` type(operands)";
  let builtin = 0;
}

// ---- control ----
// Not in the op table: its shapes are those of a function of the module. The C part is scan.c.
def Blu_ScanOp : Op<Blu_Dialect, "scan", [Blu_Checked, Pure]> {
  let summary = "a loop over the leading dimension of tensors, with one body";
  let arguments = (ins FlatSymbolRefAttr:$body, I64Attr:$steps, I64Attr:$carries, I64Attr:$sequences, OptionalAttr<BoolAttr>:$reverse,
      Variadic<Blu_Tensor>:$args);
  let results = (outs Variadic<Blu_Tensor>:$values);
  let assemblyFormat = "$body `(` $args `)` attr-dict `:` functional-type($args, $values)";
}
#endif
