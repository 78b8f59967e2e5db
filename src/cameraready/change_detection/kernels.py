"""One step of every confidence sequence, compiled.

A confidence sequence that allows recursion keeps a short row of numbers. `step` folds one
observation into such a row and returns the ends of the interval. All rows begin alike:

====== =====================================
entry  meaning
====== =====================================
0      log(1/alpha) of this sequence
1      m, the number of observations so far
2 …    sums that depend on the kind
====== =====================================

The kinds are told apart by an integer, because numba can keep a compiled function on disk but not
one that was specialised by a closure.

Rows lie one after the other in one flat array `state`; `at` is where a row begins.

`floor` and `ceiling` are the ends already known. A kind whose ends need a root search answers
with them when it cannot improve on them, which spares nearly every search.
"""

import math

import numpy as np

from cameraready.change_detection.compiled import inlined

GAUSSIAN = 1
HOEFFDING = 2
PREDICTABLE_HOEFFDING = 3
EMPIRICAL_BERNSTEIN = 4
BERNOULLI = 5
POISSON = 6
CDF = 7
QUANTILE = 8
KOLMOGOROV_SMIRNOV = 9
REGRESSION = 10
CATONI = 11
VECTOR = 100  # VECTOR + kind: the same kind for every coordinate

LOG_2 = math.log(2.0)
BISECTION_STEPS = 200


@inlined
def add_compensated(state, at, i, value):
    """Kahan's sum: state[at + i] is the sum, state[at + i + 1] what rounding has left out of it."""
    corrected = value - state[at + i + 1]
    total = state[at + i] + corrected
    state[at + i + 1] = (total - state[at + i]) - corrected
    state[at + i] = total


@inlined
def gaussian(state, at, x, params, floor, ceiling):
    """Normal mixture. params: sigma, rho. row: S, compensation.

    The squared half-width exceeds 2 sigma^2 (m + rho) log(1/alpha) / m^2, which spares the
    logarithm and the root wherever that already keeps the ends within the known ones.
    """
    sigma, rho = params[0], params[1]
    state[at + 1] += 1.0
    m = state[at + 1]
    add_compensated(state, at, 2, x)
    total = state[at + 2]
    rise, fall = total - m * floor, m * ceiling - total
    least = 2.0 * sigma * sigma * (m + rho) * state[at]
    if (rise <= 0.0 or rise * rise < least) and (fall <= 0.0 or fall * fall < least):
        return floor, ceiling
    mean = total / m
    half = sigma * math.sqrt((m + rho) * (math.log((m + rho) / rho) + 2.0 * state[at])) / m
    return mean - half, mean + half


@inlined
def hoeffding(state, at, x, params, floor, ceiling):
    """Linear boundaries, one a lambda. params: centre, sigma, lambda_1 … row: S, compensation."""
    centre, sigma = params[0], params[1]
    count = params.shape[0] - 2
    state[at + 1] += 1.0
    m = state[at + 1]
    add_compensated(state, at, 2, x - centre)
    mean = state[at + 2] / m
    half = math.inf
    for k in range(count):
        slope = params[2 + k]
        log_term = LOG_2 + state[at] + math.log(count)
        half = min(half, log_term / (slope * m) + slope * sigma * sigma / 2.0)
    return centre + mean - half, centre + mean + half


@inlined
def predictable_hoeffding(state, at, x, params, floor, ceiling):
    """params: low, width. row: sum of lambda x, of lambda, of lambda^2 / 8."""
    low, width = params[0], params[1]
    state[at + 1] += 1.0
    t = state[at + 1]
    log_term = LOG_2 + state[at]
    bet = math.sqrt(8.0 * log_term / (t * math.log(t + 1.0)))
    state[at + 2] += bet * (x - low) / width
    state[at + 3] += bet
    state[at + 4] += bet * bet / 8.0
    centre = state[at + 2] / state[at + 3]
    half = (log_term + state[at + 4]) / state[at + 3]
    return low + width * (centre - half), low + width * (centre + half)


@inlined
def empirical_bernstein(state, at, x, params, floor, ceiling):
    """params: low, width. row: S, variance sum, sum of lambda x, of lambda, of the deviations."""
    low, width = params[0], params[1]
    z = (x - low) / width
    t = state[at + 1] + 1.0
    mean_before = (0.5 + state[at + 2]) / t
    variance_before = (0.25 + state[at + 3]) / t
    log_term = LOG_2 + state[at]
    bet = min(0.5, math.sqrt(2.0 * log_term / (variance_before * t * math.log(t + 1.0))))
    state[at + 1] = t
    state[at + 2] += z
    mean_after = (0.5 + state[at + 2]) / (t + 1.0)
    state[at + 3] += (z - mean_after) ** 2
    state[at + 4] += bet * z
    state[at + 5] += bet
    state[at + 6] += (z - mean_before) ** 2 * (-math.log1p(-bet) - bet)
    centre = state[at + 4] / state[at + 5]
    half = (log_term + state[at + 6]) / state[at + 5]
    return low + width * (centre - half), low + width * (centre + half)


