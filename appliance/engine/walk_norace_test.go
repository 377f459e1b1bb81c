//go:build !race

package engine

// usualWalks is how many walks there are when nobody says otherwise.
const usualWalks = 10_000
