// Package randtest gives tests random numbers that repeat: each run of a test has the same ones,
// unless the environment variable LANDFALL_TEST_SEED names another seed.
package randtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const variable = "LANDFALL_TEST_SEED"

// Seed returns the seed, 1 by default. A test that fails prints it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv(variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d go test … repeats this run.", variable, seed)
		}
	})
	return seed
}

// New returns the random numbers of one stream. Streams are independent of each other.
func New(t testing.TB, stream uint64) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), stream))
}