@inlined
def bernoulli_log_e(p, successes, failures, log_beta):
    """Log of the Beta-binomial mixture's e-value for success probability p."""
    value = log_beta
    if successes > 0.0:
        if p <= 0.0:
            return math.inf
        value -= successes * math.log(p)
    if failures > 0.0:
        if p >= 1.0:
            return math.inf
        value -= failures * math.log1p(-p)
    return value


@inlined
def bernoulli_end(outside, inside, state, at):
    """Bisection for the end between a rejected and an accepted success probability."""
    for _ in range(BISECTION_STEPS):
        middle = 0.5 * (outside + inside)
        if middle in (outside, inside):
            break
        if (
            bernoulli_log_e(middle, state[at + 2], state[at + 1] - state[at + 2], state[at + 3])
            >= state[at]
        ):
            outside = middle
        else:
            inside = middle
    return outside


@inlined
def bernoulli(state, at, x, params, floor, ceiling):
    """Beta-binomial mixture. params: a, b. row: S, log B(a+S, b+m-S) - log B(a, b)."""
    a, b = params[0], params[1]
    weight = a + state[at + 2] if x > 0.5 else b + state[at + 1] - state[at + 2]
    state[at + 3] += math.log(weight / (a + b + state[at + 1]))
    state[at + 1] += 1.0
    state[at + 2] += x
    successes, failures = state[at + 2], state[at + 1] - state[at + 2]
    mode = successes / state[at + 1]
    low, high = max(floor, 0.0), min(ceiling, 1.0)
    if low < mode and bernoulli_log_e(low, successes, failures, state[at + 3]) >= state[at]:
        low = bernoulli_end(low, mode, state, at)
    if high > mode and bernoulli_log_e(high, successes, failures, state[at + 3]) >= state[at]:
        high = bernoulli_end(high, mode, state, at)
    return low, high


@inlined
def poisson_log_e(rate, state, at):
    """Log of the Gamma mixture's e-value for the given rate."""
    if rate <= 0.0:
        return math.inf if state[at + 2] > 0.0 else state[at + 3]
    return state[at + 3] - state[at + 2] * math.log(rate) + state[at + 1] * rate


@inlined
def poisson_end(outside, inside, state, at):
    """Bisection for the end between a rejected and an accepted rate."""
    for _ in range(BISECTION_STEPS):
        middle = 0.5 * (outside + inside)
        if middle in (outside, inside):
            break
        if poisson_log_e(middle, state, at) >= state[at]:
            outside = middle
        else:
            inside = middle
    return outside


@inlined
def poisson(state, at, x, params, floor, ceiling):
    """Gamma mixture. params: a, b. row: S, log of the mixture's part that has no rate in it."""
    a, b = params[0], params[1]
    state[at + 1] += 1.0
    state[at + 2] += x
    m, total = state[at + 1], state[at + 2]
    state[at + 3] = math.lgamma(a + total) - math.lgamma(a) + a * math.log(b)
    state[at + 3] -= (a + total) * math.log(b + m)
    mode = total / m
    low, high = max(floor, 0.0), ceiling
    if low < mode and poisson_log_e(low, state, at) >= state[at]:
        low = poisson_end(low, mode, state, at)
    if high > mode:
        if high == math.inf:
            outside = 2.0 * mode + 1.0
            while poisson_log_e(outside, state, at) < state[at]:
                outside *= 2.0
            high = poisson_end(outside, mode, state, at)
        elif poisson_log_e(high, state, at) >= state[at]:
            high = poisson_end(high, mode, state, at)
    return low, high


@inlined
def dkw_half_width(m, log_inverse_alpha):
    """Dvoretzky-Kiefer-Wolfowitz with a union over m: sqrt(log(2 m^2 pi^2 / (6 alpha)) / (2 m))."""
    log_term = math.log(2.0 * m * m * math.pi * math.pi / 6.0) + log_inverse_alpha
    return math.sqrt(log_term / (2.0 * m))


