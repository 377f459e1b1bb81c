//go:build race

package engine

// usualWalks is how many walks there are when nobody says otherwise: ten times fewer under the race detector, which makes each
// ten times slower and finds nothing more in the others.
const usualWalks = 1_000
