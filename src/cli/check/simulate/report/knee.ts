/** One limit, and the share of events that it discards, from 0 to 1. */
export interface LossPoint {
  readonly limit: number
  readonly loss: number
}

/** How far below the chord a knee has to be, as a part of the height of the curve. Less is no bend that one could see. */
const LEAST_BEND = 0.05

/**
 * The knee of a curve of loss against limit: the limit beyond which a higher one saves little more.
 *
 * The curve is taken as it is drawn: over the logarithm of the limit, and scaled so that it leads from (0, 1) at the
 * lowest limit to (1, 0) at the highest. The knee is the point farthest below the straight line between these two. That
 * point lies on the lower convex hull, so points that noise lifts above their neighbours do not matter. Returns its
 * index; undefined if there are fewer than three limits, if the loss does not fall, or if the curve does not bend
 * towards the origin.
 *
 * `points` are in the order of their limits, and no two limits are equal.
 */
export function kneeOf(points: readonly LossPoint[]): number | undefined {
  const [first, last] = [points[0], points.at(-1)]
  if (!first || !last || points.length < 3 || first.loss <= last.loss) return undefined
  const width = Math.log(last.limit / first.limit)
  const height = first.loss - last.loss
  let knee: number | undefined
  let most = LEAST_BEND
  for (const [i, { limit, loss }] of points.entries()) {
    const below = 1 - Math.log(limit / first.limit) / width - (loss - last.loss) / height
    if (below <= most) continue
    most = below
    knee = i
  }
  return knee
}