@inlined
def cdf(state, at, x, params, low, high):
    """Band around the empirical distribution function. params: grid. row: counts of x <= grid."""
    points = params.shape[0]
    state[at + 1] += 1.0
    m = state[at + 1]
    half = dkw_half_width(m, state[at])
    for j in range(points):
        if x <= params[j]:
            state[at + 2 + j] += 1.0
        share = state[at + 2 + j] / m
        low[j] = max(share - half, 0.0)
        high[j] = min(share + half, 1.0)


@inlined
def quantile(state, at, x, params, floor, ceiling):
    """The band inverted at level p. params: p, grid. row: counts of x <= grid.

    F(g) + w < p proves that the quantile lies strictly above the grid point g: the lower end is
    then the next number after g, so that two intervals that touch at g are disjoint.
    """
    level = params[0]
    points = params.shape[0] - 1
    state[at + 1] += 1.0
    m = state[at + 1]
    half = dkw_half_width(m, state[at])
    low, high = -math.inf, math.inf
    for j in range(points):
        if x <= params[1 + j]:
            state[at + 2 + j] += 1.0
        share = state[at + 2 + j] / m
        if share + half < level:
            low = np.nextafter(params[1 + j], math.inf)
        if high == math.inf and share - half >= level:
            high = params[1 + j]
    return low, high


@inlined
def kolmogorov_smirnov(state, at, x, y, params):
    """Largest distance of two distribution functions over the grid. row: counts of x, of y."""
    points = params.shape[0]
    state[at + 1] += 1.0
    m = state[at + 1]
    half = 2.0 * dkw_half_width(m, state[at] + LOG_2)
    largest = 0.0
    for j in range(points):
        if x <= params[j]:
            state[at + 2 + j] += 1.0
        if y <= params[j]:
            state[at + 2 + points + j] += 1.0
        largest = max(largest, abs(state[at + 2 + j] - state[at + 2 + points + j]) / m)
    return max(largest - half, 0.0), min(largest + half, 1.0)


@inlined
def ridge_update(state, at, x, dimension):
    """Rank-one update of ridge regression with (x_1 … x_d, y) by Sherman and Morrison.

    row: log det(V) - d log(ridge), sum of x y (d), inverse of V (d * d), V (d * d numbers).
    """
    state[at + 1] += 1.0
    inverse = at + 3 + dimension
    direction = np.zeros(dimension)
    gain = 1.0
    for i in range(dimension):
        for j in range(dimension):
            direction[i] += state[inverse + i * dimension + j] * x[j]
        gain += x[i] * direction[i]
        state[at + 3 + i] += x[dimension] * x[i]
    state[at + 2] += math.log(gain)
    for i in range(dimension):
        for j in range(dimension):
            entry = i * dimension + j
            state[inverse + entry] -= direction[i] * direction[j] / gain
            state[inverse + dimension * dimension + entry] += x[i] * x[j]


@inlined
def ridge_radius(state, at, sigma, bound, ridge):
    """Radius of the self-normalised ellipsoid around the ridge estimate."""
    return sigma * math.sqrt(2.0 * state[at] + state[at + 2]) + math.sqrt(ridge) * bound


@inlined
def regression(state, at, x, params, low, high):
    """Contrasts of the regression coefficients. params: sigma, bound, ridge, d, contrasts."""
    dimension = int(params[3])
    ridge_update(state, at, x, dimension)
    radius = ridge_radius(state, at, params[0], params[1], params[2])
    inverse = at + 3 + dimension
    for c in range(low.shape[0]):
        contrast = params[4 + c * dimension : 4 + (c + 1) * dimension]
        centre, variance = 0.0, 0.0
        for i in range(dimension):
            projected = 0.0
            for j in range(dimension):
                projected += state[inverse + i * dimension + j] * contrast[j]
            centre += projected * state[at + 3 + i]
            variance += projected * contrast[i]
        half = radius * math.sqrt(variance)
        low[c] = centre - half
        high[c] = centre + half


@inlined
def catoni_sum(theta, state, at, variance, log_term):
    """Sum of phi(lambda_i (x_i - theta)), and half the variance times the sum of lambda_i^2."""
    total, spread = 0.0, 0.0
    for i in range(int(state[at + 1])):
        squared = 2.0 * log_term / ((i + 1.0) * variance)
        z = math.sqrt(squared) * (state[at + 2 + i] - theta)
        total += math.copysign(math.log1p(abs(z) + 0.5 * z * z), z)
        spread += 0.5 * variance * squared
    return total, spread


@inlined
def catoni_end(outside, inside, sign, state, at, variance, log_term):
    """Bisection for the end between a rejected and an accepted mean."""
    for _ in range(BISECTION_STEPS):
        middle = 0.5 * (outside + inside)
        if middle in (outside, inside):
            break
        total, spread = catoni_sum(middle, state, at, variance, log_term)
        if sign * total >= log_term + spread:
            outside = middle
        else:
            inside = middle
    return outside


@inlined
def catoni(state, at, x, params, floor, ceiling):
    """Catoni's M-estimator. params: variance, window. row: the values of the window.

    A sequence that has filled its window stands still: it keeps the interval it has reached.
    """
    variance, window = params[0], int(params[1])
    if state[at + 1] >= window:
        return floor, ceiling
    state[at + 2 + int(state[at + 1])] = x
    state[at + 1] += 1.0
    log_term = LOG_2 + state[at]
    # The sum falls in theta: it is not positive at the largest value, not negative at the least.
    least, largest = state[at + 2], state[at + 2]
    for i in range(1, int(state[at + 1])):
        least = min(least, state[at + 2 + i])
        largest = max(largest, state[at + 2 + i])
    low, high = floor, ceiling
    reach = math.sqrt(variance)
    while low == -math.inf:
        total, spread = catoni_sum(least - reach, state, at, variance, log_term)
        if total >= log_term + spread:
            low = least - reach
        reach *= 2.0
    total, spread = catoni_sum(low, state, at, variance, log_term)
    if total >= log_term + spread:
        low = catoni_end(low, largest, 1.0, state, at, variance, log_term)
    reach = math.sqrt(variance)
    while high == math.inf:
        total, spread = catoni_sum(largest + reach, state, at, variance, log_term)
        if -total >= log_term + spread:
            high = largest + reach
        reach *= 2.0
    total, spread = catoni_sum(high, state, at, variance, log_term)
    if -total >= log_term + spread:
        high = catoni_end(high, least, -1.0, state, at, variance, log_term)
    return low, high


@inlined
def scalar_step(kind, state, at, x, params, floor, ceiling):
    """Fold one number into a row; the ends of the interval."""
    if kind == GAUSSIAN:
        return gaussian(state, at, x, params, floor, ceiling)
    if kind == EMPIRICAL_BERNSTEIN:
        return empirical_bernstein(state, at, x, params, floor, ceiling)
    if kind == HOEFFDING:
        return hoeffding(state, at, x, params, floor, ceiling)
    if kind == PREDICTABLE_HOEFFDING:
        return predictable_hoeffding(state, at, x, params, floor, ceiling)
    if kind == BERNOULLI:
        return bernoulli(state, at, x, params, floor, ceiling)
    if kind == POISSON:
        return poisson(state, at, x, params, floor, ceiling)
    if kind == QUANTILE:
        return quantile(state, at, x, params, floor, ceiling)
    return catoni(state, at, x, params, floor, ceiling)


@inlined
def step(kind, state, at, width, x, params, floor, ceiling, low, high):
    """Fold one observation into a row and write the interval's ends.

    Parameters
    ----------
    kind : int
        One of the kinds above.
    state : float64 array
        Rows one after the other, changed in place.
    at, width : int
        Where the row begins and how long it is.
    x : float64 array, (entries of one observation,)
    params : float64 array
        The kind's parameters.
    floor, ceiling : float64 array, (ends,)
        Ends already known.
    low, high : float64 array, (ends,)
        Where the new ends are written.
    """
    if kind > VECTOR:
        dimension = low.shape[0]
        part = width // dimension
        for j in range(dimension):
            low[j], high[j] = scalar_step(
                kind - VECTOR, state, at + j * part, x[j], params, floor[j], ceiling[j]
            )
    elif kind == CDF:
        cdf(state, at, x[0], params, low, high)
    elif kind == REGRESSION:
        regression(state, at, x, params, low, high)
    elif kind == KOLMOGOROV_SMIRNOV:
        low[0], high[0] = kolmogorov_smirnov(state, at, x[0], x[1], params)
    else:
        low[0], high[0] = scalar_step(kind, state, at, x[0], params, floor[0], ceiling[0])


@inlined
def run_one(kind, xs, params, row, nested, lower, upper):
    """One sequence over all observations; writes both ends, (observations, ends)."""
    dimension = lower.shape[1]
    floor, ceiling = np.full(dimension, -np.inf), np.full(dimension, np.inf)
    low, high = np.empty(dimension), np.empty(dimension)
    for i in range(xs.shape[0]):
        step(kind, row, 0, row.shape[0], xs[i], params, floor, ceiling, low, high)
        for j in range(dimension):
            if nested:
                floor[j] = max(floor[j], low[j])
                ceiling[j] = min(ceiling[j], high[j])
                lower[i, j], upper[i, j] = floor[j], ceiling[j]
            else:
                lower[i, j], upper[i, j] = low[j], high[j]
